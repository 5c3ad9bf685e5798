package rawhttp_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/rawhttp"
)

// Head and body are cut at the first empty line with any line endings, and the body stays as it is.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"POST /a%20b/?x=1&y HTTP/1.1\r\nHost: h\r\nX-Sig: a\r\nx-sig:b \r\n\r\n{\"a\":\r\n1}\n",
		"POST /a%20b/?x=1&y HTTP/1.1\nHost: h\nX-Sig: a\nx-sig:b \n\n{\"a\":\r\n1}\n",
		"\r\n\nPOST https://h/a%20b/?x=1&y HTTP/2\r\nX-Sig: a\nx-sig:\tb\r\n\n{\"a\":\r\n1}\n",
	} {
		r, err := rawhttp.Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, &rawhttp.Request{Method: "POST", Host: "h", Path: "/a%20b/", RawQuery: "x=1&y",
			Header: http.Header{"X-Sig": {"a", "b"}}, Body: []byte("{\"a\":\r\n1}\n")}, r)
	}
	r, err := rawhttp.Parse([]byte("GET /?challenge=1 HTTP/1.1\nHost: h\nX-Folded: a\n  b\n\tc\n"))
	require.NoError(t, err)
	require.Equal(t, http.Header{"X-Folded": {"a b c"}}, r.Header)
	require.Empty(t, r.Body)
	require.Equal(t, []string{"The file has no empty line after the headers, so the request has no body."},
		r.Notes)
	r, err = rawhttp.Parse([]byte("GET / HTTP/1.0"))
	require.NoError(t, err)
	require.Equal(t, "/", r.Path)
	require.Empty(t, r.Host)
	require.Empty(t, r.Notes)
	r, err = rawhttp.Parse([]byte("GET / HTTP/1.1\nHost: a\nHost: b\n\n"))
	require.NoError(t, err)
	require.Empty(t, r.Host, "which of two is meant is not known")
	require.Empty(t, r.Header)
}

// An invalid request is refused by its line, and nothing of it is quoted.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                        "line 1 is not a request line",
		"{\"hunter2\":1}":                         "line 1 is not a request line",
		"POST /\nHost: hunter2\n\n":               "line 1 is not a request line",
		"POST / FTP/1\n\n":                        "line 1 is not a request line",
		"POST hunter2 HTTP/1.1\n\n":               "line 1 is not a request line",
		"> POST / HTTP/1.1\n\n":                   "line 1 is not a request line",
		"PO(ST / HTTP/1.1\n\n":                    "line 1 is not a request line",
		"POST / HTTP/1.1\nhunter2\n\n":            "line 2 is not a header",
		"POST / HTTP/1.1\na: b\nx y: hunter2\n\n": "line 3 is not a header",
		"POST / HTTP/1.1\na: hunter2\x00\n\n":     "line 2 is not a header",
		"POST / HTTP/1.1\n folded: hunter2\n\n":   "line 2 is not a header",
		"POST / HTTP/1.1\na: " + strings.Repeat("hunter2", 200_000) + "\n\n": "the headers are larger than 1048576 bytes",
	} {
		_, err := rawhttp.Parse([]byte(text))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// A body in chunks is decoded, a line break that an editor added is removed, and a body that is not the
// announced one is kept with a note.
func TestParseBody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ headers, body, want, note string }{
		"as announced":    {"Content-Length: 5", "hello", "hello", ""},
		"not announced":   {"X: 1", "hello\n", "hello\n", ""},
		"line end added":  {"Content-Length: 5", "hello\n", "hello", "has a line break after the 5 bytes"},
		"CR LF added":     {"Content-Length: 5", "hello\r\n", "hello", "has a line break after the 5 bytes"},
		"own line end":    {"Content-Length: 6", "hello\n", "hello\n", ""},
		"longer":          {"Content-Length: 5", "hello!", "hello!", "announces 5 bytes and the body has 6"},
		"more line ends":  {"Content-Length: 5", "hello\n\n\n", "hello\n\n\n", "announces 5 bytes and the body has 8"},
		"cut":             {"Content-Length: 6", "hello", "hello", "announces 6 bytes and the body has 5"},
		"no length":       {"Content-Length: x", "hello", "hello", ""},
		"negative length": {"Content-Length: -1", "hello", "hello", ""},
		"enormous length": {"Content-Length: 99999999999999999999", "hello", "hello", ""},
		"chunks": {"Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello",
			"has been decoded"},
		"chunks cut": {"Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nll", "2\r\nhe\r\n3\r\nll",
			"was saved without them"},
		"chunks not saved": {"Transfer-Encoding: chunked", "hello", "hello", "was saved without them"},
		"chunked, empty":   {"Transfer-Encoding: chunked", "", "", "was saved without them"},
	} {
		r, err := rawhttp.Parse([]byte("POST / HTTP/1.1\r\n" + tt.headers + "\r\n\r\n" + tt.body))
		require.NoError(t, err, name)
		require.Equal(t, tt.want, string(r.Body), name)
		require.Empty(t, r.Header.Get("Transfer-Encoding"))
		if tt.note == "" {
			require.Empty(t, r.Notes, name)
			continue
		}
		require.Len(t, r.Notes, 1, name)
		require.Contains(t, r.Notes[0], tt.note, name)
	}
}

