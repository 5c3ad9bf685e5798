package outbound_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// hosts is a definition whose modes do not have the same settings.
const hosts = `
connection_config:
  subdomain: {title: Subdomain, suffix: .acme.com, example: shop}
  team: {title: Team, pattern: "[a-z]+", example: red}
  version: {title: Version, enum: [v1, v2], default: v1}
  zone: {title: Zone, enum: [eu, us], default: eu}
  pin: {title: Pin, secret: true, optional: true}
base_url: "https://${config.subdomain}.acme.com/api/${config.version}"
allowed_hosts: ["*.acme.com", "${config.zone}.acme.net", files.acme.org, "files.acme.org:8443"]
auth:
  - mode: bearer
  - mode: api_key
    base_url: "https://${config.zone}.acme.net/${config.team}/${config.version}"
    request: {headers: {X-Key: "${cred.api_key}", X-Pin: "${config.pin}"}}
`

// A base URL that some requests have leads to a host that gets the credentials of every mode anyway, or to one that the
// definition names for all connections, with values that all modes have.
func TestCheckBaseURL(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	for _, good := range []string{"https://${config.subdomain}.acme.com", "https://${config.subdomain}.acme.com/${config.version}/x",
		"https://files.acme.com", "https://files.acme.com/v3"} {
		require.Empty(t, outbound.CheckBaseURL(e, good), good)
	}
	for text, want := range map[string]string{
		"":                                         "must be an absolute URL",
		"/v3":                                      "must be an absolute URL",
		"http://files.acme.com":                    "must begin with https://",
		"https://acme.com":                         "not among the allowed_hosts",
		"https://files.acme.com:8443":              "not among the allowed_hosts",
		"https://a.files.acme.com":                 "not among the allowed_hosts",
		"https://files.acme.com?x=1":               "must not have a query",
		"https://files.acme.com#x":                 "without empty labels",
		"https://user@files.acme.com":              "without empty labels",
		"https://files.acme.com/../x":              "dot segments",
		"https://${config.other}.acme.com":         "does not exist here",
		"https://${cred.token}.acme.com":           "does not exist here",
		"https://files.acme.com/${cred.token}":     "does not exist here",
		"https://${config.version}.acme.com":       "to which no other request of the mode bearer goes",
		"https://${config.subdomain}-f.acme.com":   "to which no other request of the mode bearer goes",
		"https://${config.subdomain}.${now}.com":   "can have only",
		"https://files.acme.com/${config.note}":    "of which connections of the mode bearer have no value",
		"https://files.acme.com/${config.version":  "has",
		"https://${config.subdomain}.acme.com:443": "",
	} {
		wrong := outbound.CheckBaseURL(e, text)
		if want == "" {
			require.Empty(t, wrong, text)
			continue
		}
		require.Contains(t, wrong, want, text)
	}
	e = compile(t, hosts)
	require.Empty(t, outbound.CheckBaseURL(e, "https://files.acme.org/${config.version}"))
	require.Empty(t, outbound.CheckBaseURL(e, "https://files.acme.org:8443"))
	for text, want := range map[string]string{
		"https://files.acme.org/${config.team}": "of which connections of the mode bearer have no value",
		"https://${config.subdomain}.acme.com":  "of which connections of the mode api_key have no value",
		"https://${config.version}.acme.com":    "to which no other request of the mode",
		"https://files.acme.org/${config.pin}":  "does not exist here",
		"https://${config.zone}.acme.net/x":     "of which connections of the mode bearer have no value",
	} {
		require.Contains(t, outbound.CheckBaseURL(e, text), want, text)
	}
}

// A base URL can begin with the URL that a connection has, but not with another one.
func TestCheckBaseURLOfAnInstance(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config:
  instance: {type: url, title: Instance, example: "https://a.acme.com"}
  login: {type: url, title: Login, example: "https://b.acme.com"}
base_url: "${config.instance}/api"
allowed_hosts: ["*.acme.com"]
auth:
  - {mode: bearer, request: {headers: {X-Login: "${config.login}"}}}
`)
	require.Empty(t, outbound.CheckBaseURL(e, "${config.instance}/v2"))
	require.Contains(t, outbound.CheckBaseURL(e, "${config.login}/v2"), "to which no other request of the mode bearer goes")
	require.Contains(t, outbound.CheckBaseURL(e, "${config.instance}.acme.com"), "must have a path")
}
