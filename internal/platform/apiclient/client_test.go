package apiclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
)

// serve starts a server and returns a client of it.
func serve(t *testing.T, h http.HandlerFunc) *apiclient.Client {
	t.Helper()
	s := httptest.NewServer(h)
	await.Close(t, s)
	c, err := apiclient.New(apiclient.Options{Server: s.URL, Key: "sp_test_key", UserAgent: "sallyport/test",
		Timeout: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// hasCode reports whether err is an error envelope with this code.
func hasCode(err error, code apperr.Code) bool {
	var e *apiclient.Error
	return errors.As(err, &e) && e.Code == code
}

// A call carries the key, the body and the query as they were given, under the API's prefix.
func TestCall(t *testing.T) {
	t.Parallel()
	require.Equal(t, httpapi.Prefix, apiclient.Prefix)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Api-Key"),
			r.Header.Get("User-Agent"), r.Header.Get("Content-Type"), string(body)})
	})
	a, err := c.Call(t.Context(), apiclient.Request{Method: http.MethodPost, Path: "/connections" +
		apiclient.Path("a/b", "c?d"), Query: url.Values{"q": {"x y"}}, Body: map[string]string{"filter": "a < b"}})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, a.Status)
	var got []string
	require.NoError(t, a.Decode(&got))
	require.Equal(t, []string{"POST", "/api/v1/connections/a%2Fb/c%3Fd", "q=x+y", "sp_test_key", "sallyport/test",
		"application/json", `{"filter":"a < b"}` + "\n"}, got)
}

// The envelope becomes one line that names everything a person needs, and stays a value that a command can look into.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "0193")
		switch r.URL.Path {
		case "/api/v1/faults":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"error":{"code":"validation_error","message":"Invalid request","details":[`+
				`{"location":"body.forward_url","message":"must be an https URL","rule":"scheme"},{"location":"query.status[0]",`+
				`"message":"is none","rule":"enum"}]}}`)
		case "/api/v1/limited":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"code":"rate_limited","message":"Too many requests"}}`)
		case "/api/v1/proxy":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `<html>bad gateway</html>`)
		case "/api/v1/elsewhere":
			w.Header().Set("Location", "https://elsewhere.example")
			w.WriteHeader(http.StatusMovedPermanently)
		default:
			_, _ = io.WriteString(w, `<html>welcome</html>`)
		}
	})
	get := func(path string) error {
		_, err := c.Call(t.Context(), apiclient.Request{Method: http.MethodGet, Path: path})
		return err
	}
	err := get("/faults")
	require.EqualError(t, err, "Invalid request: forward_url: must be an https URL; status[0]: is none (status 422, "+
		"validation_error, request 0193)")
	require.True(t, hasCode(err, apperr.CodeValidation))
	require.False(t, hasCode(err, apperr.CodeNotFound))
	require.EqualError(t, get("/limited"), "Too many requests (status 429, rate_limited, retry after 7s, request 0193)")
	require.EqualError(t, get("/proxy"),
		"the response is not from a Sallyport server, but probably from a proxy (status 502, request 0193)")
	require.ErrorContains(t, get("/elsewhere"), "redirects to another URL")
	require.ErrorIs(t, get("/welcome"), apiclient.ErrForeign)
}

// A list is read page by page up to the limit, with the same filters, and a list that does not move on is not read for
// ever.
func TestEach(t *testing.T) {
	t.Parallel()
	const rows = 600
	var requests []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.RawQuery)
		q := r.URL.Query()
		if q.Get("stuck") != "" {
			w.Header().Set("X-Next-Cursor", "same")
		}
		from, _ := strconv.Atoi(strings.TrimPrefix(q.Get("cursor"), "c"))
		size, _ := strconv.Atoi(q.Get("limit"))
		to := min(from+size, rows)
		if to < rows && q.Get("stuck") == "" {
			w.Header().Set("X-Next-Cursor", "c"+strconv.Itoa(to))
		}
		list := []int{}
		for i := from; i < to; i++ {
			list = append(list, i)
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	for _, tt := range []struct {
		limit, want int
		more        bool
		queries     []string
	}{
		{10, 10, true, []string{"limit=10&status=failed"}},
		{300, 300, true, []string{"limit=250&status=failed", "cursor=c250&limit=50&status=failed"}},
		{600, 600, false, []string{"limit=250&status=failed", "cursor=c250&limit=250&status=failed",
			"cursor=c500&limit=100&status=failed"}},
		{0, 600, false, []string{"limit=250&status=failed", "cursor=c250&limit=250&status=failed",
			"cursor=c500&limit=250&status=failed"}},
	} {
		requests = nil
		n := 0
		more, err := c.Each(t.Context(), apiclient.Request{Path: "/rows", Query: url.Values{"status": {"failed"}}}, tt.limit,
			func(row json.RawMessage) error {
				require.Equal(t, strconv.Itoa(n), string(row))
				n++
				return nil
			})
		require.NoError(t, err)
		require.Equal(t, tt.want, n)
		require.Equal(t, tt.more, more)
		require.Equal(t, tt.queries, requests)
	}
	_, err := c.Each(t.Context(), apiclient.Request{Path: "/rows", Query: url.Values{"stuck": {"1"}}}, 0,
		func(json.RawMessage) error {
			return nil
		})
	require.ErrorIs(t, err, apiclient.ErrForeign)
	stop := errors.New("enough")
	_, err = c.Each(t.Context(), apiclient.Request{Path: "/rows"}, 0, func(json.RawMessage) error { return stop })
	require.ErrorIs(t, err, stop)
}

