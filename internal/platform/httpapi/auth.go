package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
)

func errUnauthorized() error {
	return apperr.Unauthorized(nil)
}

// credentials holds the headers and parameters of a request that identify its caller and environment.
type credentials struct {
	keys, tokens, environments, tickets []string
	// header and query are those of the request, in which strayKey looks for a key that is in the wrong place.
	header http.Header
	query  string
}

// ticketParameter is the query parameter that carries a ticket.
const ticketParameter = "ticket"

func readCredentials(r *http.Request, op Operation) credentials {
	p := credentials{keys: r.Header.Values("API-Key"), tokens: r.Header.Values("Authorization"),
		environments: r.Header.Values("Environment-Id"), header: r.Header, query: r.URL.RawQuery}
	if op.Tickets != nil && r.URL.RawQuery != "" {
		p.tickets = r.URL.Query()[ticketParameter]
	}
	return p
}

// fingerprint identifies the credentials, the client's address and the connections that the principal may see, without
// revealing them.
func (c credentials) fingerprint(p access.Principal) string {
	h := sha256.New()
	names, except := p.Connections.Names()
	_, _ = fmt.Fprintf(h, "%s %t %q\n", p.IP, except, names)
	for i, list := range [][]string{c.keys, c.tokens, c.environments, c.tickets} {
		for _, v := range list {
			_, _ = fmt.Fprintf(h, "%d %d %s\n", i, len(v), v) // writing to a hash never fails
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// authorize identifies the caller, scopes the request to an environment and checks the permission or grant, in this
// order, so that no resource is read for a caller without rights. With an error it returns the principal as far as it
// is known.
func (a *API) authorize(r *http.Request, op Operation) (*http.Request, access.Principal, error) {
	if op.Public {
		return r, access.Principal{}, nil
	}
	ctx, sent := r.Context(), readCredentials(r, op)
	var p access.Principal
	var err error
	facts := ctx.Value(requestKey{})
	again := func(ctx context.Context) error {
		now, err := a.admit(context.WithValue(ctx, requestKey{}, facts), sent, op) // from the same address
		return unchanged(p, now, err)
	}
	if len(sent.tickets) > 0 {
		ctx, p, err = a.redeem(ctx, sent, op)
		again = func(ctx context.Context) error {
			now, err := op.Tickets.Current(ctx, p)
			if err == nil {
				now, err = op.authorizePrincipal(now)
			}
			return unchanged(p, now, err)
		}
	} else {
		p, err = a.admit(ctx, sent, op)
	}
	if err != nil {
		return r, p, err
	}
	p.IP, p.RequestID = ClientIP(ctx), requestID(ctx)
	if p.Kind == access.KindAPIKey && a.cfg.Keys != nil {
		a.cfg.Keys.KeySeen(p.ID, p.IP, r.UserAgent(), op.Method+" "+op.Path)
	}
	callFrom(ctx).credential = func() Credential { return Credential{Name: sent.fingerprint(p), Check: again} }
	obs.LineFrom(ctx).Add(slog.String("principal", p.ID), slog.String("environment_id", string(p.Environment)))
	ctx = db.WithOwner(ctx, cmp.Or(string(p.Environment), string(p.Team), p.ID))
	return r.WithContext(access.With(ctx, p)), p, nil
}

// admit returns the caller in the environment that the operation works on. It returns an error if the caller may not
// call the operation.
func (a *API) admit(ctx context.Context, sent credentials, op Operation) (access.Principal, error) {
	p, err := a.identify(ctx, sent, op)
	if err != nil {
		return p, err
	}
	if op.Environment {
		if p, err = a.scope(ctx, sent, p); err != nil {
			return p, err
		}
	}
	return op.authorizePrincipal(p)
}

// unchanged returns err, or an error if the connections that a principal may see have changed. An open stream still has
// the old bound.
func unchanged(before, now access.Principal, err error) error {
	if err == nil && !before.Connections.Equal(now.Connections) {
		return apperr.New(apperr.CodeGrantDenied, "The grants of the API key have changed")
	}
	return err
}

// redeem is admit for a request with a ticket. It consumes the ticket.
func (a *API) redeem(ctx context.Context, sent credentials, op Operation) (context.Context, access.Principal, error) {
	if len(sent.tickets) > 1 || len(sent.keys) > 0 || len(sent.tokens) > 0 {
		return ctx, access.Principal{}, apperr.New(apperr.CodeAmbiguousCredentials,
			"Send one credential: API-Key, Authorization or ticket, once")
	}
	end, err := a.admitGuess(ctx)
	if err != nil {
		return ctx, access.Principal{}, err
	}
	defer end()
	own, p, err := op.Tickets.UseTicket(ctx, sent.tickets[0], ClientIP(ctx))
	if err != nil {
		return ctx, p, err
	}
	if list := sent.environments; len(list) > 1 || len(list) == 1 && list[0] != string(p.Environment) {
		return ctx, p, apperr.NotFound("environment")
	}
	p, err = op.authorizePrincipal(p)
	return own, p, err
}

// authorizePrincipal checks the permission of a user or the grants of a key. It limits a key to the connections that
// its grants open.
func (op Operation) authorizePrincipal(p access.Principal) (access.Principal, error) {
	switch p.Kind {
	case access.KindUser:
		if !p.Has(op.Permission) && (!op.AnyEnvironment || !p.HasSomewhere(op.Permission)) {
			return p, apperr.New(apperr.CodeForbidden, missingPermission(op.Permission))
		}
	case access.KindAPIKey:
		if !p.MayRoute(op.Route) {
			return p, apperr.New(apperr.CodeGrantDenied, missingGrant(op.Route))
		}
		return p.Through(op.Route), nil
	case access.KindSystem:
		return p, errUnauthorized()
	default:
		return p, errUnauthorized()
	}
	return p, nil
}

// Credential is the credential of a request. It is for long responses, during which the credential may end.
type Credential struct {
	// Name is equal for equal credentials and reveals nothing about them.
	Name string
	// Check returns nil while the credential admits a request, and otherwise the error of such a request.
	Check func(ctx context.Context) error
}

// CredentialOf returns the credential of a request to an operation that is not public.
func CredentialOf(ctx context.Context) Credential {
	if c := callFrom(ctx).credential; c != nil {
		return c()
	}
	return Credential{}
}

func (a *API) identify(ctx context.Context, sent credentials, op Operation) (access.Principal, error) {
	keys, tokens := sent.keys, sent.tokens
	if len(keys) > 0 && len(tokens) > 0 || len(keys) > 1 || len(tokens) > 1 {
		return access.Principal{}, apperr.New(apperr.CodeAmbiguousCredentials,
			"Send one credential: API-Key or Authorization, once")
	}
	if message := sent.misplaced(op); message != "" {
		callFrom(ctx).misplaced = true
		if len(tokens) == 1 {
			callFrom(ctx).challenge = challengeInvalid
		}
		return access.Principal{}, apperr.New(apperr.CodeUnauthorized, message)
	}
	switch {
	case len(keys) == 1:
		if !a.cfg.Auth.KnowsAPIKey(keys[0]) {
			end, err := a.admitGuess(ctx)
			if err != nil {
				return access.Principal{}, err
			}
			defer end()
		}
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

// scope sets the environment of the principal: a key's own, or the one that a user names.
func (a *API) scope(ctx context.Context, sent credentials, p access.Principal) (access.Principal, error) {
	named := sent.environments
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
