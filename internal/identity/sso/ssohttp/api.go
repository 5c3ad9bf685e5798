// Package ssohttp serves identity providers and sign-in with them over HTTP.
package ssohttp

import (
	"context"
	"net/http"
	"time"

	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const (
	tag        = "Identity providers"
	collection = "/team/sso"
	item       = collection + "/{id}"
	// maxParameter is the documented maximum length of a parameter of a provider's response. No valid one is longer.
	maxParameter = 4096
)

// Cookie reads and writes the refresh cookie, which a sign-in sets.
type Cookie interface {
	// Token returns the token of a request, or an empty one.
	Token(r *http.Request) signin.RefreshToken
	// Header returns the Set-Cookie header of a sign-in.
	Header(in signin.SignIn, now time.Time) string
}

type handler struct {
	sso    *sso.Service
	cookie Cookie
}

// CallbackPath returns the path to which a provider redirects browsers.
func CallbackPath(providerID string) string {
	return httpapi.Prefix + collection + "/" + providerID + "/callback"
}

// StartPath returns the path at which a browser begins to sign in. It takes the parameter return_to.
func StartPath(providerID string) string {
	return httpapi.Prefix + collection + "/" + providerID + "/start"
}

// mount adds the operations on identity providers to the API. s may be nil if only the document is needed.
func mount(api *httpapi.API, s *sso.Service, cookie Cookie) {
	h := handler{sso: s, cookie: cookie}
	httpapi.Register(api, httpapi.Operation{
		ID: "create-sso-provider", Method: http.MethodPost, Path: collection, Tag: tag, Status: http.StatusCreated,
		Permission: access.SSOWrite, Summary: "Set up an identity provider",
		Description: "Sets up an identity provider for sign-in (OpenID Connect, authorization code flow with PKCE). " +
			"Register the `redirect_uri` of the response at the provider. You cannot grant more than you hold: neither roles " +
			"through `role_mappings` nor the accounts of others through `link_existing`.",
		Errors: []apperr.Code{apperr.CodePrivilegeEscalation, apperr.CodeSSOProvidersLimit},
	}, h.create)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-sso-providers", Method: http.MethodGet, Path: collection, Tag: tag, Status: http.StatusOK,
		Permission: access.SSORead, Summary: "List identity providers",
		Description: "Lists the team's identity providers, newest first, without their secrets.",
	}, httpapi.List[listInput, sso.Provider, provider]{Rows: h.list, View: h.viewListed,
		Key: func(p *sso.Provider) string { return p.ID }, IsKey: id.Matcher(id.PrefixSSO)})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-sso-provider", Method: http.MethodGet, Path: item, Tag: tag, Status: http.StatusOK,
		Permission: access.SSORead, Summary: "Get an identity provider",
		Description: "Returns an identity provider without its secret.",
		Errors:      []apperr.Code{apperr.CodeNotFound},
	}, h.get)
	httpapi.Register(api, httpapi.Operation{
		ID: "update-sso-provider", Method: http.MethodPatch, Path: item, Tag: tag, Status: http.StatusOK,
		Permission: access.SSOWrite, Summary: "Update an identity provider",
		Description: "Applies a merge patch (RFC 7396): absent fields stay. Roles that a mapping no longer grants are " +
			"revoked at the user's next sign-in.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodePrivilegeEscalation}, IfMatch: true,
	}, h.update)
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-sso-provider", Method: http.MethodDelete, Path: item, Tag: tag, Status: http.StatusNoContent,
		Permission: access.SSOWrite, Summary: "Delete an identity provider",
		Description: "Deletes the identity provider and revokes the roles granted by its groups. Its users remain members. " +
			"They can sign in again if the same issuer is set up again.",
		Errors: []apperr.Code{apperr.CodeNotFound}, IfMatch: true,
	}, h.delete)
	httpapi.Register(api, httpapi.Operation{
		ID: "test-sso-provider", Method: http.MethodPost, Path: item + "/test", Tag: tag, Status: http.StatusOK,
		Permission: access.SSOWrite, Summary: "Test an identity provider",
		Description: "Fetches the provider's discovery document and keys and reports problems. Errors in the client id, " +
			"the client secret and the redirect URI only show at a sign-in.",
		Errors: []apperr.Code{apperr.CodeNotFound},
	}, h.test)
	httpapi.Register(api, httpapi.Operation{
		ID: "start-sso", Method: http.MethodGet, Path: item + "/start", Tag: tag, Status: http.StatusSeeOther, Public: true,
		Summary: "Sign in with an identity provider",
		Messages: map[apperr.Code][]string{
			apperr.CodeSSOFailed:      {"The identity provider does not offer PKCE with S256."},
			apperr.CodeSSOUnavailable: {"The discovery document responded with status 503."},
		},
		Description: "Redirects the browser to the identity provider. The provider redirects it through `callback` to " +
			"`return_to`, with the refresh cookie of a new session. `POST /team/token/refresh` then returns an access token. " +
			"A browser can have one sign-in in progress, for ten minutes.",
		Errors: []apperr.Code{apperr.CodeNotFound, apperr.CodeSSOFailed, apperr.CodeSSOUnavailable},
	}, h.start)
	api.Handle("GET "+httpapi.Prefix+item+"/callback", api.LimitedByAddress(http.HandlerFunc(h.callback)),
		callbackRoute())
}

