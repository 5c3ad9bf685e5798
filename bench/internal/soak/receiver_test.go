//go:build linux

package soak

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// testReceiver returns a receiver that expects the subscription "s".
func testReceiver(t *testing.T) *receiver {
	t.Helper()
	r, err := newReceiver(t.Context(), "env_1", "test", 1)
	require.NoError(t, err)
	t.Cleanup(func() { await.Return(t, "the end of the receiver", r.close) })
	require.NoError(t, r.expect("s", testSecret))
	r.trap = "http://127.0.0.1:1/trap"
	return r
}

// post sends a signed request of the subscription at the time given and returns the response's status.
func post(t *testing.T, r *receiver, subscription string, at time.Time, body, signed string) (int, error) {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(testSecret)
	require.NoError(t, err)
	signature, err := hook.Sign("event", at, []byte(signed))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range map[string]string{"Webhook-Id": "event", "Webhook-Signature": signature,
		"Webhook-Timestamp": strconv.FormatInt(at.Unix(), 10), "Sallyport-Attempt": "3",
		"Sallyport-Subscription-Id": subscription, "Sallyport-Replay": "true"} {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// A receiver writes down what arrived and finds requests that are not what they must be.
func TestReceiverChecksRequests(t *testing.T) {
	t.Parallel()
	const body = `{"data":{"marker":"m"}}`
	for name, c := range map[string]struct {
		subscription, body string
		at                 time.Time
		rule               string
	}{
		"right":               {"s", body, time.Now(), ""},
		"another body":        {"s", body + " ", time.Now(), ruleSignature},
		"another time":        {"s", body, time.Now().Add(-time.Hour), ruleSignature},
		"another's secret":    {"other", body, time.Now(), ruleIsolation},
		"an unsigned request": {"s", "{}", time.Now(), ruleSignature},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testReceiver(t)
			status, err := post(t, r, c.subscription, c.at, c.body, body)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
			arrivals, problems := r.taken()
			require.Len(t, arrivals, 1)
			a := arrivals[0]
			require.Equal(t, generationKey{deliveryKey{"event", c.subscription}, true}, a.generationKey)
			require.EqualValues(t, 3, a.number)
			require.True(t, a.whole)
			require.Equal(t, http.StatusOK, a.status)
			if c.rule == "" {
				require.Empty(t, problems)
				require.Equal(t, "m", a.marker)
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, c.rule, problems[0].rule)
		})
	}
}

// Each hostile behaviour is what its name says.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	for _, b := range hostile() {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			r := testReceiver(t)
			r.behave(b)
			status, err := post(t, r, "s", time.Now(), "{}", "{}")
			var timeout net.Error
			switch b {
			case hang, drip:
				require.ErrorAs(t, err, &timeout)
				require.True(t, timeout.Timeout())
			case resetEarly, resetLate:
				require.True(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) ||
					errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
			case garbage:
				require.ErrorContains(t, err, "malformed HTTP")
			default:
				require.NoError(t, err)
				require.Equal(t, map[behaviour]int{huge: 200, redirect: 302, gone: 410, busy: 429, storm: 503}[b], status)
			}
			arrivals, _ := r.taken()
			require.NotEmpty(t, arrivals)
		})
	}
}

// A path carries requests, lets them wait while it is stalled, and ends them when it breaks.
func TestProxy(t *testing.T) {
	t.Parallel()
	r := testReceiver(t)
	p, err := newProxy(t.Context(), "postgres://"+r.listener.Addr().String()+"/x")
	require.NoError(t, err)
	t.Cleanup(func() { await.Return(t, "the end of the path", p.close) })
	ask := func() error {
		_, err := post(t, &receiver{url: "http://" + p.listener.Addr().String() + "/"}, "s", time.Now(), "{}", "{}")
		return err
	}
	require.NoError(t, ask())
	p.set(broken)
	require.Error(t, ask())
	p.set(stalled)
	var timeout net.Error
	require.ErrorAs(t, ask(), &timeout)
	require.True(t, timeout.Timeout())
	p.set(passing)
	require.NoError(t, ask())
}
