package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
)

// forward is a request that a receiver got.
type forward struct {
	header http.Header
	body   []byte
}

// receiver stands in for an application.
type receiver struct {
	*httptest.Server
	got chan forward
}

func newReceiver(t *testing.T) receiver {
	t.Helper()
	r := receiver{got: make(chan forward, 16)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.got <- forward{q.Header.Clone(), body}
		w.WriteHeader(http.StatusNoContent)
	}))
	await.Close(t, r.Server)
	return r
}

// verified waits for a forward and verifies it with the signing secret.
func (r receiver) verified(t *testing.T, secret string) {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	f := await.Value(t, "a forwarded event", r.got)
	require.NoError(t, w.VerifyIgnoringTimestamp(f.body, f.header))
}

// skippingClock runs a test's function when code waits, and ends the wait.
type skippingClock struct {
	*clock.Manual
	meanwhile func()
}

func (c skippingClock) NewTimer(d time.Duration) clock.Timer {
	return hastyTimer{c.Manual.NewTimer(d), func() { c.meanwhile(); c.Advance(d) }}
}

type hastyTimer struct {
	clock.Timer
	wait func()
}

func (t hastyTimer) C() <-chan time.Time {
	t.wait()
	return t.Timer.C()
}

// asOwner creates what the owner alone can.
func (s server) asOwner(t *testing.T, path, body string) {
	t.Helper()
	status, answer := s.ask(t, http.MethodPost, "/api/v1/team/login", "", map[string]any{"email": ownerEmail,
		"password": ownerPassword})
	require.Equal(t, http.StatusOK, status, string(answer))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1"+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", fmt.Sprint("Bearer ", decode[map[string]any](t, string(answer))["access_token"]))
	status, answer = send(t, r)
	require.Equal(t, http.StatusCreated, status, string(answer))
}

// keep creates a subscription without events, under an idempotency key, so that the response is stored, sealed.
func (s server) keep(t *testing.T, key string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1/webhook-subscriptions",
		strings.NewReader(`{"event_types":["nothing"],"forward_url":"http://127.0.0.1:1/","enabled":false}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "once")
	r.Header.Set("API-Key", key)
	status, answer := send(t, r)
	require.Equal(t, http.StatusCreated, status, string(answer))
}

// queue stores a mail for a mail server, which is missing here.
func (in installation) queue(t *testing.T) {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: filepath.Join(in.dir, "keyset.json")})
	require.NoError(t, err)
	seal := func(table, column string) []byte {
		sealed, err := box.Seal([]byte("{}"), secretbox.AD{Table: table, Column: column, RowID: "x"})
		require.NoError(t, err)
		return sealed
	}
	require.NoError(t, in.open(t).Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(),
			"INSERT INTO password_reset_requests (id, request, created_ms) VALUES ('x', $1, 1)", seal("password_reset_requests",
				"request"))
		require.NoError(t, err)
		const far = 1 << 52 // no worker takes it
		_, err = tx.ExecContext(t.Context(),
			"INSERT INTO mails (id, kind, about, message, tries, due_ms, expires_ms) VALUES ('x', 'k', 'x', $1, 0, $2, $2)",
			seal("mails", "message"), int64(far))
		return err
	}))
}

// configure stores the client of a provider configuration, which no definition uses yet.
func (in installation) configure(t *testing.T) {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: filepath.Join(in.dir, "keyset.json")})
	require.NoError(t, err)
	seal := func(column string) []byte {
		sealed, err := box.Seal([]byte("x"), secretbox.AD{Table: "provider_configs", Column: column, RowID: "x"})
		require.NoError(t, err)
		return sealed
	}
	require.NoError(t, in.open(t).Tx(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO provider_configs (id, environment_id, provider_config_key,
			provider, display_name, client_id, client_secret,
			client_secret_hint, private_key, scopes, base_url, rate_limit, created_ms,
			updated_ms) SELECT 'x', min(id), 'github', 'github', '', 'x', $1, '', $2, '', '', '', 1, 1 FROM environments`,
			seal("client_secret"), seal("private_key"))
		return err
	}))
}

