package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
)

// Linker is what links that connect accounts need of connections. It is safe for concurrent use.
type Linker struct{ *Service }

// NewLinker returns the Linker of a Service.
func NewLinker(s *Service) Linker { return Linker{s} }

// Where returns where requests of a connection would go that had the mode and these settings, or the validation errors
// of the settings, whose locations begin with connection_config.
func (s Linker) Where(ctx context.Context, c *Connection, engine *outbound.Engine, mode string,
	given map[string]string) (outbound.Target, error) {
	var v apperr.Violations
	config, problems := engine.ResolveConfig(mode, given)
	addProblems(&v, problems)
	if err := v.Err(); err != nil {
		return outbound.Target{}, err
	}
	target, err := s.auth.target(ctx, c, mode, config)
	if err != nil {
		return outbound.Target{}, err
	}
	if _, err = engine.Hosts(target); err != nil {
		_, err = engine.EndpointHosts(target) // the rest comes with the token, and is checked with it
	}
	addError(&v, err)
	if v.Err() == nil {
		if err := s.auth.checkClient(ctx, &v, c, engine, target); err != nil {
			return outbound.Target{}, err
		}
	}
	return target, v.Err()
}

// ErrNoList is the error of Choices while the provider cannot be asked for the accounts.
var ErrNoList = errors.New("the provider does not list the accounts at the moment")

// Choices returns the accounts that credentials which the provider has just issued can be used for, where the
// definition says that there can be several, and the field of connection_config that has the chosen one. The error is
// ErrNoList if the provider does not respond.
func (s Linker) Choices(ctx context.Context, c *Connection, engine *outbound.Engine, mode string,
	given map[string]string, values map[string]secretbox.Secret) (field string, list []outbound.Choice, err error) {
	probe, field := engine.ChoiceProbe(mode)
	if probe == nil {
		return "", nil, nil
	}
	target, err := s.Where(ctx, c, engine, mode, given)
	if err != nil {
		return "", nil, err
	}
	list, err = s.auth.prober.Choices(ctx, engine, outbound.Values{Target: target, Credentials: values})
	if errors.Is(err, probes.ErrAway) {
		err = ErrNoList
	}
	return field, list, err
}

// Offer runs fn for a connection that gets a link, and that no other request can change meanwhile, and records that. fn
// returns what the audit trail says about the link. The connection stays as it is.
func (s Linker) Offer(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	fn func(ctx context.Context, tx *sql.Tx, c *Connection) (audit.State, error)) (Connection, error) {
	return s.editLocked(ctx, actor, providerConfigKey, connectionID, s.now(), func(e edit, c Connection) (Connection,
		error) {
		details, err := fn(ctx, e.tx, &c)
		if err != nil {
			return Connection{}, err
		}
		return e.finish(ctx, &c, actionReconnect, details)
	})
}

// ByUUID returns a connection of an environment, or not_found.
func (s Linker) ByUUID(ctx context.Context, env id.Environment, uuid string) (Connection, error) {
	c, err := read(ctx, s.db.Read(), new(db.Where).And("environment_id = ?", string(env)).And("uuid = ?", uuid))
	if err != nil {
		return Connection{}, err
	}
	return c, s.auth.describe(ctx, s.db.Read(), env, &c)
}

// Hold keeps other changes to a connection waiting until the transaction ends, or returns not_found.
func (Linker) Hold(ctx context.Context, tx *sql.Tx, env id.Environment, providerConfigKey, connectionID string) error {
	_, err := lock(ctx, tx, env, providerConfigKey, connectionID)
	return err
}

// maxPending is how many connections of an environment may wait for a person. They cost nothing but rows, and are
// removed by themselves; without a limit a program in a loop could create any number of them.
const maxPending = 10_000

// limitPending returns pending_connections_limit if the environment has as many pending connections as it may, and one
// more that the transaction has inserted. Concurrent transactions may exceed the limit by their number.
func limitPending(ctx context.Context, tx *sql.Tx, env id.Environment) error {
	full, err := hasPending(ctx, tx, env, maxPending)
	if err == nil && full {
		err = apperr.New(apperr.CodePendingConnectionsLimit, fmt.Sprintf("The environment has %d connections that no one "+
			"has connected yet, which is as many as it may have; delete some of them", maxPending))
	}
	return err
}

// FailureHook is called in the transaction that records why an attempt to connect a connection failed. An error undoes
// the transaction.
type FailureHook func(ctx context.Context, tx *sql.Tx, c *Connection, reason string) error

// NoteFailure shows with a pending connection why the last attempt to connect it failed. It calls emit, unless that is
// nil, also for a connection that keeps its credentials.
func (s Linker) NoteFailure(ctx context.Context, seen *Connection, reason string, emit FailureHook) error {
	uuid := ""
	err := s.change(ctx, &uuid, func(tx *sql.Tx) error {
		c, err := lock(ctx, tx, seen.Environment, seen.ProviderConfigKey, seen.ConnectionID)
		if err != nil || c.UUID != seen.UUID {
			return err
		}
		if c.EnabledStatus == Pending && c.EnabledReason != reason {
			uuid = c.UUID
			c.moveTo(Pending, reason)
			// Its version stays: else a stranger with the link could make the operator's changes fail.
			if err := update(ctx, tx, &c); err != nil {
				return err
			}
			if err := publish(ctx, tx, nil, &c, nil); err != nil {
				return err
			}
		}
		if emit == nil {
			return nil
		}
		if err := s.auth.describe(ctx, tx, c.Environment, &c); err != nil {
			return err
		}
		return emit(ctx, tx, &c, reason)
	})
	if apperr.Is(err, apperr.CodeNotFound) {
		return nil
	}
	return err
}

// RemovePending deletes a connection of a team that no one has connected. It reports whether it was there and pending.
func (s Linker) RemovePending(ctx context.Context, team id.Team, env id.Environment, providerConfigKey,
	connectionID string) (bool, error) {
	actor := access.System("connect")
	actor.Team, actor.Environment = team, env
	now := s.now()
	removed := false
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection,
		error) {
		if removed = c.EnabledStatus == Pending; !removed {
			return Connection{}, nil
		}
		return Connection{}, e.delete(ctx, &c)
	})
	if apperr.Is(err, apperr.CodeNotFound) {
		return false, nil
	}
	return removed && err == nil, err
}