// A server that does not respond is named, with the cause and without the key. A hanging one costs no more than the
// timeout.
func TestNoResponse(t *testing.T) {
	t.Parallel()
	c, err := apiclient.New(apiclient.Options{Server: "http://127.0.0.1:1", Key: "sp_hidden"})
	require.NoError(t, err)
	_, err = c.Call(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/x"})
	require.EqualError(t, err, "no response from http://127.0.0.1:1: The target refused the connection.")
	var gone *apiclient.Unreachable
	require.ErrorAs(t, err, &gone)
	require.False(t, gone.Sent)

	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	await.Close(t, hanging)
	t.Cleanup(func() { close(release) })
	c, err = apiclient.New(apiclient.Options{Server: hanging.URL, Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	_, err = c.Call(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/x"})
	require.ErrorAs(t, err, &gone)
	require.Equal(t, "timeout", gone.Code)
}

// A key goes to the server that was meant and in clear over no network.
func TestOptions(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]error{
		"":                                      apiclient.ErrServer,
		"127.0.0.1:8080":                        apiclient.ErrServer,
		"gateway.example":                       apiclient.ErrServer,
		"ftp://gateway.example":                 apiclient.ErrServer,
		"https://ada:pw@gateway.example":        apiclient.ErrServer,
		"https://gateway.example/path":          apiclient.ErrServer,
		"https://gateway.example?x=1":           apiclient.ErrServer,
		"https://gateway.example/#x":            apiclient.ErrServer,
		"http://127.0.0.1:0":                    apiclient.ErrServer,
		"https://2130706433":                    apiclient.ErrServer,
		"http://gateway.example":                apiclient.ErrPlainHTTP,
		"http://10.0.0.1:8080":                  apiclient.ErrPlainHTTP,
		"http://localhost.example":              apiclient.ErrPlainHTTP,
		"http://localhost:8080":                 nil,
		"http://[::1]:8080":                     nil,
		"http://127.0.0.1:8080/":                nil,
		"https://gateway.example":               nil,
		"https://gateway.example:8443/api/v1":   nil,
		"https://gateway.example:8443/api/v1/":  nil,
		"https://10.0.0.1":                      nil,
		"https://gateway.example/api/v1/api/v1": apiclient.ErrServer,
	} {
		c, err := apiclient.New(apiclient.Options{Server: server})
		if want != nil {
			require.ErrorIs(t, err, want, server)
			require.NotContains(t, fmt.Sprint(err), "pw")
			continue
		}
		require.NoError(t, err, server)
		require.NotContains(t, c.Server(), "/api/v1")
	}
	_, err := apiclient.New(apiclient.Options{Server: "http://10.0.0.1", AllowHTTP: true})
	require.NoError(t, err)
	for _, key := range []string{"a\nb", "a b", "ключ", strings.Repeat("x", 1000)} {
		_, err := apiclient.New(apiclient.Options{Server: "https://gateway.example", Key: secretbox.Secret(key)})
		require.ErrorIs(t, err, apiclient.ErrKey)
		require.NotContains(t, err.Error(), key)
	}
}

// Plain bytes are taken as they are; a refusal is an error, and so is a page of what stands between.
func TestDownload(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/gone":
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"error":{"code":"payload_expired","message":"no"}}`)
		case "/api/v1/page":
			_, _ = io.WriteString(w, "<html>")
		default:
			w.Header().Set("Content-Type", r.Header.Get("Accept"))
			_, _ = w.Write([]byte{0, 0xff, '<'})
		}
	})
	got, err := c.Download(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/x"})
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0xff, '<'}, got)
	_, err = c.Download(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/gone"})
	require.True(t, hasCode(err, "payload_expired"))
	_, err = c.Download(t.Context(), apiclient.Request{Method: http.MethodGet, Path: "/page"})
	require.ErrorIs(t, err, apiclient.ErrForeign)
}

// All names of this machine, the path of the API and default ports make no difference to which server a URL names. The
// scheme, the port and other hosts do.
func TestSameServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"http://127.0.0.1:8080", "http://localhost:8080/api/v1/", true},
		{"http://[::1]:8080/", "http://LOCALHOST:8080", true},
		{"https://Gateway.example", "https://gateway.example:443/api/v1", true},
		{"http://127.0.0.1:8080", "https://127.0.0.1:8080", false},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8081", false},
		{"http://127.0.0.1:8080", "http://10.0.0.1:8080", false},
		{"https://gateway.example", "https://localhost.gateway.example", false},
	} {
		same, err := apiclient.SameServer(tt.a, tt.b)
		require.NoError(t, err)
		require.Equal(t, tt.same, same, "%s %s", tt.a, tt.b)
	}
	_, err := apiclient.SameServer("http://127.0.0.1:8080", "localhost:8080")
	require.ErrorIs(t, err, apiclient.ErrServer)
}