// execute stores an execution with its input and output.
func (in installation) execute(t *testing.T) {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: filepath.Join(in.dir, "keyset.json")})
	require.NoError(t, err)
	seal := func(column string) []byte {
		sealed, err := box.Seal([]byte("{}"), secretbox.AD{Table: "executions", Column: column, RowID: "x"})
		require.NoError(t, err)
		return sealed
	}
	require.NoError(t, in.open(t).Tx(t.Context(), func(tx *sql.Tx) error {
		const far = 1 << 52 // no job removes it
		_, err := tx.ExecContext(t.Context(), `INSERT INTO executions (id, environment_id, principal_type, principal_id,
			provider_config_key, provider, connection_id, connection_uuid, action, version, status, error_code, created_ms,
			finished_ms, lease_ms, state, input, output, output_until_ms) SELECT 'x', min(id), 'api_key', 'x', 'http', 'http',
			'x', 'x', 'get', 'x', 'succeeded', '', 1, 1, 0, '{}', $1, $2, $3 FROM environments`, seal("input"), seal("output"),
			int64(far))
		return err
	}))
}

// depart stores a browser that is at a provider, for a connection that is there.
func (in installation) depart(t *testing.T) {
	t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: filepath.Join(in.dir, "keyset.json")})
	require.NoError(t, err)
	sealed, err := box.Seal([]byte("{}"), secretbox.AD{Table: "connect_flows", Column: "secrets", RowID: "x"})
	require.NoError(t, err)
	require.NoError(t, in.open(t).Tx(t.Context(), func(tx *sql.Tx) error {
		const far = 1 << 52 // no job removes it
		_, err := tx.ExecContext(t.Context(), `INSERT INTO connect_links (id, token_hash, connection_uuid, environment_id,
			team_id, provider_config_key, connection_id, auth_mode, client_id, redirect_url, state, scopes, attempts, connected,
			created_ms, expires_ms) SELECT 'x', $1, min(c.uuid), min(c.environment_id), min(e.team_id), 'x', 'x', '', '', '', '',
			'null', 0, $2, $3, $3 FROM connections c JOIN environments e ON e.id = c.environment_id`, []byte("x"), false,
			int64(far))
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `INSERT INTO connect_flows (id, link_id, environment_id, secrets, expires_ms)
			SELECT 'x', 'x', environment_id, $1, $2 FROM connect_links`, sealed, int64(far))
		return err
	}))
}

const githubSecret = "a secret shared with the provider"

// deliver does what GitHub does: it signs a body and posts it.
func (s server) deliver(t *testing.T, id string) {
	t.Helper()
	body := `{"action":"opened","issue":{"title":"` + id + `"}}`
	mac := hmac.New(sha256.New, []byte(githubSecret))
	mac.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1/webhook/repo",
		strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	status, answer := send(t, r)
	require.Equal(t, http.StatusOK, status, string(answer))
}

// sealedUnder counts the sealed values of the database by key. Every column must hold some.
func (in installation) sealedUnder(t *testing.T) map[uint32]int {
	t.Helper()
	counts := map[uint32]int{}
	for _, c := range app.SealedColumns() {
		rows, err := in.open(t).Read().QueryContext(t.Context(), "SELECT "+c.Column+" FROM "+c.Table+" WHERE "+c.Column+
			" IS NOT NULL")
		require.NoError(t, err)
		n := 0
		require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
			var value []byte
			if err := r.Scan(&value); err != nil {
				return err
			}
			key, ok := secretbox.KeyID(value)
			require.True(t, ok, "%s.%s", c.Table, c.Column)
			counts[key]++
			n++
			return nil
		}))
		require.Positive(t, n, "%s.%s", c.Table, c.Column)
	}
	return counts
}

// holding returns the columns of the whole schema, declared as sealed or not, that hold a value of the key.
func (in installation) holding(t *testing.T, key uint32) []string {
	t.Helper()
	d := in.open(t)
	columns := "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND " +
		"upper(c.type) IN ('BLOB', 'BYTEA')"
	if d.Engine() == db.Postgres {
		columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' AND " +
			"data_type = 'bytea'"
	}
	rows, err := d.Read().QueryContext(t.Context(), columns)
	require.NoError(t, err)
	var all [][2]string
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var c [2]string
		all = append(all, c)
		return r.Scan(&all[len(all)-1][0], &all[len(all)-1][1])
	}))
	require.GreaterOrEqual(t, len(all), len(app.SealedColumns()))
	var found []string
	for _, c := range all {
		var n int
		require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+c[0]+" WHERE substr("+c[1]+
			", 1, 5) = $1", binary.BigEndian.AppendUint32([]byte{1}, key)).Scan(&n))
		if n > 0 {
			found = append(found, c[0]+"."+c[1])
		}
	}
	return found
}

