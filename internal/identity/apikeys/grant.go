package apikeys

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
)

// Effect says whether a grant opens its routes or closes them.
type Effect string

// The effects.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// effects returns every effect.
func effects() []Effect { return []Effect{Allow, Deny} }

// Schema returns the schema with the effects, for the API.
func (Effect) Schema(oas.Registry) *oas.Schema { return oas.Enum(effects()) }

// AllConnections stands, as the only connection of a grant, for all of the key's environment.
const AllConnections = "*"

const (
	// MaxGrants is how many grants a key has at most.
	MaxGrants = 1000
	// MaxGrantConnections is how many connections the grants of a key name at most, all together. Each is an argument of
	// the queries that the key makes.
	MaxGrantConnections = 1000
)

// Grant opens routes to an API key for some connections, or closes them. A route that no grant opens stays closed, and
// a grant that denies overrides all grants that allow.
type Grant struct {
	// ID is given by the service.
	ID     string
	Effect Effect
	Routes []access.Route
	// Connections are ids of connections, whether or not there are such connections now; nil stands for all of the key's
	// environment, and for what is about none.
	Connections []string
	// Calls narrow the grant to some calls. Only grants of routes that open calls have them; nil does not narrow.
	Calls *access.CallLimits
	// NotAfterMillis is when the grant ends, in Unix milliseconds; nil for never. An ended grant neither opens nor closes.
	NotAfterMillis *int64
}

// side combines the grants of one effect for a route.
type side struct {
	all   bool
	names []string
}

func (s *side) add(g *Grant) {
	s.all = s.all || g.Connections == nil
	s.names = append(s.names, g.Connections...)
}

func (s *side) bound() access.Bound {
	switch {
	case s == nil:
		return access.Bound{}
	case s.all:
		return access.All()
	default:
		return access.Only(s.names...)
	}
}

// openGrants returns what the grants open together at a time in Unix milliseconds, and until when that holds.
//
// Webhooks brings events with it, because a subscription without its events is of no use. For the same reason, denying
// events denies webhooks: a caller that may create a subscription, replay or test reads events.
func openGrants(grants []Grant, nowMillis int64) (opened *access.Grants, untilMillis int64) {
	allowed, denied := map[access.Route]*side{}, map[access.Route]*side{}
	var calls []access.CallGrant
	untilMillis = math.MaxInt64
	for i := range grants {
		g := &grants[i]
		if end := g.NotAfterMillis; end != nil {
			if *end <= nowMillis {
				continue
			}
			untilMillis = min(untilMillis, *end)
		}
		// An effect that is not known here closes: it can only come from a later release.
		set := denied
		if g.Effect == Allow {
			set = allowed
		}
		for _, r := range g.Routes {
			if opensCalls(r) {
				calls = append(calls, access.CallGrant{Deny: g.Effect != Allow, Connections: g.bound(), Limits: g.Calls})
				if g.Effect != Allow && !g.Calls.Empty() {
					continue // it denies some calls, and closes no connection
				}
			}
			if set[r] == nil {
				set[r] = &side{}
			}
			set[r].add(g)
		}
	}
	bounds := map[access.Route]access.Bound{}
	for _, r := range access.Routes() {
		bounds[r] = allowed[r].bound().Minus(denied[r].bound())
	}
	noEvents := denied[access.RouteEvents].bound()
	webhooks := bounds[access.RouteWebhooks].Minus(noEvents)
	bounds[access.RouteWebhooks] = webhooks
	bounds[access.RouteEvents] = bounds[access.RouteEvents].Union(webhooks)
	return access.NewGrants(bounds).WithCalls(access.RouteActions, calls), untilMillis
}

// opensCalls reports whether a route opens calls to providers, which grants can narrow.
func opensCalls(r access.Route) bool { return r == access.RouteActions }

func (g *Grant) bound() access.Bound {
	if g.Connections == nil {
		return access.All()
	}
	return access.Only(g.Connections...)
}

// grantViolations adds every rule that the grants break, at locations that begin with at.
func grantViolations(v *apperr.Violations, at func(i int) string, grants []Grant, nowMillis int64) {
	for i := range grants {
		g, at := &grants[i], at(i)
		if !slices.Contains(effects(), g.Effect) {
			v.Add(at+"effect", "enum", "must be allow or deny")
		}
		if len(g.Routes) == 0 {
			v.Add(at+"routes", "min_items", "must name at least one route")
		}
		for j, r := range g.Routes {
			if !slices.Contains(access.Routes(), r) {
				v.Add(fmt.Sprintf("%sroutes[%d]", at, j), "enum", "must be a route that exists")
			}
		}
		connectionViolations(v, at+"connections", g.Connections)
		callViolations(v, at, g)
		if end := g.NotAfterMillis; end != nil && *end <= nowMillis {
			v.Add(at+"not_after", "future", "must be in the future")
		}
	}
}