func (h handler) create(ctx context.Context, in *createInput) (*createOutput, error) {
	p, err := h.sso.Create(ctx, access.From(ctx), in.Body.settings())
	if err != nil {
		return nil, err
	}
	return &createOutput{Versioned: httpapi.Version(p.Version()), Location: httpapi.Prefix + collection + "/" + p.ID,
		Body: h.viewProvider(p)}, nil
}

func (h handler) list(ctx context.Context, _ *listInput, p page.Request) ([]sso.Provider, error) {
	return h.sso.List(ctx, access.From(ctx), p)
}

func (h handler) viewListed(_ context.Context, p *sso.Provider) provider { return h.viewProvider(*p) }

func (h handler) get(ctx context.Context, in *providerInput) (*providerOutput, error) {
	return h.respond(h.sso.Get(ctx, access.From(ctx), in.ID))
}

func (h handler) update(ctx context.Context, in *updateInput) (*providerOutput, error) {
	p, err := h.sso.Update(ctx, access.From(ctx), in.ID, in.Body.change())
	return h.respond(p, err)
}

func (h handler) delete(ctx context.Context, in *providerInput) (*struct{}, error) {
	return nil, h.sso.Delete(ctx, access.From(ctx), in.ID)
}

func (h handler) test(ctx context.Context, in *providerInput) (*testOutput, error) {
	p, err := h.sso.Get(ctx, access.From(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	out := &testOutput{Body: testResult{OK: true, Checks: []checkResult{}}}
	for _, c := range h.sso.Test(ctx, p) {
		out.Body.OK = out.Body.OK && c.OK
		v := checkResult{Name: c.Name, OK: c.OK}
		if !c.OK {
			v.Message = &c.Message
		}
		out.Body.Checks = append(out.Body.Checks, v)
	}
	return out, nil
}

func (h handler) respond(p sso.Provider, err error) (*providerOutput, error) {
	if err != nil {
		return nil, err
	}
	return &providerOutput{Versioned: httpapi.Version(p.Version()), Body: h.viewProvider(p)}, nil
}

func (h handler) viewProvider(p sso.Provider) provider {
	out := provider{
		ID: p.ID, Name: p.Name, Issuer: p.Issuer, ClientID: p.ClientID, HasClientSecret: p.HasSecret(),
		RedirectURI: h.sso.CallbackURL(p.ID), Scopes: p.Scopes, GroupsClaim: p.GroupsClaim, RoleMappings: make([]roleMapping,
			0, len(p.RoleMappings)), AllowedDomains: p.AllowedDomains,
		JustInTime: p.JustInTime, LinkExisting: p.LinkExisting, Enabled: p.Enabled,
		CreatedAt: httpapi.TimeMillis(p.CreatedMillis), UpdatedAt: httpapi.TimeMillis(p.UpdatedMillis),
	}
	for _, m := range p.RoleMappings {
		r := roleMapping{Group: m.Group, Role: string(m.Role)}
		if env := string(m.Environment); env != "" {
			r.EnvironmentID = &env
		}
		out.RoleMappings = append(out.RoleMappings, r)
	}
	return out
}

func callbackRoute() httpapi.Route {
	text := func() *oas.Schema {
		least, most := 1, maxParameter
		return &oas.Schema{Type: "string", MinLength: &least, MaxLength: &most}
	}
	r := httpapi.Route{
		ID: "finish-sso", Method: http.MethodGet, Path: item + "/callback", Tag: tag,
		Summary: "Return from an identity provider",
		Description: "Completes a sign-in that `start` began in the same browser. It checks the provider's response, " +
			"grants and revokes the roles of the user's groups, sets the refresh cookie and redirects the browser. Each " +
			"response works once. Parameters that are not listed are ignored.",
		Parameters: []httpapi.Parameter{
			{Name: "id", In: "path", Description: "The provider's id.", Schema: text()},
			{Name: "state", In: "query", Required: true, Description: "The state that `start` passed on.", Schema: text()},
			{Name: "code", In: "query", Description: "The authorization code (RFC 6749).", Schema: text()},
			{Name: "iss", In: "query", Description: "The provider's issuer (RFC 9207).", Schema: text()},
			{Name: "error", In: "query", Description: "The error code of the provider (RFC 6749).", Schema: text()},
		},
		Responses: map[string]httpapi.Response{"303": {
			Description: http.StatusText(http.StatusSeeOther),
			Headers: map[string]httpapi.Header{
				"Location":   {Description: "The `return_to` of the sign-in.", Schema: text()},
				"Set-Cookie": {Description: "The refresh cookie of a new session.", Schema: text()},
			},
		}},
		Success: http.StatusSeeOther,
	}
	for status, codes := range map[string]string{
		"400": "`sso_state_invalid`", "403": "`sso_failed`, `sso_not_member`", "404": "`not_found`",
		"409": "`sso_account_exists`", "429": "`rate_limited`", "500": "`internal_server_error`", "502": "`sso_unavailable`",
		"503": "`unavailable`",
	} {
		r.Responses[status] = httpapi.ErrorResponse(codes)
	}
	return r
}
