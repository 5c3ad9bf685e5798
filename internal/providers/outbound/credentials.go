package outbound

import (
	"maps"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// AccessToken is the credential that the modes with a token endpoint, a login or an assertion mint.
const AccessToken = "access_token"

// credKeyID is the credential that names another one, a key, at the provider.
const credKeyID = "key_id"

// credentialFields returns the credentials of a mode, which are the names in credentials, in templates and in forms.
func credentialFields(a *Auth) []Field {
	secret := func(name, title string) Field { return Field{Name: name, Title: title, Secret: true} }
	text := func(name, title string) Field { return Field{Name: name, Title: title} }
	optional := func(f Field) Field { f.Optional = true; return f }
	minted := func(f Field) Field { f.Minted = true; return f }
	token := minted(secret(AccessToken, "Access token"))
	keyID := optional(text(credKeyID, "Key ID"))
	keyID.Description = "The provider's name of the key, where it has one."
	privateKey := secret("key", "Private key")
	privateKey.Multiline = true
	switch a.Mode {
	case APIKey:
		return []Field{secret("api_key", "API key")}
	case Bearer:
		return []Field{secret("token", "Token")}
	case Basic:
		return []Field{text("username", "User name"), secret("password", "Password")}
	case SessionToken:
		return []Field{text("username", "User name"), secret("password", "Password"), optional(token)}
	case OAuth2:
		return []Field{token, optional(minted(secret("refresh_token", "Refresh token"))),
			optional(minted(text("expires_at", "Expiry"))), optional(minted(text("scopes", "Scopes")))}
	case ClientCredentials:
		if a.ClientAuth == string(ClientAuthPrivateKeyJWT) {
			return []Field{text("client_id", "Client ID"), privateKey, keyID, optional(token)}
		}
		return []Field{text("client_id", "Client ID"), secret("client_secret", "Client secret"), optional(token)}
	case OAuth1:
		return []Field{minted(secret("token", "Token")), minted(secret("token_secret", "Token secret"))}
	case JWTBearer, ServiceAccount:
		subject := optional(text("subject", "Subject"))
		if a.Mode == ServiceAccount {
			privateKey.Title, privateKey.Description = "Key file", "The JSON key file of the service account."
		} else if a.JWT != nil && strings.Contains(a.JWT.KeyID, "cred."+credKeyID) {
			return []Field{privateKey, keyID, subject, optional(token)}
		}
		return []Field{privateKey, subject, optional(token)}
	case GitHubApp:
		id := text("installation_id", "Installation ID")
		id.Pattern, id.Example = "[0-9]{1,20}", "12345678"
		return []Field{id, optional(token)}
	case AWSSigV4:
		return []Field{text("access_key_id", "Access key ID"), secret("secret_access_key", "Secret access key"),
			optional(secret("session_token", "Session token"))}
	case HMAC:
		return []Field{text(credKeyID, "Key ID"), secret("secret", "Secret")}
	default:
		return nil
	}
}

// compileFields returns the credentials of a mode, described as the definition says.
func compileFields(a *Auth, path string, ps *problems) []Field {
	fields := credentialFields(a)
	for key, c := range a.Fields {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == key })
		if i < 0 {
			ps.add(under(path+".fields", short(key)), "is not a credential of the mode %s", a.Mode)
			continue
		}
		f, place := &fields[i], path+".fields."+key
		checkTexts(place, c.Title, c.Description, false, ps)
		if c.Title != "" {
			f.Title = c.Title
		}
		if c.Description != "" {
			f.Description = c.Description
		}
		if c.Pattern != "" {
			f.Pattern, f.Example = c.Pattern, ""
		}
		if c.Example != "" {
			f.Example = c.Example
		}
		f.Optional = f.Optional || c.Optional
	}
	for i := range fields {
		fields[i].Type = TypeString
		place := path + ".fields." + fields[i].Name
		fields[i].compilePattern(place, ps)
		if wrong := fields[i].check(fields[i].Example); fields[i].Example != "" && wrong != "" {
			ps.add(place+".example", "%s", wrong)
		}
	}
	return fields
}

// names lists the credentials for a sentence.
func (m *Mode) names() string {
	var names []string
	for i := range m.Fields {
		names = append(names, m.Fields[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// CheckCredentials checks credentials that were given for a mode. Problems have fields such as "credentials.api_key"
// and quote no value. Minted credentials may be missing, unless the mode has no others.
func (m *Mode) CheckCredentials(given map[string]secretbox.Secret) []Problem {
	var ps problems
	for i := range m.Fields {
		f := &m.Fields[i]
		value := given[f.Name].Reveal()
		switch wrong := f.check(value); {
		case value == "":
			if !f.Optional && (!f.Minted || !m.Entered()) {
				ps.add("credentials."+f.Name, "is missing")
			}
		case wrong != "":
			ps.add("credentials."+f.Name, "%s", wrong)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(m.Fields, func(f Field) bool { return f.Name == key }) {
			ps.add("credentials."+short(key), "is not a credential of the mode %s, which has %s", m.Name, m.names())
		}
	}
	return ps
}
