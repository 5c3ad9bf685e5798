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
	exampleReplay       = "rpl_06dyxk8z3pk6n5q1v7wc4t2m9r"
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

// destructive returns operations that change or delete what exists, which the reference never prefills with an id of
// the user's own.
func destructive() []used {
	return []used{
		{"delete-webhook-subscription", http.MethodDelete, "/webhook-subscriptions/{id}", exampleSubscription},
		{"update-webhook-subscription", http.MethodPatch, "/webhook-subscriptions/{id}", exampleSubscription},
		{"expunge-webhook-event-payload", http.MethodDelete, "/webhook-events/{event_uuid}/payload", exampleEvent},
		{"cancel-webhook-replay", http.MethodPost, "/webhook-replays/{id}/cancel", exampleReplay},
	}
}

// hashOf is the fragment of an operation in the reference.
func hashOf(o used) string {
	tag, _ := at(published().root, "paths", o.path, strings.ToLower(o.method), "tags").([]any)
	return "tag/" + strings.ReplaceAll(strings.ToLower(text(tag[0])), " ", "-") + "/" + o.method + o.path
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
	testkit.NeedNoRace(t)
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
	Search     []string
	Operations map[string]struct {
		Status    int
		URL, Body string
		// Send is where the button is that sends the request.
		Send struct{ X, Y, Width, Height float64 }
	}
	Others map[string]struct{ Sample, Form string }
	Widths map[string]float64
	Kept   struct {
		First, Browser, TabAgain, Forgotten        struct{ Tab, Browser bool }
		AfterReload, OtherTabBefore, OtherTabAfter string
	}
}

// browsing says what to do in the browser.
type browsing struct {
	// search does nothing else, and keep only keeps credentials: in the "tab", or in the "browser".
	search, telephone bool
	keep              string
	// operations are sent, others only opened.
	operations, others []used
}

// browse reads the reference in a real browser. The page sends nothing to another server and logs no error.
func (w *world) browse(dir, chromium string, b browsing) (seen seenDocs) {
	w.t.Helper()
	list := func(operations []used) []object {
		out := []object{}
		for _, o := range operations {
			out = append(out, object{"id": o.id, "method": o.method, "path": o.path, "hash": hashOf(o), "example": o.example})
		}
		return out
	}
	peer := startPeer(w.t, dir, "docs.mjs")
	// SALLYPORT_SCREENSHOTS names a folder for what the browser shows.
	peer.say(object{"chromium": chromium, "base": w.base, "key": w.key, "operations": list(b.operations),
		"others": list(b.others), "folder": os.Getenv("SALLYPORT_SCREENSHOTS"), "search": b.search, "keep": b.keep,
		"telephone": b.telephone})
	peer.hear(&seen)
	require.Empty(w.t, seen.Error)
	require.Empty(w.t, seen.Elsewhere, "requests to other servers")
	require.Empty(w.t, seen.Messages, "errors and warnings in the console")
	return seen
}

// In a real browser the reference can be searched.
func TestDocsAreSearched(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	onSQLite(t, func(w *world) {
		seen := w.browse(dir, chromium, browsing{search: true})
		require.Contains(w.t, strings.Join(seen.Search, "\n"), "Replay a webhook event")
	})
}

// In a real browser the reference keeps credentials in the tab, and nowhere else.
func TestDocsKeepCredentials(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	onSQLite(t, func(w *world) {
		seen := w.browse(dir, chromium, browsing{keep: "tab"})
		require.True(w.t, seen.Kept.First.Tab && !seen.Kept.First.Browser)
		require.Equal(w.t, w.key, seen.Kept.AfterReload)
		require.Empty(w.t, seen.Kept.OtherTabBefore)
	})
}

// In a real browser the reference keeps credentials for all tabs where the user wants that, and forgets them.
func TestDocsForgetCredentials(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	onSQLite(t, func(w *world) {
		seen := w.browse(dir, chromium, browsing{keep: "browser"})
		require.True(w.t, seen.Kept.Browser.Browser && !seen.Kept.Browser.Tab)
		require.Equal(w.t, w.key, seen.Kept.OtherTabAfter)
		require.True(w.t, seen.Kept.TabAgain.Tab && !seen.Kept.TabAgain.Browser)
		require.False(w.t, seen.Kept.Forgotten.Tab || seen.Kept.Forgotten.Browser)
	})
}

