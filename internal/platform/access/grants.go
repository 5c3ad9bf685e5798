package access

// Grants combines the grants of an API key: the connections that they open for each route. It is created once for a key
// and shared by its requests. A nil *Grants opens nothing.
type Grants struct {
	bounds map[Route]Bound
	// calls are the grants for calls, by the routes that open them.
	calls map[Route][]CallGrant
}

// NewGrants returns grants with these bounds. A route that is missing from the map is closed.
func NewGrants(bounds map[Route]Bound) *Grants {
	r := &Grants{bounds: make(map[Route]Bound, len(bounds))}
	for route, b := range bounds {
		if !b.Empty() {
			r.bounds[route] = b
		}
	}
	return r
}

// Open returns grants that open these routes for every connection.
func Open(routes ...Route) *Grants {
	bounds := map[Route]Bound{}
	for _, r := range routes {
		bounds[r] = All()
	}
	g := NewGrants(bounds)
	if b := bounds[RouteActions]; !b.Empty() {
		g = g.WithCalls(RouteActions, []CallGrant{{Connections: b}})
	}
	return g
}

// Bound returns the connections for which the route is open.
func (r *Grants) Bound(route Route) Bound {
	if r == nil {
		return Bound{}
	}
	return r.bounds[route]
}

// Routes returns the routes that are open for any connection, in the order of Routes.
func (r *Grants) Routes() []Route {
	var out []Route
	for _, route := range Routes() {
		if !r.Bound(route).Empty() {
			out = append(out, route)
		}
	}
	return out
}
