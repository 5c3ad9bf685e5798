package connecting

import (
	"slices"
	"strings"
)

// NotGranted returns the scopes that were asked for and that no granted one stands for; none if it is not known what
// was granted. Providers return them in other words: as URLs (Microsoft), without those that are about the protocol
// (OpenID Connect Core 1.0, sections 5.4 and 11), and without those that another one includes (GitHub).
func NotGranted(requested, granted []string) []string {
	if len(granted) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(requested), func(scope string) bool {
		switch plainScope(scope) {
		case "openid", "profile", "email", "address", "phone", "offline_access", "offline", "refresh_token":
			return true
		}
		return slices.ContainsFunc(granted, func(g string) bool { return includes(plainScope(g), plainScope(scope)) })
	})
}

// plainScope is a scope in lower case, without the URL of the API that it is for.
func plainScope(scope string) string {
	scope = strings.TrimSuffix(strings.ToLower(scope), "/")
	if strings.Contains(scope, "://") {
		scope = scope[strings.LastIndexByte(scope, '/')+1:]
	}
	return scope
}

// includes reports whether a scope is another or includes it: "user" has "user:email", "write:org" has "read:org", and
// "repo" has "public_repo".
func includes(granted, scope string) bool {
	if granted == scope || strings.HasPrefix(scope, granted+":") || scope == "public_"+granted {
		return true
	}
	level, object, found := strings.Cut(granted, ":")
	lower, same, _ := strings.Cut(scope, ":")
	return found && object == same && slices.Index(scopeLevels(), lower) > slices.Index(scopeLevels(), level) &&
		slices.Contains(scopeLevels(), level)
}

// scopeLevels are what scopes begin with that include one another, the most powerful first.
func scopeLevels() []string { return []string{"admin", "manage", "write", "read"} }
