package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// load is a provider that posts deliveries over several connections at the same time and requires that every response
// is a 200.
type load struct {
	client *http.Client
	url    string

	mu         sync.Mutex
	events     []string
	violations []string
}

// start posts until at least so many deliveries were made and enough is closed, or until one was not acknowledged. The
// function it returns waits for the end and gives back the events that the deliveries became, and what went wrong.
func (l *load) start(ctx context.Context, connections, least int,
	enough <-chan struct{}) (wait func() (events, violations []string)) {
	var made atomic.Int64
	var senders sync.WaitGroup
	for range connections {
		senders.Go(func() {
			for n := made.Add(1); !l.over(n > int64(least), enough); n = made.Add(1) {
				event, err := l.post(ctx, github(`{"action":"opened","n":`+strconv.FormatInt(n, 10)+`}`))
				l.note(event, err)
			}
		})
	}
	return func() ([]string, []string) {
		senders.Wait()
		return l.events, l.violations
	}
}

func (l *load) over(least bool, enough <-chan struct{}) bool {
	select {
	case <-enough:
		return least || l.hasViolations()
	default:
		return l.hasViolations()
	}
}

func (l *load) note(event string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.violations = append(l.violations, err.Error())
		return
	}
	l.events = append(l.events, event)
}

func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events)
}

func (l *load) hasViolations() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.violations) > 0
}

// post makes one delivery, once.
func (l *load) post(ctx context.Context, m message) (event string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(m.body))
	if err != nil {
		return "", err
	}
	r.Header = m.header
	resp, err := l.client.Do(r)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if err := resp.Body.Close(); err != nil {
		return "", err
	}
	var ack receipt
	if resp.StatusCode != http.StatusOK || json.Unmarshal(body, &ack) != nil || ack.Duplicate {
		return "", fmt.Errorf("a delivery was answered with %d: %s", resp.StatusCode, body)
	}
	return ack.EventUUID, nil
}

// The other commands work alongside a server under load on the same SQLite file: each succeeds and takes effect in the
// server, and no delivery is refused or lost over them.
func TestCommandsNextToServer(t *testing.T) {
	t.Parallel()
	const connections, least, newPassword = 8, 2000, "another horse battery"
	in, sink := newInstallation(t), newArrivals(t)
	stop := in.serve()
	createKey := func(run func(stdin string, args ...string) string, routes string) apiKey {
		t.Helper()
		var k apiKey
		text := run("", "keys", "create", "--name", "k", "--environment", "production", "--routes", routes, "--json")
		require.NoError(t, json.Unmarshal([]byte(text), &k), text)
		return k
	}
	first := createKey(in.command, "connections,webhooks")
	status, body := in.ask(byKey(first.Key), http.MethodPost, "/webhook-subscriptions",
		object{"event_types": []string{"*"}, "forward_url": sink.url})
	require.Equal(t, http.StatusCreated, status, "%s", body)
	status, body = in.ask(byKey(first.Key), http.MethodPost, "/connections",
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
	flows := func() {
		t.Helper()
		seen := l.acknowledged()
		await.Condition(t, "deliveries are acknowledged", func() bool {
			return l.hasViolations() || l.acknowledged() >= seen+10*connections
		})
	}
	// nextToLoad runs a command while deliveries arrive and leave.
	nextToLoad := func(stdin string, args ...string) string {
		t.Helper()
		flows()
		out := in.command(stdin, args...)
		flows()
		return out
	}

	made := createKey(nextToLoad, "events")
	status, body = in.ask(byKey(made.Key), http.MethodGet, "/webhook-events?limit=1", nil)
	require.Equal(t, http.StatusOK, status, "the key works at once: %s", body)
	status, body = in.ask(byKey(made.Key), http.MethodGet, "/connections", nil)
	require.Equal(t, http.StatusForbidden, status, "for what it was granted: %s", body)

	var keys []apiKey
	text := nextToLoad("", "keys", "list", "--json")
	require.NoError(t, json.Unmarshal([]byte(text), &keys), text)
	listed := []string{}
	for _, k := range keys {
		listed = append(listed, k.ID)
	}
	require.Equal(t, []string{made.ID, first.ID}, listed)

	nextToLoad(newPassword+"\n", "admin", "reset-password", "--email", ownerEmail)
	for password, want := range map[string]int{newPassword: http.StatusOK, ownerPassword: http.StatusUnauthorized} {
		status, body = in.ask(anonymous, http.MethodPost, "/team/login", object{"email": ownerEmail, "password": password})
		require.Equal(t, want, status, "%s", body)
	}

	var diagnosis struct {
		Status string `json:"status"`
		Checks []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"checks"`
	}
	text = nextToLoad("", "doctor", "--json", "--public-url", in.base)
	require.NoError(t, json.Unmarshal([]byte(text), &diagnosis), text)
	require.Equal(t, "ok", diagnosis.Status, text)
	require.NotEmpty(t, diagnosis.Checks)

	nextToLoad("", "config", "check")

	finish()
	events, violations := wait()
	require.Empty(t, violations, "every delivery is acknowledged")
	require.GreaterOrEqual(t, len(events), least)
	await.Condition(t, "every delivery arrives", func() bool { return sink.missing(events) == 0 })
	stop()
	t.Logf("%d deliveries acknowledged", len(events))
}
