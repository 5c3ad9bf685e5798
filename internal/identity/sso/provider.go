// Package sso signs users in through the identity providers of their team (OpenID Connect Core 1.0, authorization code
// flow with PKCE). identity owns the users; this package finds out who they are at the provider.
package sso

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/plaintext"
	"sallyport/internal/platform/secretbox"
)

// Limits of a provider's settings.
const (
	// MaxProviders is how many a team can have.
	MaxProviders       = 20
	MaxScopes          = 20
	MaxRoleMappings    = 100
	MaxAllowedDomains  = 50
	MaxTextBytes       = 255
	maxNameCharacters  = 100
	maxSecretBytes     = 1024
	maxDomainBytes     = 253
	scopeOpenID        = "openid"
	defaultGroupsClaim = "groups"
	// AllUsers is the group that contains every user of a provider.
	AllUsers = "*"
)

// RoleMapping gives a role to those in a group, for as long as they are in it.
type RoleMapping struct {
	// Group is compared as the provider writes it, or is the constant for all users, "*".
	Group string      `json:"group"`
	Role  access.Role `json:"role"`
	// Environment is where the role holds; empty for the whole team.
	Environment id.Environment `json:"environment_id,omitempty"`
}

// Settings are an administrator's choices.
type Settings struct {
	// Name is for people.
	Name string
	// Issuer is the provider's identifier, exactly as its discovery document has it.
	Issuer   string
	ClientID string
	// ClientSecret is what the provider gave with the client id; empty for a public client.
	ClientSecret secretbox.Secret
	Scopes       []string
	// GroupsClaim is the claim that lists a person's groups.
	GroupsClaim    string
	RoleMappings   []RoleMapping
	AllowedDomains []string
	// JustInTime makes members of people who sign in for the first time.
	JustInTime bool
	// LinkExisting accepts the verified address of a person who signs in for the first time as proof that the user with
	// that address is this person.
	LinkExisting bool
	// Enabled is false if the provider cannot be used to sign in.
	Enabled bool
}

// Defaults returns the settings of a provider that sets none.
func Defaults() Settings {
	return Settings{Scopes: []string{scopeOpenID, "email", "profile"}, GroupsClaim: defaultGroupsClaim,
		RoleMappings: []RoleMapping{}, AllowedDomains: []string{}, Enabled: true}
}

// Provider is an identity provider of a team.
type Provider struct {
	ID   string
	Team id.Team
	Settings
	// Times are in Unix milliseconds.
	CreatedMillis int64
	UpdatedMillis int64
	// sealedSecret is ClientSecret as it is stored; ClientSecret itself is empty in what is read.
	sealedSecret []byte
}

// Version identifies what the provider's changes have left. Every change makes UpdatedMillis greater.
func (p Provider) Version() etag.Tag { return etag.Of(p.ID, p.UpdatedMillis) }

// HasSecret reports whether the provider has a client secret.
func (p Provider) HasSecret() bool { return len(p.sealedSecret) > 0 }

// urlCheck says why a URL is none that the service may ask.
type urlCheck func(raw string) error

// Check adds the validation errors of the settings, at the locations of the fields. It does not check the policy of
// outgoing requests and the contents of the database.
func (s Settings) Check(v *apperr.Violations) {
	s.violations(v, func(string) error { return nil })
}

// violations is Check with the policy.
func (s Settings) violations(v *apperr.Violations, check urlCheck) {
	switch {
	case strings.TrimSpace(s.Name) == "":
		v.Add("name", "required", "must not be blank")
	case utf8.RuneCountInString(s.Name) > maxNameCharacters:
		v.Add("name", "max_length", fmt.Sprintf("must have at most %d characters", maxNameCharacters))
	case !utf8.ValidString(s.Name) || strings.ContainsFunc(s.Name, plaintext.IsControl):
		v.Add("name", "pattern", "must not hold control characters")
	}
	if err := check(s.Issuer); err != nil {
		v.Add("issuer", "url", err.Error())
	} else if strings.Contains(s.Issuer, "?") {
		v.Add("issuer", "url", "must have no query")
	}
	// RFC 6749, appendix A.1 and A.2.
	if !printable(s.ClientID) || s.ClientID == "" || len(s.ClientID) > MaxTextBytes {
		v.Add("client_id", "pattern", fmt.Sprintf("must be 1 to %d ASCII characters without control characters",
			MaxTextBytes))
	}
	if secret := s.ClientSecret.Reveal(); !printable(secret) || len(secret) > maxSecretBytes {
		v.Add("client_secret", "pattern", fmt.Sprintf("must be 1 to %d ASCII characters without control characters",
			maxSecretBytes))
	}
	s.scopeViolations(v)
	if s.GroupsClaim == "" || len(s.GroupsClaim) > MaxTextBytes || !visible(s.GroupsClaim) {
		v.Add("groups_claim", "pattern", fmt.Sprintf("must be 1 to %d visible ASCII characters", MaxTextBytes))
	}
	s.mappingViolations(v)
	s.domainViolations(v)
}

