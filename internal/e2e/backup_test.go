package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/platform/testkit/pgserver"
)

// with returns the same binary with further settings, and a server of its own.
func (in *installation) with(environ ...string) *installation {
	c := *in
	c.environ = append(slices.Clone(in.environ), environ...)
	return &c
}

// events lists every event over the API, from the command line.
func (in *installation) events(key string, filters ...string) []event {
	in.t.Helper()
	var list []event
	args := append([]string{"events", "list", "--all", "--json"}, filters...)
	text := in.with("SALLYPORT_SERVER="+in.base, "SALLYPORT_API_KEY="+key).command("", args...)
	require.NoError(in.t, json.Unmarshal([]byte(text), &list))
	return list
}

// sofar returns the events acknowledged so far.
func (l *load) sofar() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

// A backup of a SQLite server under load holds every event acknowledged before it began, refuses no delivery, and,
// restored into an empty folder, is a server on which all of it goes on: open deliveries are sent, secrets sign and
// verify, keys open.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	const connections, least = 8, 1500
	in := newInstallation(t)
	sink := newReceiver(t, status(http.StatusNoContent))
	stop := in.serve()
	var key apiKey
	require.NoError(t, json.Unmarshal([]byte(in.command("", "keys", "create", "--name", "k", "--environment", "production",
		"--routes", "connections,webhooks", "--json")), &key))
	status, body := in.ask(byKey(key.Key), http.MethodPost, "/webhook-subscriptions", object{"event_types": []string{"*"},
		"forward_url": sink.url})
	require.Equal(t, http.StatusCreated, status, "%s", body)
	var sub struct {
		ID            string `json:"id"`
		SigningSecret string `json:"signing_secret"`
	}
	require.NoError(t, json.Unmarshal(body, &sub))
	status, body = in.ask(byKey(key.Key), http.MethodPost, "/connections",
		object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
	require.Equal(t, http.StatusCreated, status, "%s", body)

	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	l := &load{client: &http.Client{Transport: transport, Timeout: await.Limit}, url: in.base + prefix + "/webhook/acme"}
	enough := make(chan struct{})
	finish := sync.OnceFunc(func() { close(enough) })
	wait := l.start(t.Context(), connections, least, enough)
	t.Cleanup(func() {
		finish()
		wait()
	})
	await.Condition(t, "deliveries are acknowledged", func() bool {
		return l.hasViolations() || l.acknowledged() >= least/2
	})
	before := l.sofar()
	to := t.TempDir()
	file, keyset := filepath.Join(to, "backup.db"), filepath.Join(to, "keyset.json")
	in.command("", "backup", file, "--keyset-to", keyset)
	during := l.acknowledged() - len(before)
	finish()
	all, violations := wait()
	require.Empty(t, violations, "every delivery is acknowledged")
	stop()

	other := in.with("SALLYPORT_DATA=" + filepath.Join(to, "data"))
	other.command("", "restore", file, "--keyset-from", keyset)
	other.command("", "doctor")
	stop = other.serve()
	restored := map[string]bool{}
	list := other.events(key.Key)
	for _, e := range list {
		restored[e.EventUUID] = true
	}
	for _, e := range before {
		require.True(t, restored[e], "an event that was acknowledged before the backup began is not in it")
	}
	require.LessOrEqual(t, len(list), len(all), "and nothing else is")
	await.Condition(t, "what was open is sent", func() bool {
		return len(other.events(key.Key, "--status", "forwarded")) == len(list)
	})

	verifier, err := standardwebhooks.NewWebhook(sub.SigningSecret)
	require.NoError(t, err)
	sent := sink.count()
	status, body = other.ask(byKey(key.Key), http.MethodPost, "/webhook-events/"+before[0]+"/replay",
		object{"force": true})
	require.Equal(t, http.StatusAccepted, status, "%s", body)
	replayed := sink.wait(t, sent+1)[sent]
	require.Equal(t, before[0], replayed.header.Get("Webhook-Id"))
	require.NoError(t, verifier.Verify(replayed.body, replayed.header))
	l = &load{client: l.client, url: other.base + prefix + "/webhook/acme"}
	_, err = l.post(t.Context(), github(`{"action":"opened","n":0}`))
	require.NoError(t, err, "a delivery is verified with the secret of the backup")
	fresh := sink.wait(t, sent+2)[sent+1]
	require.NoError(t, verifier.Verify(fresh.body, fresh.header))
	status, _ = other.ask(anonymous, http.MethodPost, "/team/login",
		object{"email": ownerEmail, "password": ownerPassword})
	require.Equal(t, http.StatusOK, status)
	stop()
	t.Logf("%d acknowledged before the backup, %d while it was made, %d in it", len(before), during, len(list))
}

