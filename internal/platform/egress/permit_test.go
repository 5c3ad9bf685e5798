package egress

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// A request whose permit is withdrawn sends nothing, over a new connection and over one that is there, and leaves the
// client usable.
func TestWithdrawnPermit(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(s *httptest.Server){
		"http":    func(s *httptest.Server) { s.Start() },
		"https":   func(s *httptest.Server) { s.StartTLS() },
		"http/2":  func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
		"no body": func(s *httptest.Server) { s.Start() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
			start(s)
			await.Close(t, s)
			o := Options{}
			if certificate := s.Certificate(); certificate != nil {
				roots := x509.NewCertPool()
				roots.AddCert(certificate)
				o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			}
			c := newClient(t, dev(), o)
			r := post(target(t, c, s.URL), long)
			if name == "no body" {
				r.Body = nil
			}
			asked := 0
			r.Permit = func() bool { asked++; return asked%2 == 0 }
			for i := range int64(4) {
				_, err := c.Do(t.Context(), r)
				require.NotNil(t, err, "refused")
				require.Equal(t, CodeCanceled, err.Code)
				require.False(t, err.BytesSent)
				require.Equal(t, i, arrived.Load())
				_, err = c.Do(t.Context(), r)
				require.Nil(t, err, "permitted")
				require.Equal(t, i+1, arrived.Load())
			}
			require.Equal(t, 8, asked)
		})
	}
}

// The function that a request is given ends its exchange, before the request is sent and while the response is awaited,
// as cancelled and not as timed out. After the exchange it does nothing.
func TestInterruptedExchange(t *testing.T) {
	t.Parallel()
	c := newClient(t, dev(), Options{})
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a request that ends is noticed only when its body has been read
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	await.Close(t, s)
	r := post(target(t, c, s.URL), long)

	r.Begun = func(interrupt func()) { interrupt() }
	_, err := c.Do(t.Context(), r)
	require.NotNil(t, err)
	require.Equal(t, CodeCanceled, err.Code)
	require.Empty(t, arrived, "nothing was sent")

	r.Begun = func(interrupt func()) {
		go func() {
			<-arrived
			interrupt()
		}()
	}
	_, err = c.Do(t.Context(), r)
	require.NotNil(t, err)
	require.Equal(t, CodeCanceled, err.Code)
	require.True(t, err.BytesSent)

	close(release)
	var late func()
	r.Begun = func(interrupt func()) { late = interrupt }
	for range 2 {
		resp, err := c.Do(t.Context(), r)
		require.Nil(t, err)
		require.Equal(t, http.StatusOK, resp.Status)
		late()
		<-arrived
	}
}