// Headers and body can be given apart; then the body is what its file holds.
func TestParseParts(t *testing.T) {
	t.Parallel()
	r, err := rawhttp.ParseParts([]byte("X-Sig: a\r\nContent-Length: 5\r\n\r\n"), []byte("hello\n"))
	require.NoError(t, err)
	require.Empty(t, r.Method)
	require.Equal(t, http.Header{"X-Sig": {"a"}, "Content-Length": {"5"}}, r.Header)
	require.Equal(t, "hello\n", string(r.Body))
	require.Len(t, r.Notes, 1)
	r, err = rawhttp.ParseParts([]byte("PUT /x HTTP/1.1\nX-Sig: a"), nil)
	require.NoError(t, err)
	require.Equal(t, "PUT", r.Method)
	_, err = rawhttp.ParseParts([]byte("X-Sig: a\n\nhello"), nil)
	require.ErrorContains(t, err, "put the body into a file of its own")
	_, err = rawhttp.ParseParts([]byte("X-Sig\n"), nil)
	require.EqualError(t, err, `line 1 is not a header such as "Content-Type: application/json"`)
}

// A request that net/http dumps is read as its handler saw it.
func TestParseDump(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		path := rapid.SampledFrom([]string{"/", "/a%2Fb", "/a/", "/x?y=z&y=%20", "/x?"}).Draw(t, "path")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		for range rapid.IntRange(0, 4).Draw(t, "headers") {
			r.Header.Add(rapid.SampledFrom([]string{"X-A", "x-b", "Stripe-Signature"}).Draw(t, "name"),
				rapid.StringMatching(`[!-~]([ -~]{0,20}[!-~])?`).Draw(t, "value"))
		}
		if rapid.Bool().Draw(t, "chunked") {
			r.TransferEncoding, r.ContentLength = []string{"chunked"}, -1
		}
		want := r.Header.Clone()
		dump, err := httputil.DumpRequest(r, true)
		require.NoError(t, err)
		got, err := rawhttp.Parse(dump)
		require.NoError(t, err)
		require.Equal(t, string(body), string(got.Body))
		require.Equal(t, want, got.Header)
		require.Equal(t, r.URL.EscapedPath(), got.Path)
		require.Equal(t, r.URL.RawQuery, got.RawQuery)
	})
}

// No file makes reading panic, and a body is never made up.
func FuzzParse(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\nContent-Length: 2\n\nhe\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := rawhttp.Parse(data)
		if err == nil && len(r.Body) > len(data) {
			t.Fatal("more body than file")
		}
		_, _ = rawhttp.ParseParts(data, data)
	})
}