func (in installation) keys(t *testing.T) []secretbox.KeyInfo {
	t.Helper()
	return decode[[]secretbox.KeyInfo](t, in.do(t, "keyset", "list", "--json"))
}

// A rotation next to a running server loses nothing: values that the server seals before it has read the new key are
// encrypted again too, deliveries still verify, forwards are still signed with the subscriptions' secrets, and API keys
// still work, there and in a server that starts afterwards. No row needs the old key any more.
func TestRotateNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		clk := clock.NewManual(time.Now())
		s := in.serve(t, clk)
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"webhooks,connections"))
		receivers, secrets := []receiver{}, []string{}
		subscribe := func() {
			r := newReceiver(t)
			sub := s.make(t, "/webhook-subscriptions", key, map[string]any{
				"event_types": []string{"*"}, "forward_url": r.URL, "headers": map[string]string{"X-Token": "t"},
			})
			secret, _ := sub["signing_secret"].(string)
			// The secret that the receiver has is replaced, and continues to sign alongside the new one.
			status, answer := s.ask(t, http.MethodPatch, fmt.Sprint("/api/v1/webhook-subscriptions/", sub["id"]), key,
				map[string]any{"signing_secret": "the secret that replaces it"})
			require.Equal(t, http.StatusOK, status, string(answer))
			receivers, secrets = append(receivers, r), append(secrets, secret)
		}
		s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "repo",
			"webhook_secret": githubSecret})
		notes := s.make(t, "/connections", key, map[string]any{"provider": "notion", "connection_id": "notes"})
		s.make(t, "/connections/notion/notes/webhook-enrolment", key, nil)
		webhookURL, _ := notes["webhook_url"].(string) // by the alias no secret is taken
		status, answer := s.ask(t, http.MethodPost, webhookURL[strings.Index(webhookURL, "/api/v1"):], "",
			map[string]any{"verification_token": "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"})
		require.Equal(t, http.StatusOK, status, string(answer))
		s.asOwner(t, "/team/me/totp", `{"password":"`+ownerPassword+`"}`)
		s.asOwner(t, "/team/sso", `{"name":"Company account","issuer":"https://login.example.test",`+
			`"client_id":"a","client_secret":"b"}`)
		s.keep(t, key)
		in.queue(t)
		s.make(t, "/connections", key, map[string]any{"provider": "http", "connection_id": "api",
			"connection_config": map[string]any{"base_url": "https://api.example.test"},
			"credentials":       map[string]any{"token": "a token"}})
		in.configure(t)
		in.execute(t)
		in.depart(t)
		subscribe()
		s.deliver(t, "before")
		receivers[0].verified(t, secrets[0])
		old := in.keys(t)
		require.Len(t, old, 1)

		sealedLate := 0
		r := in.call(t, command{args: []string{"keyset", "rotate"}, clock: skippingClock{Manual: clk, meanwhile: func() {
			subscribe()
			sealedLate = in.sealedUnder(t)[old[0].ID]
		}}})
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Empty(t, in.holding(t, old[0].ID))
		keys := in.keys(t)
		require.Len(t, keys, 2)
		require.Len(t, in.holding(t, keys[1].ID), len(app.SealedColumns()))
		require.NotEqual(t, old[0].ID, keys[1].ID)
		require.True(t, keys[1].Primary)
		under := in.sealedUnder(t)
		require.Len(t, under, 1)
		require.Equal(t, sealedLate, under[keys[1].ID], "the values that were there, and those sealed meanwhile")

		subscribe()
		require.Len(t, in.sealedUnder(t), 1, "the server seals under the new key")
		works := func(s server, id string) {
			s.deliver(t, id)
			for i, r := range receivers {
				r.verified(t, secrets[i])
			}
			status, body := s.ask(t, http.MethodGet, "/api/v1/webhook-subscriptions", key, nil)
			require.Equal(t, http.StatusOK, status, string(body))
		}
		works(s, "after")
		s.stop()
		works(in.serve(t, clk), "after a restart")
		require.Equal(t, "values encrypted again: 0; no value is left under an older key\n", in.do(t, "keyset", "reseal"))
	})
}

