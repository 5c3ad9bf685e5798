package connections

import (
	"context"
	"fmt"

	"sallyport/internal/platform/db"

	"sallyport/internal/platform/id"
)

// ExistsUnderAnyKey reports whether the environment has a connection of that id under any provider configuration.
func (s *Service) ExistsUnderAnyKey(ctx context.Context, env id.Environment, connectionID string) (bool, error) {
	if !validName(connectionID) {
		return false, nil
	}
	var exists bool
	err := s.db.Read().QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM connections WHERE environment_id = $1 AND connection_id = $2)`, string(env),
		connectionID).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for a connection: %w", err)
	}
	return exists, nil
}

// OfID returns the connections of that id that the environment has, one for each provider configuration.
func (s *Service) OfID(ctx context.Context, env id.Environment, connectionID string) ([]Connection, error) {
	if !validName(connectionID) {
		return nil, nil
	}
	return ofID(ctx, s.db.Read(), env, connectionID)
}

// holdsConnections reports whether an environment has any connection.
func holdsConnections(ctx context.Context, q db.Querier, env id.Environment) (held bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM connections WHERE environment_id = $1)", string(env)).
		Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look for connections: %w", err)
	}
	return held, nil
}
