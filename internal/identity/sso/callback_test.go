package sso_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/sso"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// A response of a provider works once, in the browser that asked for it, from the provider that was asked, within ten
// minutes. A code of another sign-in is worthless.
func TestStolenResponses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p, other := f.provider(t), f.provider(t)
		start := func() sso.Begun {
			begun, err := f.Start(t.Context(), p.ID, "/docs")
			require.NoError(t, err)
			return begun
		}
		finish := func(provider string, browser secretbox.Secret, a sso.Callback) error {
			_, _, err := f.Finish(t.Context(), client(), provider, browser, a, "")
			return err
		}
		mine, victims := start(), start()
		callback := browse(t, mine)
		stale := func(err error) {
			t.Helper()
			require.True(t, apperr.Is(err, apperr.CodeSSOStateInvalid), "%v", err)
		}
		stale(finish(p.ID, victims.Browser, callback)) // login CSRF: an attacker's response in the victim's browser
		stale(finish(p.ID, "", callback))
		stale(finish(p.ID, "x", callback))
		stale(finish(other.ID, mine.Browser, callback))
		stale(finish(p.ID, mine.Browser, sso.Callback{Code: callback.Code, Issuer: callback.Issuer}))
		require.NoError(t, finish(p.ID, mine.Browser, callback), "none of them has used it up")
		stale(finish(p.ID, mine.Browser, callback))

		// A code that was stolen from one sign-in is injected into another: PKCE ties it to the first.
		first, second := start(), start()
		stolen, own := browse(t, first), browse(t, second)
		own.Code = stolen.Code
		err := finish(p.ID, second.Browser, own)
		require.True(t, apperr.Is(err, apperr.CodeSSOFailed), "%v", err)
		require.ErrorContains(t, err, "does not accept the authorization code")

		late := start()
		callback = browse(t, late)
		f.clk.Advance(sso.SignInLifetime)
		stale(finish(p.ID, late.Browser, callback))

		for name, lie := range map[string]func(q url.Values){
			"another issuer": func(q url.Values) { q.Set("iss", "https://elsewhere.example.test") },
			"no issuer":      func(q url.Values) { q.Del("iss") },
			"no code":        func(q url.Values) { q.Del("code") },
		} {
			f.idp.Set(func(b *testkit.Behaviour) { b.Callback = lie })
			exchanged := f.idp.Asked("/token")
			_, err := f.signIn(t, p)
			require.True(t, apperr.Is(err, apperr.CodeSSOFailed), "%s: %v", name, err)
			require.Equal(t, exchanged, f.idp.Asked("/token"), "%s: no code leaves for anywhere", name)
		}
		f.idp.Set(func(b *testkit.Behaviour) {
			b.Callback = func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }
		})
		_, err = f.signIn(t, p)
		require.ErrorContains(t, err, "refuses the sign-in")
	})
}

// Of many requests that bring one response at the same time, on several nodes, one signs in.
func TestResponsesWorkOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		begun, err := f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
		callback := browse(t, begun)
		nodes := []*sso.Service{f.Service, f.node(egress.Policy{AllowLoopback: true, AllowHTTP: true})}
		errs := make(chan error, 6)
		var all sync.WaitGroup
		for n := range cap(errs) {
			all.Go(func() {
				_, _, err := nodes[n%2].Finish(t.Context(), client(), p.ID, begun.Browser, callback, "")
				errs <- err
			})
		}
		all.Wait()
		close(errs)
		right := 0
		for err := range errs {
			if err == nil {
				right++
				continue
			}
			require.True(t, apperr.Is(err, apperr.CodeSSOStateInvalid), "%v", err)
		}
		require.Equal(t, 1, right)
		require.Equal(t, 1, f.count(t, "sessions"))
	})
}

// Made-up responses of providers are refused while the database has a writer: they wait for none, and so keep no one
// waiting.
func TestMadeUpResponsesTakeNoWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		made := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
		var finished error
		require.NoError(t, f.store.DB.Tx(t.Context(), func(*sql.Tx) error {
			_, _, finished = f.Finish(t.Context(), client(), p.ID, secretbox.Secret(made), sso.Callback{State: made, Code: "x"},
				"")
			return nil
		}))
		require.True(t, apperr.Is(finished, apperr.CodeSSOStateInvalid), "%v", finished)
	})
}

// Strangers who begin sign-ins share a limit with those who guess passwords, so that any number of them does not make
// the database write faster. A request beyond the limit stores nothing.
func TestSignInsTakeTurns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.provider(t)
		_, err := f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
		var release []func()
		for range f.identity.SignIn.Turns() {
			r, err := f.identity.SignIn.Turn(t.Context())
			require.NoError(t, err)
			release = append(release, r)
		}
		begun := make(chan error)
		ctx, leave := context.WithCancel(t.Context())
		const waiting = 40 // more than may wait
		for range waiting {
			go func() {
				_, err := f.Start(ctx, p.ID, "/docs")
				begun <- err
			}()
		}
		require.True(t, apperr.Is(<-begun, apperr.CodeUnavailable), "nobody is sent away")
		require.Equal(t, 1, f.count(t, "sso_sign_ins"))
		leave()
		for range waiting - 1 {
			require.Error(t, <-begun)
		}
		require.Equal(t, 1, f.count(t, "sso_sign_ins"))
		for _, r := range release {
			r()
		}
		_, err = f.Start(t.Context(), p.ID, "/docs")
		require.NoError(t, err)
	})
}