// tool returns the path of one of PostgreSQL's programs. Without it the test is skipped, or fails where engines are
// required.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := pgserver.Program(name)
	if err != nil && os.Getenv(testkit.RequireEngines) == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

// PostgreSQL's own dump of a database that a server works on, restored into another database, is with the same keyset a
// server on which all of it goes on; doctor finds nothing wrong with it.
func TestPostgresDumpAndRestore(t *testing.T) {
	t.Parallel()
	testkit.NeedLong(t)
	source, target := testkit.NewPostgres(t), testkit.NewPostgres(t)
	dump, restore := tool(t, "pg_dump"), tool(t, "pg_restore")
	w := newWorld(t, source, t.TempDir())
	w.start()
	sink := newReceiver(t, status(http.StatusNoContent))
	w.connectGitHub("acme")
	sub := w.subscribe(sink.url)
	l := &load{client: w.http, url: w.base + prefix + "/webhook/acme"}
	enough := make(chan struct{})
	wait := l.start(t.Context(), 4, 400, enough)
	await.Condition(t, "deliveries are acknowledged", func() bool { return l.hasViolations() || l.acknowledged() >= 200 })
	before := l.sofar()
	run := func(name string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	file := filepath.Join(t.TempDir(), "sallyport.dump")
	run(dump, "--format=custom", "--file="+file, source)
	close(enough)
	_, violations := wait()
	require.Empty(t, violations, "every delivery is acknowledged")
	w.stop() // what it sent from now on would be taken for the restored server's

	// The clone has a schema already, and a restored database begins with none.
	d, err := db.Open(t.Context(), target, "")
	require.NoError(t, err)
	_, err = d.Write().ExecContext(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	run(restore, "--exit-on-error", "--no-owner", "--dbname="+target, file)

	other := newWorld(t, target, t.TempDir())
	for _, name := range []string{"keyset.json", "dev-credentials.json"} {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(other.dir, name), text, 0o600))
	}
	diagnosis, err := operator.Doctor(t.Context(), &other.cfg, other.clk)
	require.NoError(t, err)
	checked := 0
	for _, c := range diagnosis.Checks {
		if slices.Contains([]string{"database", "schema", "keyset", "sealed values"}, c.Name) {
			require.Equal(t, operator.CheckOK, c.Status, "%s: %s", c.Name, c.Message)
			checked++
		}
	}
	require.Equal(t, 4, checked)
	other.start()
	require.Equal(t, w.key, other.key, "the same key opens it")
	for _, uuid := range before {
		require.Len(t, other.event(uuid).Deliveries, 1)
	}
	other.ticking("what was open is sent", func() bool {
		return len(other.events("&status=received,forwarding,failed")) == 0
	})
	sent := sink.count()
	other.replay(before[0], object{"force": true}).want(other, http.StatusAccepted)
	fresh := other.deliver("acme", github(`{"action":"opened","n":0}`)).EventUUID
	verifier, err := standardwebhooks.NewWebhook(sub.SigningSecret)
	require.NoError(t, err)
	// On a machine under load the clock overtakes a lease now and then, and an event is sent twice.
	known := append(l.sofar(), fresh)
	awaited := map[string]bool{before[0]: true, fresh: true}
	await.Condition(t, "the replay and the new event at the receiver", func() bool {
		for _, r := range sink.all()[sent:] {
			require.NoError(t, verifier.VerifyIgnoringTimestamp(r.body, r.header))
			require.Contains(t, known, r.header.Get("Webhook-Id"))
			delete(awaited, r.header.Get("Webhook-Id"))
		}
		return len(awaited) == 0
	})
	t.Logf("%d acknowledged before the dump", len(before))
}
