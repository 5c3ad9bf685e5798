package outbound_test

import (
	"slices"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

// acme is a definition with a host that depends on the connection.
const acme = `
connection_config:
  subdomain: {title: Subdomain, suffix: .acme.com, example: shop}
  version: {title: Version, enum: [v1, v2], default: v1}
  note: {title: Note, optional: true}
base_url: "https://${config.subdomain}.acme.com/api/${config.version}"
allowed_hosts: ["*.acme.com"]
auth:
  - mode: bearer
  - {mode: api_key, request: {headers: {X-Key: "${cred.api_key}"}, query: {note: "${config.note}"}}}
`

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func read(tb testing.TB, text string) outbound.Declaration {
	tb.Helper()
	var d outbound.Declaration
	require.NoError(tb, yaml.UnmarshalWithOptions([]byte(text), &d, yaml.Strict()))
	return d
}

func compile(tb testing.TB, text string) *outbound.Engine {
	tb.Helper()
	e, err := outbound.Compile(read(tb, text))
	require.NoError(tb, err)
	return e
}

// fields returns the fields of the problems in an error, sorted, each once.
func fields(tb testing.TB, err error) []string {
	tb.Helper()
	var config *outbound.ConfigError
	require.ErrorAs(tb, err, &config)
	return fieldsOf(tb, config.Problems)
}

func fieldsOf(tb testing.TB, problems []outbound.Problem) []string {
	tb.Helper()
	var out []string
	for _, p := range problems {
		require.NotEmpty(tb, p.Message)
		out = append(out, p.Field)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// config resolves a connection's values.
func config(tb testing.TB, e *outbound.Engine, mode string, pairs ...string) outbound.Config {
	tb.Helper()
	given := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		given[pair[0]] = pair[1]
	}
	out, problems := e.ResolveConfig(mode, given)
	require.Empty(tb, problems)
	return out
}

func credentials(pairs ...string) map[string]secretbox.Secret {
	out := map[string]secretbox.Secret{}
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = secretbox.Secret(pair[1])
	}
	return out
}
