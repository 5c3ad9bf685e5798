package access

import (
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
)

// Call is a call to a provider as grants see it.
type Call struct {
	// Action is provider_config_key/action.
	Action string
	// Method is the method of its request, and Risk the level of its risk. Both are empty for an action that is not known,
	// and then match every grant.
	Method, Risk string
}

// RiskLevels returns the levels of risk that a grant can name, from the lowest. A level that is unknown is as high as
// high.
func RiskLevels() []string { return []string{"low", "medium", "high", "critical"} }

const unknownRisk = "unknown"

func rankOf(level string) int {
	if level == unknownRisk {
		level = "high"
	}
	if rank := slices.Index(RiskLevels(), level); rank >= 0 {
		return rank
	}
	return len(RiskLevels()) // a level of a later release
}

// CallLimits narrow a grant to some calls. A field that is empty does not.
type CallLimits struct {
	// Actions are patterns of provider_config_key/action; * in a part stands for any characters.
	Actions []string `json:"actions,omitempty"`
	// Methods are methods of HTTP in upper case.
	Methods []string `json:"methods,omitempty"`
	// MaxRisk is the highest level of risk.
	MaxRisk string `json:"max_risk,omitempty"`
}

// Empty reports whether the limits narrow nothing.
func (l *CallLimits) Empty() bool {
	return l == nil || len(l.Actions) == 0 && len(l.Methods) == 0 && l.MaxRisk == ""
}

func (l *CallLimits) match(c Call) bool {
	if l.Empty() {
		return true
	}
	if len(l.Actions) > 0 && !slices.ContainsFunc(l.Actions, func(pattern string) bool {
		return MatchAction(pattern, c.Action)
	}) {
		return false
	}
	if len(l.Methods) > 0 && c.Method != "" && !slices.Contains(l.Methods, c.Method) {
		return false
	}
	return l.MaxRisk == "" || c.Risk == "" || rankOf(c.Risk) <= rankOf(l.MaxRisk)
}

// MatchAction reports whether a pattern of provider_config_key/action matches such a name. A * in either part stands
// for any characters of it.
func MatchAction(pattern, name string) bool {
	patternKey, patternAction, _ := strings.Cut(pattern, "/")
	key, action, _ := strings.Cut(name, "/")
	return matchPart(patternKey, key) && matchPart(patternAction, action)
}

// matchPart matches a text with a pattern in which * stands for any characters.
func matchPart(pattern, text string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == text
	}
	first, last := pieces[0], pieces[len(pieces)-1]
	if !strings.HasPrefix(text, first) || len(text) < len(first)+len(last) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, piece := range pieces[1 : len(pieces)-1] {
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}

// CallGrant is a grant for calls, on a route that opens them.
type CallGrant struct {
	Deny        bool
	Connections Bound
	Limits      *CallLimits
}

// RequireCall returns nil if the principal may make a call through a connection. An API key needs a grant of the route
// that matches the call, and none that denies it. Otherwise it returns grant_denied.
func (p Principal) RequireCall(route Route, connectionID string, c Call) error {
	if p.Kind != KindAPIKey || p.Grants.allows(route, connectionID, c) {
		return nil
	}
	return apperr.New(apperr.CodeGrantDenied, "The API key has no grant for the route "+string(route)+
		" that permits this action on this connection")
}

func (r *Grants) allows(route Route, connectionID string, c Call) bool {
	if r == nil {
		return false
	}
	allowed := false
	for i := range r.calls[route] {
		g := &r.calls[route][i]
		if !g.Connections.Contains(connectionID) || !g.Limits.match(c) {
			continue
		}
		if g.Deny {
			return false
		}
		allowed = true
	}
	return allowed
}

// WithCalls returns the grants with those for calls of a route.
func (r *Grants) WithCalls(route Route, list []CallGrant) *Grants {
	if len(list) > 0 {
		r.calls = map[Route][]CallGrant{route: list}
	}
	return r
}
