package risk

import (
	"net/http"
	"slices"
)

// byScopes judges by the words of OAuth scopes. It decides nothing where words and scopes contradict each other. Scopes
// that permit reading only lower a call only if its document is trusted.
func (c *Call) byScopes(words *Risk) (Risk, bool) {
	if len(c.Scopes) == 0 {
		return Risk{}, false
	}
	read, admin := true, ""
	for _, scope := range c.Scopes {
		w := wordsOf(scope)
		if !containsAny(w, "read", "reads", "readonly", "view", "viewer", "search") ||
			containsAny(w, "write", "manage", "admin", "delete", "edit", "modify", "full") {
			read = false
		}
		if containsAny(w, "admin", "owner") && admin == "" {
			admin = scope
		}
	}
	switch {
	case read && c.Trusted && !c.Writes && words.Level == Medium && c.Method == http.MethodPost &&
		words.changesNothingElse():
		return Risk{Level: Low, Operation: Read, Source: FromScopes, Confidence: 0.8,
			Reasons: []string{"The scopes that it needs permit reading only."}}, true
	case admin != "" && words.Operation != Read && High.Above(words.Level):
		return Risk{Level: High, Operation: words.Operation, Source: FromScopes, Confidence: 0.8,
			Reasons: []string{"It needs the scope " + admin + "."}}, true
	default:
		return Risk{}, false
	}
}

// changesNothingElse reports whether no flag says that a call does more than it seems.
func (r *Risk) changesNothingElse() bool {
	return !slices.ContainsFunc(r.Flags, func(f Flag) bool { return f != Idempotent && f != ReturnsPII })
}

func containsAny(words []string, of ...string) bool {
	return slices.ContainsFunc(of, func(w string) bool { return slices.Contains(words, w) })
}
