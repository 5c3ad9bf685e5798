package e2e_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// exchange sends bytes on a connection of its own, and returns the first response, after which the server must close.
func (w *world) exchange(request string) response {
	w.t.Helper()
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", strings.TrimPrefix(w.base, "http://"))
	require.NoError(w.t, err)
	_, err = io.WriteString(c, request)
	require.NoError(w.t, err)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(w.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	_, err = r.ReadByte()
	require.ErrorIs(w.t, err, io.EOF, "the server closes the connection")
	require.NoError(w.t, c.Close())
	a := response{method: http.MethodPost, path: "/", status: resp.StatusCode, header: resp.Header, body: body}
	w.conforms(a)
	return a
}

// Requests that no handler sees get the envelope, with a request id that the log has as well. A webhook whose length is
// ambiguous is not stored.
func TestRequestsThatAreMalformed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "acme", "webhook_secret": githubSecret})
		line := "POST " + prefix + "/webhook/" + c.pathToken() + " HTTP/1.1\r\n"
		for request, status := range map[string]int{
			line + "Host: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"2\r\n{}\r\n0\r\n\r\n": http.StatusBadRequest,
			line + "\r\n": http.StatusBadRequest,
			line + "Host: x\r\nA: " + strings.Repeat("a", 100<<10) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
			line + "Host: x\r\nTransfer-Encoding: gzip\r\n\r\n":                 http.StatusNotImplemented,
		} {
			a := w.exchange(request)
			a.refused(w, status, apperr.CodeHTTP)
			require.Contains(w.t, w.logs.String(), a.header.Get("X-Request-Id"))
		}
		var rejected []object
		w.call(w.dev(), http.MethodGet, "/webhook-rejections", nil).want(w, http.StatusOK).into(w, &rejected)
		require.Empty(w.t, rejected, "none of them was taken for a webhook")
	})
}
