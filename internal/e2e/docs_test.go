package e2e_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// requireChromium says that Chromium is installed, so that a test without it fails instead of being skipped.
const requireChromium = "SALLYPORT_REQUIRE_CHROMIUM"

// used is an operation that people call often.
type used struct {
	id, method, path string
	// example is the id in the path of the document's examples.
	example string
}

const (
	exampleSubscription = "sub_06dyxk8z3pk6n5q1v7wc4t2m9r"
	exampleEvent        = "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"
)

// mostUsed returns the ten operations that are used most, in an order in which each finds what it needs.
func mostUsed() []used {
	return []used{
		{"create-connection", http.MethodPost, "/connections", ""},
		{"list-connections", http.MethodGet, "/connections", ""},
		{"create-webhook-subscription", http.MethodPost, "/webhook-subscriptions", ""},
		{"list-webhook-subscriptions", http.MethodGet, "/webhook-subscriptions", ""},
		{"test-webhook-subscription", http.MethodPost, "/webhook-subscriptions/{id}/test", exampleSubscription},
		{"publish-webhook-event", http.MethodPost, "/webhook-events", ""},
		{"list-webhook-events", http.MethodGet, "/webhook-events", ""},
		{"get-webhook-event", http.MethodGet, "/webhook-events/{event_uuid}", exampleEvent},
		{"replay-webhook-event", http.MethodPost, "/webhook-events/{event_uuid}/replay", exampleEvent},
		{"create-webhook-replay", http.MethodPost, "/webhook-replays", ""},
	}
}

// file requests a file. headers has names and values in turn.
func (w *world) file(method, path string, headers ...string) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, http.NoBody)
	require.NoError(w.t, err)
	// Without it the client would ask for gzip and decompress it.
	r.Header.Set("Accept-Encoding", "identity")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[len(pair)-1])
	}
	return w.send(r)
}

// The reference and the document are compressed for clients that accept it, and are the same for others. A client that
// has a file gets it again only when it has changed. HEAD shows the headers of GET.
func TestDocsAreCompressedAndCached(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		paths := append(w.docsFiles(), "/docs", "/openapi.json")
		require.Greater(w.t, len(paths), 5)
		for _, path := range paths {
			plain := w.file(http.MethodGet, path).want(w, http.StatusOK)
			require.Empty(w.t, plain.header.Get("Content-Encoding"), path)
			packed := w.file(http.MethodGet, path, "Accept-Encoding", "br, gzip;q=0.8").want(w, http.StatusOK)
			require.Equal(w.t, "gzip", packed.header.Get("Content-Encoding"), path)
			reader, err := gzip.NewReader(bytes.NewReader(packed.body))
			require.NoError(w.t, err, path)
			unpacked, err := io.ReadAll(reader)
			require.NoError(w.t, err, path)
			require.Equal(w.t, plain.body, unpacked, path)
			require.NotEqual(w.t, plain.header.Get("ETag"), packed.header.Get("ETag"), path)
			for _, a := range []response{plain, packed} {
				encoding := []string{"Accept-Encoding", "identity"}
				if a.header.Get("Content-Encoding") != "" {
					encoding[1] = "gzip"
				}
				require.Equal(w.t, "Accept-Encoding", a.header.Get("Vary"), path)
				require.Equal(w.t, "nosniff", a.header.Get("X-Content-Type-Options"), path)
				head := w.file(http.MethodHead, path, encoding...).want(w, http.StatusOK)
				require.Empty(w.t, head.body, path)
				for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "ETag", "Cache-Control"} {
					require.Equal(w.t, a.header.Get(name), head.header.Get(name), "%s: %s", path, name)
				}
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					same := w.file(method, path, append(encoding, "If-None-Match", `"x", W/`+a.header.Get("ETag"))...)
					require.Equal(w.t, http.StatusNotModified, same.status, path)
					require.Empty(w.t, same.body, path)
					require.Equal(w.t, a.header.Get("ETag"), same.header.Get("ETag"), path)
				}
				w.file(http.MethodGet, path, append(encoding, "If-None-Match", `"x"`)...).want(w, http.StatusOK)
			}
			cache := "public, no-cache"
			if strings.HasPrefix(path, "/docs/") {
				cache = "public, max-age=31536000, immutable"
			}
			require.Equal(w.t, cache, plain.header.Get("Cache-Control"), path)
		}
		w.file(http.MethodGet, "/docs/another.js").refused(w, http.StatusNotFound, apperr.CodeHTTP)
		for _, path := range []string{"/", "/docs/"} {
			require.Equal(w.t, "/docs", w.file(http.MethodGet, path).want(w, http.StatusFound).header.Get("Location"), path)
		}
	})
}

