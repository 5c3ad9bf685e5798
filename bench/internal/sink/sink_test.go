package sink_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/sink"
	"sallyport/internal/platform/clock"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	epoch  = 3
)

type fixture struct {
	sink    *sink.Sink
	tracker *event.Tracker
	client  *http.Client
}

func start(t *testing.T, events int) *fixture {
	t.Helper()
	s, err := sink.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	tracker := event.NewTracker(clock.System(), epoch, events)
	for seq := range uint32(events) {
		_, ok := tracker.Next()
		require.True(t, ok)
		tracker.Sent(seq)
		tracker.Acked(seq)
	}
	verifier, err := sink.NewVerifier(secret, "github", "bench")
	require.NoError(t, err)
	s.Expect(tracker, verifier)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &fixture{sink: s, tracker: tracker, client: &http.Client{Transport: transport}}
}

// forward posts an envelope around data, signed with key, through net/http, and expects the sink's empty 200.
func (f *fixture) forward(ctx context.Context, key, provider string, data []byte) error {
	now := time.Now()
	envelope, err := json.Marshal(map[string]any{
		"type": "push", "timestamp": now, "id": "evt_1", "provider": provider, "provider_config_key": provider,
		"connection_id": "bench", "data": json.RawMessage(data),
	})
	if err != nil {
		return err
	}
	hook, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		return err
	}
	signature, err := hook.Sign("evt_1", now, envelope)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.sink.URL(), bytes.NewReader(envelope))
	if err != nil {
		return err
	}
	req.Header.Set("Webhook-Id", "evt_1")
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || len(body) != 0 {
		return fmt.Errorf("%w: %s %q", errResponse, resp.Status, body)
	}
	return nil
}

var errResponse = errors.New("unexpected response")

// Forwards from net/http's client over several connections must each be credited, and one in a hundred verified without
// complaint.
func TestForwardsFromNetHTTP(t *testing.T) {
	t.Parallel()
	const events = 400
	f := start(t, events)
	senders, ctx := errgroup.WithContext(t.Context())
	for worker := range uint32(4) {
		senders.Go(func() error {
			for seq := worker; seq < events; seq += 4 {
				if err := f.forward(ctx, secret, "github", event.Body(epoch, seq)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, senders.Wait())
	_, arrived := f.tracker.Progress()
	require.Equal(t, events, arrived)
	f.client.CloseIdleConnections()
	// Verification happens after the response. Closing waits for it.
	require.NoError(t, f.sink.Close())
	require.Equal(t, sink.Counts{Forwards: events, Verified: events / 100}, f.sink.Counts())
}

// A forward with a wrong signature, envelope or content must be reported; the first forward is always in the sample.
func TestBadForwardsAreReported(t *testing.T) {
	t.Parallel()
	good := event.Body(epoch, 0)
	for name, tc := range map[string]struct {
		key, provider string
		data          []byte
		problem       string
	}{
		"signature": {"whsec_" + strings.Repeat("QUFB", 8), "github", good, "no matching signature"},
		"provider":  {secret, "gitlab", good, `provider "gitlab"`},
		"content": {secret, "github", bytes.Replace(good, []byte("refs/heads"), []byte("refs/tails"), 1),
			"not the original body"},
		"indented": {secret, "github", append([]byte("{ "), good[1:]...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, 1)
			require.NoError(t, f.forward(t.Context(), tc.key, tc.provider, tc.data))
			require.NoError(t, f.sink.Close())
			counts := f.sink.Counts()
			require.Equal(t, 1, counts.Verified)
			if tc.problem == "" {
				require.Zero(t, counts.BadForwards, counts.FirstProblem)
				return
			}
			require.Equal(t, 1, counts.BadForwards)
			require.Contains(t, counts.FirstProblem, tc.problem)
		})
	}
}

// Duplicates are recorded against their event; forwards of another phase, of events never sent, and without a mark are
// strays.
func TestDuplicatesAndStrays(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	for _, data := range [][]byte{
		event.Body(epoch, 0), event.Body(epoch, 0), event.Body(epoch+1, 0), event.Body(epoch, 1), []byte(`{}`),
	} {
		require.NoError(t, f.forward(t.Context(), secret, "github", data))
	}
	require.NoError(t, f.sink.Close())
	require.Equal(t, sink.Counts{Forwards: 2, Strays: 3, Verified: 1}, f.sink.Counts())
	for r := range f.tracker.Records() {
		require.True(t, r.WasSeen)
		require.Equal(t, 1, r.Duplicates)
	}
}

// Bytes that are not a framed request must be reported, or a gateway that sent them would show as merely slow.
func TestBrokenPeersAreReported(t *testing.T) {
	t.Parallel()
	f := start(t, 1)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.Trim(strings.TrimPrefix(f.sink.URL(), "http:"),
		"/"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	if err == nil {
		require.NoError(t, conn.Close())
	}
	require.NoError(t, f.sink.Close())
	counts := f.sink.Counts()
	require.Equal(t, 1, counts.BrokenConnections)
	require.Contains(t, counts.FirstProblem, "Transfer-Encoding")
}

// Before the first phase there is nothing to credit: a forward is refused, so that a subscription pointing here by
// mistake shows.
func TestRefusesBeforeExpect(t *testing.T) {
	t.Parallel()
	s, err := sink.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), strings.NewReader("{}"))
	require.NoError(t, err)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}
