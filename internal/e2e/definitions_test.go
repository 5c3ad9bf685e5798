package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
)

// acmeDefinition is an operator's own definition.
const acmeDefinition = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
webhooks:
  setup: Paste the URL.
  params: [{name: kind, description: What stands before the type., pattern: "[a-z]+", default: v1}]
  scheme: hmac
  algorithm: sha256
  secret: {decode: utf8}
  signature: [{from: "header:x-acme-signature", encoding: hex}]
  signed: "{body}"
  event:
    type: ["{json:/type}"]
`

const acmeSecret = "a secret shared with Acme"

// definitionsFolder gives a world a folder with the definition, and returns where it is.
func definitionsFolder(text string) func(*config.Config) {
	return func(c *config.Config) {
		c.ProvidersDir = filepath.Join(c.Data, "definitions")
		if err := os.MkdirAll(c.ProvidersDir, 0o700); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(c.ProvidersDir, "acme.yaml"), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
}

// define puts another definition into the world's folder.
func (w *world) define(text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.cfg.ProvidersDir, "acme.yaml"), []byte(text), 0o600))
}

// acme is a delivery signed in a header.
func acmeMessage(header string, n int) message {
	body := `{"type":"order.paid","n":` + strconv.Itoa(n) + `}`
	return message{http.Header{header: {hexHMAC(acmeSecret, body)}, "Content-Type": {"application/json"}}, []byte(body)}
}

// An operator's definition serves connections as a shipped one does. A new version is active without a restart. A
// broken or removed one leaves the version before active, and the log says so with file, line and reason.
func TestOwnDefinitions(t *testing.T) {
	t.Parallel()
	good := strings.Replace(acmeDefinition, "default: v1", "default: v", 1)
	good = strings.Replace(good, `"{json:/type}"`, `"{json:/{param:kind}}", "{json:/type}"`, 1)
	each(t, func(w *world) {
		n := 0
		next := func(header string) message { n++; return acmeMessage(header, n) }
		c := w.connect(w.dev(), object{"provider": "acme", "connection_id": "shop", "webhook_secret": acmeSecret})
		require.Equal(t, "order.paid", w.event(w.deliver(c.pathToken(), next("X-Acme-Signature")).EventUUID).EventType)

		changed := strings.Replace(good, "x-acme-signature", "x-acme-hmac", 1)
		w.define(changed)
		w.ticking("the new header", func() bool { return w.post(c.pathToken(), next("X-Acme-Hmac")).status == http.StatusOK })
		require.Equal(t, http.StatusUnauthorized, w.post(c.pathToken(), next("X-Acme-Signature")).status)

		w.define(strings.Replace(changed, "encoding: hex", "encoding: octal", 1))
		w.ticking("the refusal", func() bool { return strings.Contains(w.logs.String(), "provider definition rejected") })
		require.Contains(t, w.logs.String(),
			`"line":12,"field":"webhooks.signature[0].encoding","reason":"must be hex, base64 or base64url"`)
		w.deliver(c.pathToken(), next("X-Acme-Hmac"))

		require.NoError(t, os.Remove(filepath.Join(w.cfg.ProvidersDir, "acme.yaml")))
		w.ticking("the refusal", func() bool { return strings.Contains(w.logs.String(), "removed while connections use it") })
		w.deliver(c.pathToken(), next("X-Acme-Hmac"))
		w.connect(w.dev(), object{"provider": "acme", "connection_id": "second", "webhook_secret": acmeSecret})

		// A version that the settings do not fit leaves the connection where it is; a new one has to fit it.
		w.define(strings.Replace(strings.Replace(good, `"[a-z]+"`, `"[0-9]+"`, 1), "default: v",
			"required: true, example: '1'", 1))
		w.ticking("the misfit", func() bool {
			return strings.Contains(w.logs.String(), "the settings of connections do not fit")
		})
		w.deliver(c.pathToken(), next("X-Acme-Hmac"))
		require.Contains(t, w.call(w.dev(), http.MethodPost, "/connections",
			object{"provider": "acme", "connection_id": "third", "webhook_secret": acmeSecret}).
			violations(w), "body.webhook.params.kind required")
	}, definitionsFolder(good))
}

// Not one delivery is refused while versions of its definition that all accept it follow each other.
func TestOwnDefinitionsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	text := strings.Replace(acmeDefinition,
		"  params: [{name: kind, description: What stands before the type., pattern: \"[a-z]+\", default: v1}]\n", "", 1)
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "acme", "connection_id": "shop", "webhook_secret": acmeSecret})
		done := make(chan struct{})
		var senders sync.WaitGroup
		counts := make([]map[int]int, 3)
		for s := range counts {
			counts[s] = map[int]int{}
			senders.Go(func() {
				for n := s; ; n += len(counts) {
					select {
					case <-done:
						return
					default:
						counts[s][w.post(c.pathToken(), acmeMessage("X-Acme-Signature", n)).status]++
					}
				}
			})
		}
		for version := range 5 {
			w.define(strings.Replace(text, `"{json:/type}"`, `"{json:/type}.v`+strconv.Itoa(version)+`"`, 1))
			w.ticking("version "+strconv.Itoa(version), func() bool {
				return strings.Count(w.logs.String(), "replaced by a new version") == version+1
			})
		}
		close(done)
		senders.Wait()
		total := 0
		for _, count := range counts {
			require.Len(t, count, 1, "%v", counts)
			total += count[http.StatusOK]
		}
		require.Positive(t, total)
	}, definitionsFolder(text))
}

// A server does not start with invalid definitions, reports all their errors, and has changed nothing: the release
// before it still starts.
func TestOwnDefinitionsRefuseTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", t.TempDir())
	definitionsFolder(acmeDefinition + "nonsense: 1\n")(&w.cfg)
	require.NoError(t, os.WriteFile(filepath.Join(w.cfg.ProvidersDir, "b.yaml"), []byte("x"), 0o600))
	_, err := app.New(t.Context(), app.Options{Config: w.cfg, Logger: w.logger(), Clock: clock.System(), Version: "test"})
	require.ErrorContains(t, err, filepath.Join(w.cfg.ProvidersDir, "acme.yaml")+
		":16: nonsense: is not a field of the format")
	require.ErrorContains(t, err, filepath.Join(w.cfg.ProvidersDir, "b.yaml")+": must be a mapping")
	require.NoFileExists(t, filepath.Join(w.cfg.Data, db.FileName))
	require.Contains(t, operator.Hint(err), "--providers-dir")
}
