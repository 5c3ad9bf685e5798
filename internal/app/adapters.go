package app

import (
	"context"

	"sallyport/internal/identity/team"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// lifetimes is events.Retention: environments belong to the team.
type lifetimes struct{ team *team.Service }

// Lifetimes returns how long the environment keeps payloads and events.
func (l lifetimes) Lifetimes(ctx context.Context, env id.Environment) (events.Lifetimes, error) {
	payload, event, err := l.team.Lifetimes(ctx, env)
	return events.Lifetimes{Payload: payload, Event: event}, err
}
