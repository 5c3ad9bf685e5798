package app

import (
	"context"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/subscriptions"
)

// contents is identity.Contents.
type contents struct {
	connections   *connections.Service
	subscriptions *subscriptions.Service
}

// Held names what an environment has of each capability. Events do not count: nobody can remove them, and without
// connections, subscriptions and keys they do nothing.
func (c contents) Held(ctx context.Context, env id.Environment) ([]string, error) {
	first := page.Request{Limit: 1}
	links, err := c.connections.List(ctx, access.Whole(env), connections.Filter{}, first)
	if err != nil {
		return nil, err
	}
	routes, err := c.subscriptions.List(ctx, access.Whole(env), subscriptions.Filter{}, first)
	if err != nil {
		return nil, err
	}
	var held []string
	for _, kind := range []struct {
		name string
		n    int
	}{{"connections", len(links)}, {"subscriptions", len(routes)}} {
		if kind.n > 0 {
			held = append(held, kind.name)
		}
	}
	return held, nil
}