func (s Settings) scopeViolations(v *apperr.Violations) {
	if len(s.Scopes) > MaxScopes {
		v.Add("scopes", "max_items", fmt.Sprintf("must have at most %d entries", MaxScopes))
	}
	if !slices.Contains(s.Scopes, scopeOpenID) {
		v.Add("scopes", "openid", "must hold openid")
	}
	for i, scope := range s.Scopes {
		// RFC 6749, section 3.3.
		if !visible(scope) || len(scope) > MaxTextBytes || strings.ContainsAny(scope, `"\`) {
			v.Add(fmt.Sprintf("scopes[%d]", i), "pattern",
				"must be a scope of OAuth 2.0: visible ASCII characters other than quotation mark and backslash")
		}
	}
}

func (s Settings) mappingViolations(v *apperr.Violations) {
	if len(s.RoleMappings) > MaxRoleMappings {
		v.Add("role_mappings", "max_items", fmt.Sprintf("must have at most %d entries", MaxRoleMappings))
	}
	seen := map[RoleMapping]bool{}
	for i, m := range s.RoleMappings {
		at := fmt.Sprintf("role_mappings[%d]", i)
		if m.Group == "" || len(m.Group) > MaxTextBytes || !utf8.ValidString(m.Group) ||
			strings.ContainsFunc(m.Group, plaintext.IsControl) {
			v.Add(at+".group", "pattern", fmt.Sprintf("must be 1 to %d bytes without control characters", MaxTextBytes))
		}
		if m.Role == access.Owner {
			v.Add(at+".role", "not_owner", "must not be owner: the operators of the identity provider would own the team")
		}
		if seen[m] {
			v.Add(at, "unique", "is a duplicate")
		}
		seen[m] = true
	}
}

func (s Settings) domainViolations(v *apperr.Violations) {
	if len(s.AllowedDomains) > MaxAllowedDomains {
		v.Add("allowed_domains", "max_items", fmt.Sprintf("must have at most %d entries", MaxAllowedDomains))
	}
	for i, d := range s.AllowedDomains {
		if !isDomain(d) {
			v.Add(fmt.Sprintf("allowed_domains[%d]", i), "domain", "must be a domain in lower case, such as example.test")
		}
	}
	if len(s.AllowedDomains) > 0 {
		return
	}
	// A public identity provider vouches for everyone in the world.
	const why = "needs allowed_domains: say for whose addresses the identity provider speaks"
	if s.JustInTime {
		v.Add("just_in_time", "needs_domains", why)
	}
	if s.LinkExisting {
		v.Add("link_existing", "needs_domains", why)
	}
}

func visible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func isDomain(d string) bool {
	if len(d) > maxDomainBytes || !strings.Contains(d, ".") {
		return false
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// speaksFor reports whether the provider may vouch for the address.
func (s Settings) speaksFor(email string) bool {
	at := strings.LastIndexByte(email, '@')
	return len(s.AllowedDomains) == 0 || at >= 0 && slices.Contains(s.AllowedDomains, strings.ToLower(email[at+1:]))
}

// roles are those that the groups bring.
func (s Settings) roles(groups []string) []members.GivenRole {
	var out []members.GivenRole
	for _, m := range s.RoleMappings {
		r := members.GivenRole{Role: m.Role, Environment: m.Environment}
		if (m.Group == AllUsers || slices.Contains(groups, m.Group)) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// everyRole are the roles that some group brings.
func (s Settings) everyRole() []members.GivenRole {
	out := make([]members.GivenRole, len(s.RoleMappings))
	for i, m := range s.RoleMappings {
		out[i] = members.GivenRole{Role: m.Role, Environment: m.Environment}
	}
	return out
}
