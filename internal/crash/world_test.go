package crash_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
)

const (
	secret = "a secret of the provider's side"
	// receivers is how many subscriptions get each event.
	receivers = 2
	// maxAttempts is how many attempts a delivery has: one, and those of the schedule.
	maxAttempts = 3
	// inFlight is how many attempts may be in progress at the same time: the server's default of 10 for each subscription.
	inFlight = 10 * receivers
)

// world surrounds the server and outlives it: the provider, the receiver, the database.
type world struct {
	dir string
	// databaseURL is how the test reaches PostgreSQL; empty on SQLite.
	databaseURL string
	http        *http.Client
	sink        *sink
	sender      *sender
	ledger      *ledger

	key string // of the API
	// idle is the path token of a connection that receives nothing, so that the server has not cached it.
	idle string
}

func newWorld(t *testing.T, databaseURL, dir string) *world {
	t.Helper()
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: patience}
	w := &world{dir: dir, databaseURL: databaseURL, http: client, sink: newSink(t, seed), sender: newSender(client, seed)}
	w.ledger = newLedger(w)
	return w
}

// populate creates the connections and subscriptions of a new database.
func (w *world) populate(t *testing.T, s *server) {
	t.Helper()
	w.credentials(t)
	w.sender.segment = w.connect(t, s, "busy")
	w.idle = w.connect(t, s, "idle")
	for range receivers {
		w.call(t, s, http.MethodPost, "/webhook-subscriptions", map[string]any{
			"event_types": []string{"*"}, "forward_url": w.sink.url, "payload_mode": "raw",
			"retry_schedule_seconds": []float64{0.1, 0.1}, "timeout_ms": 30_000,
		}, http.StatusCreated, nil)
	}
}

// credentials reads the key that the first start left.
func (w *world) credentials(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "dev-credentials.json"))
	require.NoError(t, err)
	var credentials struct {
		APIKey string `json:"api_key"`
	}
	require.NoError(t, json.Unmarshal(text, &credentials))
	w.key = credentials.APIKey
}

// connect makes a connection and returns its path token.
func (w *world) connect(t *testing.T, s *server, id string) string {
	t.Helper()
	var c struct {
		WebhookURL string `json:"webhook_url"`
	}
	w.call(t, s, http.MethodPost, "/connections", map[string]any{"provider": "github", "connection_id": id,
		"webhook_secret": secret, "webhook": map[string]any{"redeliver_on_duplicate": false}}, http.StatusCreated, &c)
	u, err := url.Parse(c.WebhookURL)
	require.NoError(t, err)
	return u.Path[strings.LastIndex(u.Path, "/")+1:]
}

// call makes a request to the API, requires the status, and decodes the response into out unless that is nil.
func (w *world) call(t *testing.T, s *server, method, path string, body any, status int, out any) {
	t.Helper()
	got, response := w.request(t, s, method, path, body)
	require.Equal(t, status, got, "%s %s: %s", method, path, response)
	if out != nil {
		require.NoError(t, json.Unmarshal(response, out))
	}
}

// ended reports whether no event that a query of the list fits has a delivery that is open. On a busy machine a list
// may take too long and be refused for a moment (503), which says nothing about deliveries.
func (w *world) ended(t *testing.T, s *server, query string) bool {
	t.Helper()
	path := "/webhook-events?" + query + "status=received&status=forwarding&status=failed&limit=1"
	status, response := w.request(t, s, http.MethodGet, path, nil)
	if status == http.StatusServiceUnavailable {
		return false
	}
	require.Equal(t, http.StatusOK, status, "%s: %s", path, response)
	var open []struct{}
	require.NoError(t, json.Unmarshal(response, &open))
	return len(open) == 0
}

// request makes a request to the API.
func (w *world) request(t *testing.T, s *server, method, path string, body any) (status int, response []byte) {
	t.Helper()
	var content bytes.Buffer
	if body != nil {
		require.NoError(t, json.NewEncoder(&content).Encode(body))
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.base+"/api/v1"+path, &content)
	require.NoError(t, err)
	r.Header.Set("API-Key", w.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.http.Do(r)
	require.NoError(t, err)
	response, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, response
}

// drain sends again what was not acknowledged, as a provider does, and waits until every delivery has ended.
func (w *world) drain(t *testing.T, s *server) {
	t.Helper()
	waitFor(t, "what was not acknowledged is taken on repetition", func() bool {
		return w.sender.resend(t.Context(), s.base)
	})
	waitFor(t, "every delivery ends", func() bool { return w.ended(t, s, "duplicate=false&") })
}

// database opens the database of a server that has ended. SQLite's files are copied first: opening them would do the
// work of recovery that the next server is to be seen doing.
func (w *world) database(t *testing.T) *db.DB {
	t.Helper()
	if w.databaseURL != "" {
		return w.postgres(t)
	}
	dir := t.TempDir()
	for _, name := range []string{db.FileName, db.FileName + "-wal"} {
		content, err := os.ReadFile(filepath.Join(w.dir, name))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	return d
}

// postgres opens the PostgreSQL database when the backends of the server that ended are gone: until then one of them
// may be running its last statement.
func (w *world) postgres(t *testing.T) *db.DB {
	t.Helper()
	u, err := url.Parse(w.databaseURL)
	require.NoError(t, err)
	q := u.Query()
	q.Set("application_name", "sallyport-test")
	u.RawQuery = q.Encode()
	d, err := db.Open(t.Context(), u.String(), "")
	require.NoError(t, err)
	waitFor(t, "the server's database connections end", func() bool {
		var n int
		require.NoError(t, d.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'sallyport'`).Scan(&n))
		return n == 0
	})
	return d
}

// shutdownTimeout is the servers' setting where it matters, and the most that any may take.
const shutdownTimeout = 20 * time.Second
