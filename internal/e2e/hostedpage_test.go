package e2e_test

import (
	"context"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// surfer is a person's browser, as far as the pages without scripts need one: it keeps cookies and follows redirects.
// Names of hosts lead where a test says.
type surfer struct {
	t      *testing.T
	client *http.Client
}

// newSurfer returns a browser that reaches the host of publicURL at base.
func newSurfer(t *testing.T, base string) *surfer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	gateway, err := url.Parse(publicURL)
	require.NoError(t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == gateway.Host+":80" {
			address = strings.TrimPrefix(base, "http://")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &surfer{t, &http.Client{Jar: jar, Transport: transport, Timeout: await.Limit}}
}

// page is where a browser has come to.
type page struct {
	status int
	text   string
	// to is where it leads by itself.
	to string
}

func (s *surfer) do(method, target string, form url.Values) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	_, to, _ := strings.Cut(resp.Header.Get("Refresh"), "url=")
	return page{resp.StatusCode, html.UnescapeString(string(text)), to}
}

// authorize opens a link, submits its form for a mode of OAuth with the values, and follows to the provider and back.
func (s *surfer) authorize(link, mode string, values ...string) page {
	s.t.Helper()
	opened := s.do(http.MethodGet, link, nil)
	require.Equal(s.t, http.StatusOK, opened.status, opened.text)
	form := url.Values{"mode": {mode}}
	for i := 0; i+1 < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	left := s.do(http.MethodPost, link, form)
	require.Equal(s.t, http.StatusOK, left.status, left.text)
	require.NotEmpty(s.t, left.to, left.text)
	return s.do(http.MethodGet, left.to, nil)
}
