package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
)

func errUnauthorized() error {
	return apperr.Unauthorized(nil)
}

// presented is what a request brings to say who asks and where.
type presented struct {
	keys, tokens, environments, tickets []string
}

// ticketParameter is the query parameter that carries a ticket.
const ticketParameter = "ticket"

func present(r *http.Request, op Operation) presented {
	p := presented{keys: r.Header.Values("API-Key"), tokens: r.Header.Values("Authorization"),
		environments: r.Header.Values("Environment-Id")}
	if op.Tickets != nil && r.URL.RawQuery != "" {
		p.tickets = r.URL.Query()[ticketParameter]
	}
	return p
}

// name names what was presented, from where, and what a principal sees by it, without telling it.
func (p presented) name(who access.Principal) string {
	h := sha256.New()
	names, except := who.Connections.Names()
	_, _ = fmt.Fprintf(h, "%s %t %q\n", who.IP, except, names)
	for i, list := range [][]string{p.keys, p.tokens, p.environments, p.tickets} {
		for _, v := range list {
			_, _ = fmt.Fprintf(h, "%d %d %s\n", i, len(v), v) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// authorize identifies the caller, scopes the request to an environment and checks the permission or grant, in this
// order, so that nothing about a resource is looked at for a caller who may not ask.
// The principal is returned with an error too, as far as it is known.
func (a *API) authorize(r *http.Request, op Operation) (*http.Request, access.Principal, error) {
	if op.Public {
		return r, access.Principal{}, nil
	}
	ctx, shown := r.Context(), present(r, op)
	var p access.Principal
	var err error
	facts := ctx.Value(requestKey{})
	again := func(ctx context.Context) error {
		now, err := a.admit(context.WithValue(ctx, requestKey{}, facts), shown, op) // from the same address
		return unchanged(p, now, err)
	}
	if len(shown.tickets) > 0 {
		ctx, p, err = a.redeem(ctx, shown, op)
		again = func(ctx context.Context) error {
			now, err := op.Tickets.Current(ctx, p)
			if err == nil {
				now, err = op.allows(now)
			}
			return unchanged(p, now, err)
		}
	} else {
		p, err = a.admit(ctx, shown, op)
	}
	if err != nil {
		return r, p, err
	}
	p.IP, p.RequestID = ClientIP(ctx), RequestID(ctx)
	if p.Kind == access.KindAPIKey && a.cfg.Keys != nil {
		a.cfg.Keys.KeySeen(p.ID, p.IP, r.UserAgent(), op.Method+" "+op.Path)
	}
	callFrom(ctx).credential = func() Credential { return Credential{Name: shown.name(p), Check: again} }
	obs.EventFrom(ctx).Add(slog.String("principal", p.ID), slog.String("environment_id", string(p.Environment)))
	return r.WithContext(access.With(ctx, p)), p, nil
}

// admit returns who asks, in the environment that the operation works on, if they may.
func (a *API) admit(ctx context.Context, shown presented, op Operation) (access.Principal, error) {
	p, err := a.identify(ctx, shown, op)
	if err != nil {
		return p, err
	}
	if op.Environment {
		if p, err = a.scope(ctx, shown, p); err != nil {
			return p, err
		}
	}
	return op.allows(p)
}

// unchanged returns err, or that a principal may no longer see what it could. What was opened by then has the old
// bound.
func unchanged(before, now access.Principal, err error) error {
	if err == nil && !before.Connections.Equal(now.Connections) {
		return apperr.New(apperr.CodeGrantDenied, "The grants of the API key have changed")
	}
	return err
}

// redeem is admit for a request with a ticket, which it consumes.
func (a *API) redeem(ctx context.Context, shown presented, op Operation) (context.Context, access.Principal, error) {
	if len(shown.tickets) > 1 || len(shown.keys) > 0 || len(shown.tokens) > 0 {
		return ctx, access.Principal{}, apperr.New(apperr.CodeAmbiguousCredentials,
			"Send one credential: API-Key, Authorization or ticket, once")
	}
	own, p, err := op.Tickets.UseTicket(ctx, shown.tickets[0], ClientIP(ctx))
	if err != nil {
		return ctx, p, err
	}
	if list := shown.environments; len(list) > 1 || len(list) == 1 && list[0] != string(p.Environment) {
		return ctx, p, apperr.NotFound("environment")
	}
	p, err = op.allows(p)
	return own, p, err
}

// allows checks the permission of a user or the grants of a key, and bounds a key to the connections that these open.
func (op Operation) allows(p access.Principal) (access.Principal, error) {
	switch p.Kind {
	case access.KindUser:
		if !p.Has(op.Permission) && (!op.AnyEnvironment || !p.HasSomewhere(op.Permission)) {
			return p, apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(op.Permission))
		}
	case access.KindAPIKey:
		if !p.MayRoute(op.Route) {
			return p, apperr.New(apperr.CodeGrantDenied, "The API key does not have the grant "+string(op.Route))
		}
		return p.Through(op.Route), nil
	case access.KindSystem:
		return p, errUnauthorized()
	default:
		return p, errUnauthorized()
	}
	return p, nil
}

// Credential is what a request was let in by. It is for answers that go on for long: what opened them may end
// meanwhile.
type Credential struct {
	// Name tells equal credentials from different ones, and nothing else about them.
	Name string
	// Check returns nil as long as the credential lets a request in, else the error with which it would be refused.
	Check func(ctx context.Context) error
}

// CredentialOf returns the credential of a request to an operation that is not public.
func CredentialOf(ctx context.Context) Credential {
	if c := callFrom(ctx).credential; c != nil {
		return c()
	}
	return Credential{}
}

func (a *API) identify(ctx context.Context, shown presented, op Operation) (access.Principal, error) {
	keys, tokens := shown.keys, shown.tokens
	if len(keys) > 0 && len(tokens) > 0 || len(keys) > 1 || len(tokens) > 1 {
		return access.Principal{}, apperr.New(apperr.CodeAmbiguousCredentials,
			"Send one credential: API-Key or Authorization, once")
	}
	switch {
	case len(keys) == 1 && op.Route != "":
		p, err := a.cfg.Auth.APIKey(ctx, keys[0], ClientIP(ctx))
		callFrom(ctx).keyID = p.ID
		return p, err
	case len(tokens) == 1:
		scheme, token, ok := strings.Cut(tokens[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return access.Principal{}, errUnauthorized()
		}
		callFrom(ctx).challenge = challengeInvalid
		return a.cfg.Auth.Bearer(ctx, token)
	default:
		return access.Principal{}, errUnauthorized()
	}
}

// scope puts the request into an environment: a key's own, or the one that a user names.
func (a *API) scope(ctx context.Context, shown presented, p access.Principal) (access.Principal, error) {
	named := shown.environments
	if len(named) > 1 {
		return p, apperr.Invalid(apperr.Detail{Location: "header.Environment-Id", Rule: "single",
			Message: "send the header once"})
	}
	if p.Kind == access.KindAPIKey {
		if len(named) == 1 && named[0] != string(p.Environment) {
			return p, apperr.NotFound("environment")
		}
		return p, nil
	}
	if len(named) == 0 || named[0] == "" {
		return p, apperr.New(apperr.CodeEnvironmentRequired, "Name the environment in the Environment-Id header")
	}
	if !id.Is(id.PrefixEnvironment, named[0]) {
		return p, apperr.NotFound("environment")
	}
	env, err := a.cfg.Auth.Environment(ctx, p, named[0])
	if err != nil {
		return p, err
	}
	p.Environment = env
	return p, nil
}
