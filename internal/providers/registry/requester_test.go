package registry_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/definitions"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// requester is a connection of a provider that ships, as its definition makes requests for it.
type requester struct {
	engine *outbound.Engine
	mode   *outbound.Mode
	values outbound.Values
}

// requests returns a connection with an OAuth client, for a mode; config and credentials are pairs.
func requests(tb testing.TB, slug, mode string, config, credentials []string) requester {
	tb.Helper()
	shipped, err := registry.Load(definitions.FS())
	require.NoError(tb, err)
	p, ok := shipped.Get(slug)
	require.True(tb, ok)
	m, ok := p.Outbound.Mode(mode)
	require.True(tb, ok, mode)
	given := map[string]string{}
	for pair := range slices.Chunk(config, 2) {
		given[pair[0]] = pair[1]
	}
	resolved, problems := p.Outbound.ResolveConfig(mode, given)
	require.Empty(tb, problems)
	r := requester{engine: p.Outbound, mode: m, values: outbound.Values{
		Target:      outbound.Target{Mode: mode, Config: resolved},
		Client:      outbound.Client{ID: "client-1", Secret: "client-secret"},
		Credentials: map[string]secretbox.Secret{}, Now: time.Unix(1772600767, 0),
	}}
	for pair := range slices.Chunk(credentials, 2) {
		r.values.Credentials[pair[0]] = secretbox.Secret(pair[1])
	}
	require.Empty(tb, m.CheckCredentials(r.values.Credentials))
	return r
}

// send returns the request that goes to the provider for a caller's.
func (r requester) send(tb testing.TB, out outbound.Outgoing) *http.Request {
	tb.Helper()
	req, err := r.engine.Prepare(tb.Context(), out, r.values)
	require.NoError(tb, err)
	return req
}

// probe returns the only request that tests the connection, and what a response to it with a status and a body means.
func (r requester) probe(tb testing.TB, status int, body string) (*http.Request, outbound.Verdict, outbound.Account) {
	tb.Helper()
	probes := r.engine.Probes(r.values.Mode)
	require.Len(tb, probes, 1)
	req, err := r.engine.PrepareProbe(tb.Context(), probes[0], r.values)
	require.NoError(tb, err)
	v, account, _ := r.engine.JudgeProbe(probes[0], r.values.Config, returned(status, body), r.values.Now)
	return req, v, account
}

// judge says what a response means; header are pairs.
func (r requester) judge(status int, body string, header ...string) outbound.Verdict {
	return r.engine.Judge(returned(status, body, header...), r.values.Now)
}

// endpoints returns the URLs of the mode's token protocol.
func (r requester) endpoints(tb testing.TB) *outbound.Endpoints {
	tb.Helper()
	out, err := r.engine.Endpoints(r.values)
	require.NoError(tb, err)
	return out
}

// hosts returns the hosts that may get the connection's credentials.
func (r requester) hosts(tb testing.TB) []string {
	tb.Helper()
	out, err := r.engine.Hosts(r.values.Target)
	require.NoError(tb, err)
	return out
}

// token returns the token in a response of the mode's token endpoint: access and refresh token, lifetime, and scopes
// with commas between them.
func (r requester) token(tb testing.TB, body string) []string {
	tb.Helper()
	rules := r.mode.Token
	got, err := oauth.ParseToken(oauth.TokenSpec{Access: rules.Access, Refresh: rules.Refresh, ExpiresIn: rules.ExpiresIn,
		Scope: rules.Scope, Alternate: rules.Alternate, DefaultTTL: rules.DefaultTTL}, 200, http.Header{}, []byte(body),
		r.values.Now)
	require.NoError(tb, err)
	life := ""
	if !got.ExpiresAt.IsZero() {
		life = got.ExpiresAt.Sub(r.values.Now).String()
	}
	return []string{got.Access.Reveal(), got.Refresh.Reveal(), life, strings.Join(got.Scopes, ",")}
}

// returned is a response of a provider; header are pairs.
func returned(status int, body string, header ...string) outbound.Response {
	h := http.Header{}
	for pair := range slices.Chunk(header, 2) {
		h.Set(pair[0], pair[1])
	}
	return outbound.Response{Status: status, Header: h, Body: []byte(body)}
}

// target is the method and the URL of a request.
func target(req *http.Request) string { return req.Method + " " + req.URL.String() }

// content is the body of a request.
func content(tb testing.TB, req *http.Request) string {
	tb.Helper()
	body, err := io.ReadAll(req.Body)
	require.NoError(tb, err)
	return string(body)
}