// eachPart runs a test of the reference with some operations at a time, each time with a server of its own that has
// what the operations before those create. A browser takes seconds for an operation, and longer the more it has shown.
func eachPart(t *testing.T, operations []used, size int, fn func(w *world, part []used)) {
	t.Helper()
	for part := range slices.Chunk(operations, size) {
		t.Run(part[0].id, func(t *testing.T) {
			t.Parallel()
			onSQLite(t, func(w *world) {
				for _, path := range []string{"/connections", "/webhook-subscriptions", "/webhook-events"} {
					body := at(published().root, "paths", path, "post", "requestBody", "content", "application/json", "example")
					created := w.call(w.dev(), http.MethodPost, path, body)
					require.Less(w.t, created.status, 300, "%s: %s", path, created.body)
				}
				fn(w, part)
			})
		})
	}
}

// In a real browser the most used operations can be sent as they are prefilled.
func TestDocsSendRequests(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	eachPart(t, mostUsed(), 2, func(w *world, part []used) {
		seen := w.browse(dir, chromium, browsing{operations: part})
		for _, o := range part {
			require.NotZero(w.t, seen.Operations[o.id].Status, o.id)
			require.Less(w.t, seen.Operations[o.id].Status, 300, "%s: %+v", o.id, seen.Operations[o.id])
		}
	})
}

// Operations that change or delete something are prefilled with the ids of the examples, not with the user's own.
func TestDocsPrefillNoOwnIDs(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	eachPart(t, destructive(), 2, func(w *world, part []used) {
		list := mostUsed()[3]
		seen := w.browse(dir, chromium, browsing{operations: []used{list}, others: part})
		own := w.newestIDs()
		require.Regexp(w.t, own, seen.Operations[list.id].Body)
		for _, o := range part {
			for _, shown := range []string{seen.Others[o.id].Sample, seen.Others[o.id].Form} {
				require.Contains(w.t, shown, o.example, o.id)
				require.NotRegexp(w.t, own, shown, "%s is prefilled with an id of the user's own", o.id)
			}
		}
	})
}

// newestIDs matches the ids of the newest subscriptions and events.
func (w *world) newestIDs() string {
	w.t.Helper()
	var ids []string
	for path, field := range map[string]string{"/webhook-subscriptions": "id", "/webhook-events": "event_uuid"} {
		var rows []object
		w.call(w.dev(), http.MethodGet, path+"?limit=50", nil).want(w, http.StatusOK).into(w, &rows)
		require.NotEmpty(w.t, rows, path)
		for _, row := range rows {
			ids = append(ids, text(row[field]))
		}
	}
	return strings.Join(ids, "|")
}

// On a telephone none of the most used operations of the reference is wider than the screen, and the forms that a touch
// opens can be sent by another.
func TestDocsOnATelephone(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	dir, chromium := browserPeer(t)
	eachPart(t, mostUsed(), 5, func(w *world, part []used) {
		seen := w.browse(dir, chromium, browsing{telephone: true, operations: part[:1], others: part[1:]})
		for _, o := range part {
			require.NotZero(w.t, seen.Widths[o.id], o.id)
			require.LessOrEqual(w.t, seen.Widths[o.id], 390.0, "%s is wider than the screen", o.id)
		}
		sent := seen.Operations[part[0].id]
		require.NotZero(w.t, sent.Send.Width, part[0].id)
		require.GreaterOrEqual(w.t, sent.Send.X, 0.0, part[0].id)
		require.LessOrEqual(w.t, sent.Send.X+sent.Send.Width, 390.0, "%s: Send is off the screen", part[0].id)
		require.LessOrEqual(w.t, sent.Send.Y+sent.Send.Height, 844.0, "%s: Send is off the screen", part[0].id)
		require.NotZero(w.t, sent.Status, part[0].id)
		require.Less(w.t, sent.Status, 300, "%s: %+v", part[0].id, sent)
	})
}
