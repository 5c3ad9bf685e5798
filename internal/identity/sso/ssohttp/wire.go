package ssohttp

import (
	"context"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// provider is the wire form of an identity provider.
type provider struct {
	// The provider's id.
	ID string `json:"id" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The display name of the provider.
	Name string `json:"name" example:"Company account"`
	// The issuer identifier, exactly as in the provider's discovery document.
	Issuer string `json:"issuer" example:"https://login.example.com"`
	// The client id of this service at the provider.
	ClientID string `json:"client_id" example:"sallyport"`
	// Whether the service authenticates with a client secret.
	HasClientSecret bool `json:"has_client_secret" example:"true"`
	// The redirect URI, to be registered at the provider. The provider redirects browsers to it.
	RedirectURI string `json:"redirect_uri" example:"https://gateway.example.com/api/v1/team/sso/sso_06dyxk8z3pk6n5q1v7wc4t2m9r/callback"`
	// The scopes that the service requests.
	Scopes []string `json:"scopes" example:"[\"openid\",\"email\",\"profile\"]"`
	// The claim that contains a user's groups.
	GroupsClaim string `json:"groups_claim" example:"groups"`
	// The roles that groups grant.
	RoleMappings []roleMapping `json:"role_mappings"`
	// The e-mail domains that the provider is trusted for. An empty list means any domain.
	AllowedDomains []string `json:"allowed_domains" example:"[\"example.com\"]"`
	// Whether users become members at their first sign-in.
	JustInTime bool `json:"just_in_time" example:"false"`
	// Whether a first sign-in is linked to the existing user with the same e-mail address.
	LinkExisting bool `json:"link_existing" example:"false"`
	// Whether users can sign in with the provider.
	Enabled bool `json:"enabled" example:"true"`
	// When the provider was set up.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the provider was last changed.
	UpdatedAt httpapi.Time `json:"updated_at" example:"2026-11-02T09:30:00.000Z"`
}

type roleMapping struct {
	// The group, as the provider writes it. `*` means every user who signs in.
	Group string `json:"group" example:"engineering"`
	// The role that the group grants: the name of a system role, or the id of a custom role.
	Role string `json:"role" example:"developer"`
	// The environment in which the role applies; `null` for the whole team.
	EnvironmentID *string `json:"environment_id" nullable:"true" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type newRoleMapping struct {
	// The group, as the provider writes it. `*` means every user who signs in.
	Group string `json:"group" minLength:"1" maxLength:"255" example:"engineering"`
	// The role that the group grants: the name of a system role other than `owner`, or the id of a custom role.
	Role string `json:"role" minLength:"1" maxLength:"64" example:"developer"`
	// The environment in which the role applies. Default `null`: the whole team.
	EnvironmentID patch.Field[string] `json:"environment_id,omitempty" minLength:"1" maxLength:"64" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// Writable holds the fields that creation and patch share. It is exported because only exported embedded structs are
// documented.
type Writable struct {
	// The client secret from the provider. `null`, the default for a new provider, means none, for a public client. A
	// change of the issuer requires it again.
	ClientSecret patch.Field[secretbox.Secret] `json:"client_secret,omitempty" minLength:"1" maxLength:"1024" format:"password" writeOnly:"true" example:"a-secret-of-the-provider"`
	// The scopes to request; `openid` is required. Default `openid`, `email` and `profile`.
	Scopes patch.Optional[[]string] `json:"scopes,omitempty" minItems:"1" maxItems:"20" example:"[\"openid\",\"email\",\"groups\"]"`
	// The claim that contains a user's groups. Default `groups`.
	GroupsClaim patch.Optional[string] `json:"groups_claim,omitempty" minLength:"1" maxLength:"255" example:"groups"`
	// The roles that groups grant, for as long as a user is in the group. They replace the present mappings. Default:
	// none.
	RoleMappings patch.Optional[[]newRoleMapping] `json:"role_mappings,omitempty" maxItems:"100"`
	// The e-mail domains that the provider is trusted for, in lower case. A subdomain is a separate domain. Default: an
	// empty list, which means any domain.
	AllowedDomains patch.Optional[[]string] `json:"allowed_domains,omitempty" maxItems:"50" example:"[\"example.com\"]"`
	// Make users members at their first sign-in if a mapping grants them a role. Requires `allowed_domains`. Default
	// `false`.
	JustInTime patch.Optional[bool] `json:"just_in_time,omitempty" example:"true"`
	// Link a first sign-in to the existing user with the same e-mail address. The provider's administrators can then act
	// as any user in `allowed_domains`, which this setting requires. Only owners can set it. Default `false`.
	LinkExisting patch.Optional[bool] `json:"link_existing,omitempty" example:"false"`
	// Whether users can sign in with the provider. Default `true`.
	Enabled patch.Optional[bool] `json:"enabled,omitempty" example:"true"`
}

// apply changes the settings that the body contains, except the secret.
func (w Writable) apply(s *sso.Settings) {
	setIfGiven(&s.Scopes, w.Scopes.Pointer())
	setIfGiven(&s.GroupsClaim, w.GroupsClaim.Pointer())
	setIfGiven(&s.AllowedDomains, w.AllowedDomains.Pointer())
	setIfGiven(&s.JustInTime, w.JustInTime.Pointer())
	setIfGiven(&s.LinkExisting, w.LinkExisting.Pointer())
	setIfGiven(&s.Enabled, w.Enabled.Pointer())
	if !w.RoleMappings.Set {
		return
	}
	s.RoleMappings = make([]sso.RoleMapping, 0, len(w.RoleMappings.Value))
	for _, m := range w.RoleMappings.Value {
		s.RoleMappings = append(s.RoleMappings, sso.RoleMapping{Group: m.Group, Role: access.Role(m.Role),
			Environment: id.Environment(m.EnvironmentID.Value)})
	}
}

func setIfGiven[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

type newProvider struct {
	// The display name of the provider; no control characters.
	Name string `json:"name" minLength:"1" maxLength:"100" example:"Company account"`
	// The issuer identifier, exactly as in the provider's discovery document: an https URL.
	Issuer string `json:"issuer" minLength:"1" maxLength:"2048" example:"https://login.example.com"`
	// The client id of this service at the provider.
	ClientID string `json:"client_id" minLength:"1" maxLength:"255" example:"sallyport"`
	Writable
}

// settings returns the settings of the body, with defaults for missing fields.
func (n *newProvider) settings() sso.Settings {
	s := sso.Defaults()
	s.Name, s.Issuer, s.ClientID, s.ClientSecret = n.Name, n.Issuer, n.ClientID, n.ClientSecret.Value
	n.apply(&s)
	return s
}

// CheckRefused adds the errors that the service would find.
func (n *newProvider) CheckRefused(_ context.Context, v *apperr.Violations) { n.settings().Check(v) }

type providerPatch struct {
	// The display name of the provider; no control characters. Default: unchanged.
	Name patch.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" example:"Company account"`
	// The issuer identifier: an https URL. Default: unchanged.
	Issuer patch.Optional[string] `json:"issuer,omitempty" minLength:"1" maxLength:"2048" example:"https://login.example.com"`
	// The client id of this service at the provider. Default: unchanged.
	ClientID patch.Optional[string] `json:"client_id,omitempty" minLength:"1" maxLength:"255" example:"sallyport"`
	Writable
}

func (p *providerPatch) apply(s *sso.Settings) {
	setIfGiven(&s.Name, p.Name.Pointer())
	setIfGiven(&s.Issuer, p.Issuer.Pointer())
	setIfGiven(&s.ClientID, p.ClientID.Pointer())
	p.Writable.apply(s)
}

// CheckRefused adds the errors that the service would find.
func (p *providerPatch) CheckRefused(_ context.Context, v *apperr.Violations) {
	s := sso.Defaults()
	s.Name, s.ClientID, s.AllowedDomains, s.ClientSecret = "-", "-", []string{"example.test"}, p.ClientSecret.Value
	p.apply(&s)
	s.Check(v)
}

func (p *providerPatch) change() sso.Change {
	c := sso.Change{Apply: p.apply}
	if p.ClientSecret.Set {
		secret := p.ClientSecret.Value // empty for null
		c.Secret = &secret
	}
	return c
}

type createInput struct {
	Body newProvider
}

type createOutput struct {
	httpapi.Versioned
	// The path of the new provider.
	Location string `header:"Location"`
	Body     provider
}

type listInput struct{ page.Query }

type providerInput struct {
	// The provider's id.
	ID string `path:"id" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateInput struct {
	// The provider's id.
	ID   string `path:"id" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body providerPatch
}

type providerOutput struct {
	httpapi.Versioned
	Body provider
}

type testOutput struct {
	Body testResult
}

type testResult struct {
	// Whether every check passed.
	OK bool `json:"ok" example:"true"`
	// The checks in the order in which they ran. The first failure ends the test.
	Checks []checkResult `json:"checks"`
}

type checkResult struct {
	// `discovery`: the discovery document exists, belongs to the issuer and offers what the service needs. `keys`: the key
	// set exists and contains public signature keys.
	Name sso.CheckName `json:"name" example:"discovery"`
	// Whether the check passed.
	OK bool `json:"ok" example:"true"`
	// The problem; `null` if there is none.
	Message *string `json:"message" nullable:"true" example:"The discovery document did not respond: The target's name could not be resolved."`
}

type startInput struct {
	// The provider's id.
	ID string `path:"id" example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The path of this service that the browser is redirected to after the sign-in. It consists of visible ASCII
	// characters, begins with a single slash, and contains no backslashes and no empty, `.` or `..` segments. Default
	// `/docs`.
	ReturnTo string `query:"return_to" maxLength:"512" default:"/docs" example:"/docs"`
}

// Check rejects a path that could lead to another site.
func (in *startInput) Check(_ context.Context, v *apperr.Violations) {
	if !sso.ValidReturnTo(in.ReturnTo) {
		v.Add("query.return_to", "path", "must be a path of this service, such as /docs")
	}
}

type startOutput struct {
	// The authorization endpoint of the provider.
	Location string `header:"Location"`
	// A cookie that binds the sign-in to the browser for ten minutes.
	SetCookie string `header:"Set-Cookie"`
	// Always `no-store`.
	CacheControl string `header:"Cache-Control"`
}