// maxGrantActions is how many patterns of actions a grant has at most.
const maxGrantActions = 100

// actionPattern is the form of provider_config_key/action with * in either part.
var actionPattern = regexp.MustCompile(`^[a-z0-9*][a-z0-9*_-]{0,62}/[a-z0-9*_]{1,48}$`)

// callViolations adds the rules that the limits of a grant's calls break.
func callViolations(v *apperr.Violations, at string, g *Grant) {
	l := g.Calls
	if l == nil {
		return
	}
	for _, field := range []struct {
		name  string
		given bool
	}{{"actions", l.Actions != nil}, {"methods", l.Methods != nil}, {"max_risk", l.MaxRisk != ""}} {
		if field.given && slices.ContainsFunc(g.Routes, func(r access.Route) bool { return !opensCalls(r) }) {
			v.Add(at+field.name, "route", "is for grants of the route actions alone")
		}
	}
	if l.Actions != nil && (len(l.Actions) == 0 || len(l.Actions) > maxGrantActions) {
		v.Add(at+"actions", "max_items", fmt.Sprintf("must have 1 to %d patterns", maxGrantActions))
	}
	for j, pattern := range l.Actions[:min(len(l.Actions), maxGrantActions)] {
		if !actionPattern.MatchString(pattern) {
			v.Add(fmt.Sprintf("%sactions[%d]", at, j), "pattern", "must be the key of a provider configuration, a slash and an "+
				"action, such as github/create_issue or github/*")
		}
	}
	if l.Methods != nil && len(l.Methods) == 0 {
		v.Add(at+"methods", "min_items", "must have at least one method")
	}
	for j, method := range l.Methods {
		if !slices.Contains(grantMethods(), method) {
			v.Add(fmt.Sprintf("%smethods[%d]", at, j), "enum", "must be one of "+strings.Join(grantMethods(), ", "))
		}
	}
	switch {
	case l.MaxRisk == "":
	case !slices.Contains(access.RiskLevels(), l.MaxRisk):
		v.Add(at+"max_risk", "enum", "must be one of "+strings.Join(access.RiskLevels(), ", "))
	case g.Effect == Deny:
		v.Add(at+"max_risk", "effect", "is for grants that allow")
	}
}

// grantMethods returns the methods that a grant can name.
func grantMethods() []string { return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} }

// maxConnectionBytes bounds the id of a connection.
const maxConnectionBytes = 255

func connectionViolations(v *apperr.Violations, at string, connections []string) {
	if connections != nil && len(connections) == 0 {
		v.Add(at, "min_items", "must name at least one connection")
	}
	if len(connections) > MaxGrantConnections {
		v.Add(at, "max_items", fmt.Sprintf("must be at most %d connections", MaxGrantConnections))
		return
	}
	seen := make(map[string]bool, len(connections))
	for j, c := range connections {
		switch at := fmt.Sprintf("%s[%d]", at, j); {
		case c == AllConnections:
			v.Add(at, "alone", "must stand alone")
		case !isConnectionName(c):
			v.Add(at, "pattern", "must be the id of a connection")
		case seen[c]:
			v.Add(at, "unique", "is a duplicate")
		}
		seen[c] = true
	}
}

// isConnectionName reports whether s has the form of a connection's id.
func isConnectionName(s string) bool {
	if s == "" || len(s) > maxConnectionBytes || strings.ContainsRune("._:@-", rune(s[0])) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isBase62(c) && !strings.ContainsRune("._:@-", rune(c)) {
			return false
		}
	}
	return true
}

// checkGrantCount adds the validation errors of grants that are too many for one key.
func checkGrantCount(v *apperr.Violations, at string, grants []Grant) {
	if len(grants) > MaxGrants {
		v.Add(at, "max_items", fmt.Sprintf("a key has at most %d grants", MaxGrants))
	}
	var names []string
	for i := range grants {
		names = append(names, grants[i].Connections...)
	}
	if slices.Sort(names); len(slices.Compact(names)) > MaxGrantConnections {
		v.Add(at, "max_connections", fmt.Sprintf("the grants of a key name at most %d connections together",
			MaxGrantConnections))
	}
}
