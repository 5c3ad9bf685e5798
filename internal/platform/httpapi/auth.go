package httpapi

import (
	"log/slog"
	"net/http"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
)

func errUnauthorized() error {
	return apperr.New(apperr.CodeUnauthorized, "The credential is missing or not valid")
}

// authorize identifies the caller, scopes the request to an environment and checks the permission or grant, in this
// order, so that nothing about a resource is looked at for a caller who may not ask.
func (a *API) authorize(r *http.Request, op Operation) (*http.Request, error) {
	if op.Public {
		return r, nil
	}
	p, err := a.identify(r, op)
	if err != nil {
		return r, err
	}
	if op.Environment {
		if p, err = a.scope(r, p); err != nil {
			return r, err
		}
	}
	switch p.Kind {
	case access.KindUser:
		if !p.Has(op.Permission) {
			return r, apperr.New(apperr.CodeForbidden, "The user lacks the permission "+string(op.Permission))
		}
	case access.KindAPIKey:
		if !p.MayRoute(op.Route) {
			return r, apperr.New(apperr.CodeGrantDenied, "The API key lacks the grant "+string(op.Route))
		}
	case access.KindSystem:
		return r, errUnauthorized()
	default:
		return r, errUnauthorized()
	}
	p.IP, p.RequestID = ClientIP(r.Context()), RequestID(r.Context())
	obs.EventFrom(r.Context()).Add(slog.String("principal", p.ID), slog.String("environment_id", string(p.Environment)))
	return r.WithContext(access.With(r.Context(), p)), nil
}

func (a *API) identify(r *http.Request, op Operation) (access.Principal, error) {
	keys, tokens := r.Header.Values("API-Key"), r.Header.Values("Authorization")
	if len(keys) > 0 && len(tokens) > 0 || len(keys) > 1 || len(tokens) > 1 {
		return access.Principal{}, apperr.New(apperr.CodeAmbiguousCredentials, "Send one credential: API-Key or Authorization, once")
	}
	switch {
	case len(keys) == 1 && op.Route != "":
		return a.cfg.Auth.APIKey(r.Context(), keys[0])
	case len(tokens) == 1:
		scheme, token, ok := strings.Cut(tokens[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return access.Principal{}, errUnauthorized()
		}
		callFrom(r.Context()).challenge = challengeInvalid
		return a.cfg.Auth.Bearer(r.Context(), token)
	default:
		return access.Principal{}, errUnauthorized()
	}
}

// scope puts the request into an environment: a key's own, or the one that a user names.
func (a *API) scope(r *http.Request, p access.Principal) (access.Principal, error) {
	named := r.Header.Values("Environment-Id")
	if len(named) > 1 {
		return p, apperr.Invalid(apperr.Detail{Location: "header.Environment-Id", Rule: "single", Message: "send the header once"})
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
	env, err := a.cfg.Auth.Environment(r.Context(), p, named[0])
	if err != nil {
		return p, err
	}
	p.Environment = env
	return p, nil
}