// A rotation that is interrupted says how to go on, loses nothing, and reseal completes it.
func TestRotateInterrupted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		ctx, cancel := context.WithCancel(t.Context())
		r := in.call(t, command{ctx: ctx, clock: frozenClock{clock.NewManual(time.Now()), cancel},
			args: []string{"keyset", "rotate"}})
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "sallyport keyset reseal")
		keys := in.keys(t)
		require.Len(t, keys, 2)

		// With the key added and nothing encrypted again, everything works.
		in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes", "events")
		r = in.run(t, "keyset", "reseal")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, "values encrypted again: 2; no value is left under an older key\n", r.out)
		require.Contains(t, r.stderr, "encrypted again: 1 of installation.pepper\n")
		require.Contains(t, r.stderr, "encrypted again: 1 of signing_keys.private_key\n")
		in.do(t, "keys", "list")
	})
}

// frozenClock interrupts every wait.
type frozenClock struct {
	*clock.Manual
	interrupt context.CancelFunc
}

func (c frozenClock) NewTimer(d time.Duration) clock.Timer {
	c.interrupt()
	return c.Manual.NewTimer(d)
}

// A value that does not open is named, left as it is, and keeps nothing else from being encrypted again.
func TestResealDamaged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"connections"))
		s.make(t, "/connections", key, map[string]any{"provider": "github", "connection_id": "repo",
			"webhook_secret": githubSecret})
		w := in.open(t).Write()
		_, err := w.ExecContext(t.Context(), "UPDATE connection_secrets SET value = substr(value, 1, 20)")
		require.NoError(t, err)
		s.stop() // it would encrypt the others again by itself within seconds
		in.do(t, "keyset", "rotate", "--key-only")
		r := in.run(t, "keyset", "reseal")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "connection_secrets.value: 1 values do not open")
		require.NotContains(t, r.stderr, githubSecret)
		require.Contains(t, r.stderr, "encrypted again: 1 of signing_keys.private_key\n")
	})
}

// A start never replaces a lost keyset: nothing that is sealed in the database could be opened with another one. It
// names the file to restore and writes none.
func TestLostKeysetIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"serve": nil, "serve --dev": {"--dev"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, in installation) {
				file := filepath.Join(in.dir, "keyset.json")
				if flags == nil && in.url != "" {
					in.do(t, "keyset", "create")
				}
				in.serve(t, clock.System(), flags...).stop()
				kept := filepath.Join(t.TempDir(), "keyset.json")
				require.NoError(t, os.Rename(file, kept))

				r := in.run(t, append([]string{"serve"}, flags...)...)
				require.Equal(t, exitFailed, r.code)
				require.Contains(t, r.stderr, "the keyset "+file+" is missing; restore it from its copy")
				require.NotContains(t, r.stderr, "keyset create")
				require.NoFileExists(t, file)

				require.NoError(t, os.Rename(kept, file))
				in.serve(t, clock.System(), flags...).stop()
			})
		})
	}
}

// Making a keyset never replaces one, and the file is its owner's alone. A keyset in a variable is changed by no
// command.
func TestKeysetFile(t *testing.T) {
	t.Parallel()
	in := installation{dir: filepath.Join(t.TempDir(), "a", "b")}
	file := filepath.Join(in.dir, "keyset.json")
	require.Equal(t, file+"\n", in.do(t, "keyset", "create"))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r := in.run(t, "keyset", "create")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "already exists")
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, again)

	require.Contains(t, in.do(t, "keyset", "rotate", "--key-only"), "added key ")
	table := in.do(t, "keyset", "list")
	require.Equal(t, 3, strings.Count(table, "\n"))
	require.Equal(t, 1, strings.Count(table, "encrypts and decrypts"))

	for _, args := range [][]string{{"keyset", "create"}, {"keyset", "list"}, {"keyset", "rotate", "--key-only"}} {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: args}, []string{"SALLYPORT_DATA=" + in.dir,
			"SALLYPORT_KEYSET=" + string(text)})
		require.Equal(t, exitFailed, r.code, args)
		require.Contains(t, r.stderr, "the keyset is in the variable SALLYPORT_KEYSET", args)
		require.NotContains(t, r.out+r.stderr, "keyData")
	}
}
