package connections_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/tokens"
)

// tokenModel drives one connection and its provider, and knows what they may do.
type tokenModel struct {
	t    testing.TB
	w    *world
	p    *rotor
	id   string
	node []*connections.Service
	// given counts the grants that a user has made; dead says that the present one has ended at the provider, or that
	// its tokens were lost on their way.
	given int
	dead  bool
	// revoked: the credentials were removed; off: the connection is disabled.
	revoked, off bool
}

// grant is what a user gets who authorizes again.
func (m *tokenModel) grant() connections.Credentials {
	m.given++
	refresh, access := fmt.Sprintf("given-refresh-%d", m.given), fmt.Sprintf("given-access-%d", m.given)
	m.p.set(func() { m.p.refresh, m.p.access = refresh, access })
	m.dead = false
	at := m.w.clock.Now().Add(time.Hour)
	return connections.Credentials{ExpiresAt: &at, Values: map[string]secretbox.Secret{
		"access_token": secretbox.Secret(access), "refresh_token": secretbox.Secret(refresh)}}
}

// current returns the access token that the provider accepts.
func (m *tokenModel) current() (access string) {
	m.p.set(func() { access = m.p.access })
	return access
}

// use asks a node for a token. One that is returned is the one that the provider accepts, as long as the grant lives.
func (m *tokenModel) use(rt *rapid.T) error {
	c := m.w.read(m.t, m.id)
	if c.Credentials == nil {
		return nil
	}
	svc := m.node[rapid.IntRange(0, 1).Draw(rt, "node")]
	require.NoError(rt, connections.RefreshCaches(m.t.Context(), svc)) // a second after the last change
	token, err := connections.AccessToken(m.t.Context(), svc, &c)
	if err == nil && !m.dead {
		require.Equal(rt, m.current(), token, "a dead token was returned while a good one is stored")
	}
	return err
}

// check compares the status with its reason and with what is stored.
func (m *tokenModel) check(rt *rapid.T) {
	c := m.w.read(m.t, m.id)
	status, reason := c.EnabledStatus, c.EnabledReason
	reasons := map[connections.Status][]string{
		connections.Active: {""},
		connections.NeedsReauth: {tokens.ReasonGrantRefused, tokens.ReasonRefreshInterrupted,
			connections.ReasonCredentialsRefused},
		connections.Error:   {tokens.ReasonEndpointFailing},
		connections.Revoked: {connections.ReasonRevoked},
	}
	require.True(rt, slices.Contains(reasons[status], reason), "%s with the reason %q", status, reason)
	require.Equal(rt, m.off, c.Status == connections.Disabled)
	require.Equal(rt, m.revoked, status == connections.Revoked)
	require.Equal(rt, m.revoked, c.Credentials == nil)
	if status == connections.NeedsReauth {
		require.True(rt, m.dead, "a connection was condemned whose grant lives")
	}
	if c.Credentials != nil {
		require.Contains(rt, c.Credentials.Fields, "refresh_token")
	}
}

// Events of a connection and its provider may come in any order and on two nodes. No dead token is returned while a
// good one is stored, status and reason agree, no grant that lives is condemned, and none is lost: when the
// provider is back, the connection works.
func TestStatesOfCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, other := newTokenWorld(t, s)
		r := []connections.Renewer{connections.NewRenewer(w.svc), connections.NewRenewer(other)}
		var made atomic.Int64
		rapid.Check(t, func(rt *rapid.T) {
			p := &rotor{}
			p.Server = httptest.NewServer(p)
			defer func() { await.Return(t, "the end of the provider", p.Close) }()
			m := &tokenModel{t: t, w: w, p: p, id: fmt.Sprintf("model-%d", made.Add(1)),
				node: []*connections.Service{w.svc, other}}
			in := tokenConnection("oauth2", p, m.grant())
			in.ConnectionID, in.Untested = &m.id, true
			w.create(t, w.a, in)
			ended := func() { m.dead = m.dead || m.current() == "" }
			rt.Repeat(map[string]func(*rapid.T){
				"":    func(rt *rapid.T) { m.check(rt) },
				"use": func(rt *rapid.T) { _ = m.use(rt); ended() },
				"wait": func(rt *rapid.T) {
					w.clock.Advance(time.Duration(rapid.IntRange(1, 7200).Draw(rt, "seconds")) * time.Second)
				},
				"refresh": func(rt *rapid.T) {
					_, _ = r[rapid.IntRange(0, 1).Draw(rt, "node")].Refresh(t.Context(), w.a, "acme", m.id)
					ended()
				},
				"the provider is away": func(rt *rapid.T) {
					down := rapid.Bool().Draw(rt, "down")
					p.set(func() { p.down = down })
				},
				"a response is lost": func(rt *rapid.T) {
					p.set(func() { p.lose, p.down = true, false })
					before := p.exchanges()
					_, _ = r[0].Refresh(t.Context(), w.a, "acme", m.id)
					m.dead = m.dead || p.exchanges() > before
					p.set(func() { p.lose = false })
				},
				"the user ends the grant": func(*rapid.T) {
					p.set(func() { p.refresh, p.access = "", "" })
					m.dead = true
				},
				"the user authorizes again": func(rt *rapid.T) {
					p.set(func() { p.down = false })
					_, err := w.svc.Update(t.Context(), w.a, "acme", m.id, connections.Change{Credentials: patch.To(m.grant())})
					require.NoError(rt, err)
					m.revoked = false
				},
				"revoke": func(rt *rapid.T) {
					if m.revoked {
						rt.Skip("nothing to revoke")
					}
					_, err := r[0].Revoke(t.Context(), w.a, "acme", m.id)
					require.NoError(rt, err)
					m.revoked = true
				},
				"disable or enable": func(rt *rapid.T) {
					m.off = !m.off
					status := connections.Active
					if m.off {
						status = connections.Disabled
					}
					_, err := w.svc.SetStatus(t.Context(), w.a, "acme", m.id, status)
					require.NoError(rt, err)
				},
			})
			if m.off {
				_, err := w.svc.SetStatus(t.Context(), w.a, "acme", m.id, connections.Active)
				require.NoError(rt, err)
			}
			p.set(func() { p.down = false })
			w.clock.Advance(2 * time.Hour)
			if !m.dead && !m.revoked {
				require.NoError(rt, m.use(rt), "a grant that lives was lost")
			}
			require.NoError(rt, w.svc.Delete(t.Context(), w.a, "acme", m.id))
		})
	})
}
