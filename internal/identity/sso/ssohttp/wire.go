package ssohttp

import (
	"errors"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// provider is an identity provider on the wire.
type provider struct {
	ID              string        `json:"id" doc:"The provider's id." example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name            string        `json:"name" doc:"What people call it." example:"Company account"`
	Issuer          string        `json:"issuer" doc:"The provider's identifier, exactly as its discovery document has it." example:"https://login.example.com"`
	ClientID        string        `json:"client_id" doc:"The name under which the provider knows this service." example:"sallyport"`
	HasClientSecret bool          `json:"has_client_secret" doc:"Whether the service shows a client secret to the provider." example:"true"`
	RedirectURI     string        `json:"redirect_uri" doc:"Where the provider sends browsers back to; to be registered there." example:"https://gateway.example.com/api/v1/team/sso/sso_06dyxk8z3pk6n5q1v7wc4t2m9r/callback"`
	Scopes          []string      `json:"scopes" doc:"What is asked for." example:"[\"openid\",\"email\",\"profile\"]"`
	GroupsClaim     string        `json:"groups_claim" doc:"The claim that lists a person's groups." example:"groups"`
	RoleMappings    []roleMapping `json:"role_mappings" doc:"The roles that groups bring."`
	AllowedDomains  []string      `json:"allowed_domains" doc:"The domains for whose e-mail addresses the provider speaks. Empty: any." example:"[\"example.com\"]"`
	JustInTime      bool          `json:"just_in_time" doc:"Whether people who sign in for the first time become members." example:"false"`
	LinkExisting    bool          `json:"link_existing" doc:"Whether people who sign in for the first time are taken for the user who has their e-mail address." example:"false"`
	Enabled         bool          `json:"enabled" doc:"Whether anybody can sign in by the provider." example:"true"`
	CreatedAt       httpapi.Time  `json:"created_at" doc:"When the provider was set up." example:"2026-11-02T09:30:00.000Z"`
	UpdatedAt       httpapi.Time  `json:"updated_at" doc:"When it was last changed." example:"2026-11-02T09:30:00.000Z"`
}

type roleMapping struct {
	Group         string  `json:"group" doc:"The group, as the provider writes it. \"*\" is whoever signs in." example:"engineering"`
	Role          string  `json:"role" doc:"The role that the group brings: the name of a system role, or the id of one that the team has made." example:"developer"`
	EnvironmentID *string `json:"environment_id" nullable:"true" doc:"The environment in which the role holds; null: the whole team." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type newRoleMapping struct {
	Group         string                   `json:"group" minLength:"1" maxLength:"255" doc:"The group, as the provider writes it. \"*\" is whoever signs in." example:"engineering"`
	Role          string                   `json:"role" minLength:"1" maxLength:"64" doc:"The role that the group brings: the name of a system role other than owner, or the id of one that the team has made." example:"developer"`
	EnvironmentID httpapi.Nullable[string] `json:"environment_id,omitempty" minLength:"1" maxLength:"64" doc:"The environment in which the role holds. Default null: the whole team." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// Writable is what creation and patch have in common. It is exported because Huma looks only into exported embedded
// types.
type Writable struct {
	ClientSecret   httpapi.Nullable[secretbox.Secret] `json:"client_secret,omitempty" minLength:"1" maxLength:"1024" format:"password" writeOnly:"true" doc:"The secret that the provider gave with the client id. Null, the default of a new provider: none, for a public client. Another issuer wants it again." example:"a-secret-of-the-provider"`
	Scopes         httpapi.Optional[[]string]         `json:"scopes,omitempty" minItems:"1" maxItems:"20" doc:"What is asked for; openid is mandatory. Default openid, email and profile." example:"[\"openid\",\"email\",\"groups\"]"`
	GroupsClaim    httpapi.Optional[string]           `json:"groups_claim,omitempty" minLength:"1" maxLength:"255" doc:"The claim that lists a person's groups. Default groups." example:"groups"`
	RoleMappings   httpapi.Optional[[]newRoleMapping] `json:"role_mappings,omitempty" maxItems:"100" doc:"The roles that groups bring, for as long as a person is in them, in the place of those until now. Default none."`
	AllowedDomains httpapi.Optional[[]string]         `json:"allowed_domains,omitempty" maxItems:"50" doc:"The domains for whose e-mail addresses the provider speaks, in lower case; subdomains are domains of their own. Default none, which is any." example:"[\"example.com\"]"`
	JustInTime     httpapi.Optional[bool]             `json:"just_in_time,omitempty" doc:"Make members of people who sign in for the first time, if there is a role for them. Needs allowed_domains. Default false." example:"true"`
	LinkExisting   httpapi.Optional[bool]             `json:"link_existing,omitempty" doc:"Take people who sign in for the first time for the user who has their e-mail address. Whoever runs the provider can then be any user in allowed_domains, which it needs; only owners set it. Default false." example:"false"`
	Enabled        httpapi.Optional[bool]             `json:"enabled,omitempty" doc:"Whether anybody can sign in by the provider. Default true." example:"true"`
}

// apply makes the settings those of the body where it says something. The secret is not among them.
func (w Writable) apply(s *sso.Settings) {
	set(&s.Scopes, w.Scopes.Pointer())
	set(&s.GroupsClaim, w.GroupsClaim.Pointer())
	set(&s.AllowedDomains, w.AllowedDomains.Pointer())
	set(&s.JustInTime, w.JustInTime.Pointer())
	set(&s.LinkExisting, w.LinkExisting.Pointer())
	set(&s.Enabled, w.Enabled.Pointer())
	if !w.RoleMappings.Set {
		return
	}
	s.RoleMappings = make([]sso.RoleMapping, 0, len(w.RoleMappings.Value))
	for _, m := range w.RoleMappings.Value {
		s.RoleMappings = append(s.RoleMappings, sso.RoleMapping{Group: m.Group, Role: access.Role(m.Role),
			Environment: id.Environment(m.EnvironmentID.Value)})
	}
}

func set[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

type newProvider struct {
	Name     string `json:"name" minLength:"1" maxLength:"100" doc:"What people call it; no control characters." example:"Company account"`
	Issuer   string `json:"issuer" minLength:"1" maxLength:"2048" doc:"The provider's identifier, exactly as its discovery document has it: an https URL." example:"https://login.example.com"`
	ClientID string `json:"client_id" minLength:"1" maxLength:"255" doc:"The name under which the provider knows this service." example:"sallyport"`
	Writable
}

// settings are the body's, with the defaults for what it leaves out.
func (n *newProvider) settings() sso.Settings {
	s := sso.Defaults()
	s.Name, s.Issuer, s.ClientID, s.ClientSecret = n.Name, n.Issuer, n.ClientID, n.ClientSecret.Value
	n.apply(&s)
	return s
}

// Resolve has the rules look at a body of the wrong shape too. One of the right shape is for the service to check,
// together with what only the policy of outgoing requests and the database can tell.
func (n *newProvider) Resolve(ctx huma.Context) []error {
	httpapi.OnRefusal(ctx, func(f *apperr.Faults) { check(f, n.settings()) })
	return nil
}

type providerPatch struct {
	Name     httpapi.Optional[string] `json:"name,omitempty" minLength:"1" maxLength:"100" doc:"What people call it; no control characters. Default: as it is." example:"Company account"`
	Issuer   httpapi.Optional[string] `json:"issuer,omitempty" minLength:"1" maxLength:"2048" doc:"The provider's identifier: an https URL. Default: as it is." example:"https://login.example.com"`
	ClientID httpapi.Optional[string] `json:"client_id,omitempty" minLength:"1" maxLength:"255" doc:"The name under which the provider knows this service. Default: as it is." example:"sallyport"`
	Writable
}

func (p *providerPatch) apply(s *sso.Settings) {
	set(&s.Name, p.Name.Pointer())
	set(&s.Issuer, p.Issuer.Pointer())
	set(&s.ClientID, p.ClientID.Pointer())
	p.Writable.apply(s)
}

// Resolve has the rules look at a body of the wrong shape too; see newProvider.
func (p *providerPatch) Resolve(ctx huma.Context) []error {
	httpapi.OnRefusal(ctx, func(f *apperr.Faults) {
		s := sso.Defaults()
		s.Name, s.ClientID, s.AllowedDomains, s.ClientSecret = "-", "-", []string{"example.test"}, p.ClientSecret.Value
		p.apply(&s)
		check(f, s)
	})
	return nil
}

func (p *providerPatch) change() sso.Change {
	c := sso.Change{Apply: p.apply}
	if p.ClientSecret.Set {
		secret := p.ClientSecret.Value // empty for null
		c.Secret = &secret
	}
	return c
}

// check adds the faults of settings where the body is.
func check(f *apperr.Faults, s sso.Settings) {
	var own apperr.Faults
	s.Check(&own)
	var invalid *apperr.Error
	if !errors.As(own.Err(), &invalid) {
		return
	}
	for _, d := range invalid.Details {
		f.Add("body."+d.Location, d.Rule, d.Message)
	}
}

type createInput struct {
	Body newProvider
}

type createOutput struct {
	Location string `header:"Location" doc:"The path of the new provider."`
	Body     provider
}

type listInput struct {
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listOutput struct {
	page.Headers
	Body []provider
}

type providerInput struct {
	ID string `path:"id" doc:"The provider's id." example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type updateInput struct {
	ID   string `path:"id" doc:"The provider's id." example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body providerPatch
}

type providerOutput struct {
	Body provider
}

type testOutput struct {
	Body testResult
}

type testResult struct {
	OK     bool          `json:"ok" doc:"Whether every check passed." example:"true"`
	Checks []checkResult `json:"checks" doc:"What was looked at, in this order; the first failure ends the test."`
}

type checkResult struct {
	Name    checkName `json:"name" doc:"discovery: the discovery document is there, is the issuer's, and offers what is needed. keys: the key set is there and has public keys for signatures." example:"discovery"`
	OK      bool      `json:"ok" doc:"Whether the check passed." example:"true"`
	Message *string   `json:"message" nullable:"true" doc:"What is wrong; null where nothing is." example:"The discovery document did not answer: The target's name could not be resolved."`
}

type checkName sso.CheckName

// Schema lists the checks.
func (checkName) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, n := range sso.CheckNames() {
		s.Enum = append(s.Enum, string(n))
	}
	return s
}

type startInput struct {
	ID       string `path:"id" doc:"The provider's id." example:"sso_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	ReturnTo string `query:"return_to" maxLength:"512" default:"/docs" doc:"The path of this service to which the browser goes when it is signed in: visible ASCII characters beginning with one slash, with neither backslashes nor empty, \".\" or \"..\" parts. Default /docs." example:"/docs"`
}

// Resolve refuses what could lead to another site.
func (in *startInput) Resolve(huma.Context) []error {
	if sso.ValidReturnTo(in.ReturnTo) {
		return nil
	}
	return []error{apperr.Invalid(apperr.Detail{Location: "query.return_to", Rule: "path",
		Message: "must be a path of this service, such as /docs"})}
}

type startOutput struct {
	Location     string `header:"Location" doc:"Where the browser goes: the authorization endpoint of the provider."`
	SetCookie    string `header:"Set-Cookie" doc:"What binds the sign-in to the browser, for ten minutes."`
	CacheControl string `header:"Cache-Control" doc:"Always no-store."`
}
