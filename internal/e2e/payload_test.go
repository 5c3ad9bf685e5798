package e2e_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// A payload comes back byte for byte, for any content, in a form that no browser runs. Where there is none, the
// response says whether there was one.
func TestPayloadDownload(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		download := func(uuid string) response {
			w.t.Helper()
			return w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/payload", nil)
		}
		for i, body := range []string{" {\"a\" : 1.0 ,\t\"b\":\"\\u00e4<script>\"}\n", "<script>alert(1)</script>",
			"\x00\xff\xfe", ""} {
			m := github(body)
			m.header.Set("Content-Type", "text/html")
			uuid := w.fresh("acme", m)
			a := download(uuid).want(w, http.StatusOK)
			require.Equal(w.t, body, string(a.body), i)
			require.Equal(w.t, "application/octet-stream", a.header.Get("Content-Type"))
			require.Equal(w.t, "nosniff", a.header.Get("X-Content-Type-Options"))
			require.Equal(w.t, `attachment; filename="`+uuid+`"`, a.header.Get("Content-Disposition"))
			require.Equal(w.t, "sandbox", a.header.Get("Content-Security-Policy"))
			require.Equal(w.t, "no-store", a.header.Get("Cache-Control"))
			require.Equal(w.t, strconv.Itoa(len(body)), a.header.Get("Content-Length"))
			w.call(w.user(w.environment("production")), http.MethodGet, "/webhook-events/"+uuid+"/payload", nil).
				refused(w, http.StatusNotFound, apperr.CodeNotFound)
		}
		m := github(issueOpened)
		uuid := w.fresh("acme", m)
		w.expectDuplicate("acme", m, uuid)
		download(w.events("&duplicate=true")[0].EventUUID).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.expunge(uuid).want(w, http.StatusNoContent)
		download(uuid).refused(w, http.StatusGone, apperr.CodePayloadExpired)
	})
}