// browserPeer returns the folder of the script that drives a browser, and the path of Chromium. Where one is missing,
// the test is skipped and says how to get it.
func browserPeer(t *testing.T) (dir, chromium string) {
	t.Helper()
	dir = nodePeer(t, "playwright-core")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return dir, path
		}
	}
	require.Empty(t, os.Getenv(requireChromium), "Chromium is required here")
	t.Skip("Chromium is not installed: install Debian's package chromium")
	return "", ""
}

// seenDocs is what docs.mjs has seen.
type seenDocs struct {
	Error      string
	Elsewhere  []string
	Messages   []string
	Groups     []string
	Search     []string
	Operations map[string]struct {
		Status    int
		URL, Body string
	}
	Widths map[string]int
	Kept   struct {
		First, Browser, TabAgain, Forgotten        struct{ Tab, Browser bool }
		AfterReload, OtherTabBefore, OtherTabAfter string
	}
}

// browse reads the reference in a real browser, on a screen or on a telephone. The page sends nothing to another server
// and logs no error.
func (w *world) browse(dir, chromium string, telephone bool) (seen seenDocs) {
	w.t.Helper()
	var operations []object
	for _, o := range mostUsed() {
		tag, _ := at(published().root, "paths", o.path, strings.ToLower(o.method), "tags").([]any)
		hash := "tag/" + strings.ReplaceAll(strings.ToLower(text(tag[0])), " ", "-") + "/" + o.method + o.path
		operations = append(operations, object{"id": o.id, "method": o.method, "path": o.path, "hash": hash,
			"example": o.example})
	}
	peer := startPeer(w.t, dir, "docs.mjs")
	// SALLYPORT_SCREENSHOTS names a folder for what the browser shows.
	peer.say(object{"chromium": chromium, "base": w.base, "key": w.key, "operations": operations,
		"folder": os.Getenv("SALLYPORT_SCREENSHOTS"), "telephone": telephone})
	peer.hear(&seen)
	require.Empty(w.t, seen.Error)
	require.Empty(w.t, seen.Elsewhere, "requests to other servers")
	require.Empty(w.t, seen.Messages, "errors and warnings in the console")
	return seen
}

// In a real browser the reference can be searched, keeps credentials where the user wants them and nowhere else, and
// sends the most used operations as they are prefilled.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	each(t, func(w *world) {
		seen := w.browse(dir, chromium, false)
		require.Contains(w.t, strings.Join(seen.Search, "\n"), "Replay a webhook event")

		require.True(w.t, seen.Kept.First.Tab && !seen.Kept.First.Browser)
		require.Equal(w.t, w.key, seen.Kept.AfterReload)
		require.Empty(w.t, seen.Kept.OtherTabBefore)
		require.True(w.t, seen.Kept.Browser.Browser && !seen.Kept.Browser.Tab)
		require.Equal(w.t, w.key, seen.Kept.OtherTabAfter)
		require.True(w.t, seen.Kept.TabAgain.Tab && !seen.Kept.TabAgain.Browser)
		require.False(w.t, seen.Kept.Forgotten.Tab || seen.Kept.Forgotten.Browser)

		for _, o := range mostUsed() {
			require.Less(w.t, seen.Operations[o.id].Status, 300, "%s: %+v", o.id, seen.Operations[o.id])
			require.NotZero(w.t, seen.Operations[o.id].Status, o.id)
		}
	})
}

// On a telephone no operation of the reference is wider than the screen.
func TestDocsOnATelephone(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	each(t, func(w *world) {
		seen := w.browse(dir, chromium, true)
		for _, o := range mostUsed() {
			require.Equal(w.t, 390, seen.Widths[o.id], "%s scrolls sideways", o.id)
		}
	})
}
