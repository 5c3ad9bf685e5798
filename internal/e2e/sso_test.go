package e2e_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// identityProvider sets a provider up that makes people in engineering developers, and returns its id.
func (w *world) identityProvider(idp *testkit.IdP, with object) string {
	w.t.Helper()
	body := object{"name": "Company account", "issuer": idp.URL, "client_id": idp.ClientID,
		"client_secret": idp.ClientSecret, "just_in_time": true, "allowed_domains": []string{"example.test"},
		"role_mappings": []object{{"group": "engineering", "role": "developer"}}}
	for name, value := range with {
		body[name] = value
	}
	var p struct {
		ID string `json:"id"`
	}
	w.call(w.user(""), http.MethodPost, "/team/sso", body).want(w, http.StatusCreated).into(w, &p)
	return p.ID
}

// browser is one person's: it keeps cookies, those of HTTPS for the server under test too, and reaches the server by
// its public name.
type browser struct {
	w      *world
	jar    *cookiejar.Jar
	public *url.URL
}

func (w *world) browser() *browser {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	public, err := url.Parse(strings.Replace(publicURL, "http:", "https:", 1))
	require.NoError(w.t, err)
	return &browser{w: w, jar: jar, public: public}
}

// visited is a browser's view of a response.
type visited struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
}

// visit asks for a URL as a browser does, and follows no redirect. Requests to the public URL go to the server.
func (b *browser) visit(method, target string) visited {
	b.w.t.Helper()
	local := strings.Replace(target, publicURL, b.w.base, 1)
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, local, http.NoBody)
	require.NoError(b.w.t, err)
	ours := strings.HasPrefix(local, b.w.base)
	if ours {
		for _, c := range b.jar.Cookies(b.public) {
			r.AddCookie(c)
		}
	}
	resp, err := b.w.http.Do(r)
	require.NoError(b.w.t, err)
	require.NoError(b.w.t, resp.Body.Close())
	if ours {
		b.jar.SetCookies(b.public, resp.Cookies())
	}
	return visited{status: resp.StatusCode, header: resp.Header, cookies: resp.Cookies()}
}

// follow visits a URL that must lead on, and returns where to.
func (b *browser) follow(target string) string {
	b.w.t.Helper()
	resp := b.visit(http.MethodGet, target)
	require.Contains(b.w.t, []int{http.StatusSeeOther, http.StatusFound}, resp.status, target)
	return resp.header.Get("Location")
}

// refresh gets the access token of the browser's session.
func (b *browser) refresh() (token string, status int) {
	b.w.t.Helper()
	var in struct {
		AccessToken string `json:"access_token"`
	}
	a := b.w.call(func(h http.Header) {
		for _, c := range b.jar.Cookies(b.public) {
			h.Add("Cookie", c.String())
		}
	}, http.MethodPost, "/team/token/refresh", nil)
	if a.status == http.StatusOK {
		a.into(b.w, &in)
	}
	return in.AccessToken, a.status
}

// A browser that goes to an identity provider and back is signed in by the refresh cookie alone, lands on the
// page that it came for, and has the roles of the person's groups. The provider's response works in no other browser
// and not again, and no link sends the browser elsewhere.
func TestSignInByIdentityProvider(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		idp := testkit.NewIdP(w.t, w.clk.Now)
		provider := w.identityProvider(idp, object{})
		start := publicURL + prefix + "/team/sso/" + provider + "/start"
		b := w.browser()
		resp := b.visit(http.MethodGet, start+"?return_to=%2Fdocs%3Fa%3Db")
		require.Equal(w.t, http.StatusSeeOther, resp.status)
		require.Equal(w.t, "no-store", resp.header.Get("Cache-Control"))
		cookies := resp.cookies
		require.Len(w.t, cookies, 1)
		require.Equal(w.t, "__Host-sallyport_sso", cookies[0].Name)
		require.True(w.t, cookies[0].Secure && cookies[0].HttpOnly && cookies[0].Path == "/" && cookies[0].Domain == "")
		require.Equal(w.t, http.SameSiteLaxMode, cookies[0].SameSite, "it has to come along from the provider's page")
		require.Equal(w.t, 600, cookies[0].MaxAge)
		require.NotContains(w.t, resp.header.Get("Location"), cookies[0].Value)
		back := b.follow(resp.header.Get("Location"))
		require.True(w.t, strings.HasPrefix(back, publicURL+prefix+"/team/sso/"+provider+"/callback?"), back)

		thief := w.browser()
		require.Equal(w.t, http.StatusBadRequest, thief.visit(http.MethodGet, back).status)
		require.Equal(w.t, http.StatusMethodNotAllowed, b.visit(http.MethodHead, back).status, "a look ahead uses nothing up")
		require.Equal(w.t, http.StatusBadRequest, b.visit(http.MethodGet, back+"&state=twice").status)
		resp = b.visit(http.MethodGet, back)
		require.Equal(w.t, http.StatusSeeOther, resp.status)
		require.Equal(w.t, "/docs?a=b", resp.header.Get("Location"))
		require.Equal(w.t, "no-referrer", resp.header.Get("Referrer-Policy"))
		for _, c := range resp.cookies {
			if c.Name == "__Host-sallyport_refresh" {
				require.True(w.t, c.Secure && c.HttpOnly)
				require.Equal(w.t, http.SameSiteStrictMode, c.SameSite)
			}
		}
		require.Equal(w.t, http.StatusBadRequest, b.visit(http.MethodGet, back).status)
		_, status := thief.refresh()
		require.Equal(w.t, http.StatusUnauthorized, status)

		token, status := b.refresh()
		require.Equal(w.t, http.StatusOK, status)
		var me struct {
			User struct {
				Email string `json:"email"`
			} `json:"user"`
			RoleBindings []struct {
				Role string `json:"role"`
			} `json:"role_bindings"`
			Session struct {
				Methods []string `json:"methods"`
			} `json:"session"`
		}
		w.call(byToken(token, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
		require.Equal(w.t, "grace@example.test", me.User.Email)
		require.Len(w.t, me.RoleBindings, 1)
		require.Equal(w.t, []string{"sso"}, me.Session.Methods)

		for _, to := range []string{"//example.test", "https://example.test", `/\example.test`, "/a/../b"} {
			a := w.call(anonymous, http.MethodGet, "/team/sso/"+provider+"/start?return_to="+url.QueryEscape(to), nil)
			require.Equal(w.t, []string{"query.return_to path"}, a.violations(w), to)
		}
		w.call(anonymous, http.MethodGet, "/team/sso/sso_00000000000000000000000000/start", nil).refused(w,
			http.StatusNotFound, apperr.CodeNotFound)
		for _, secret := range []string{idp.ClientSecret, cookies[0].Value, "an access token"} {
			require.NotContains(w.t, w.logs.String(), secret)
		}
	})
}
