package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// A running server encrypts everything again in the background, also what it has in memory: credentials that it used
// before the rotation go out as before after the older key was removed. Doctor shows how many values need which key.
// While one needs a key, it is not removed.
func TestRemoveKeyNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		clk := clock.NewManual(time.Now())
		s := in.serve(t, clk)
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes",
			"webhooks,connections"))
		got := make(chan string, 16)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got <- r.Header.Get("X-Token")
		}))
		await.Close(t, receiver)
		sub := s.make(t, "/webhook-subscriptions", key, map[string]any{"event_types": []string{"*"},
			"forward_url": receiver.URL, "headers": map[string]string{"X-Token": "the token"}})
		use := func() {
			status, body := s.ask(t, http.MethodPost, fmt.Sprintf("/api/v1/webhook-subscriptions/%s/test", sub["id"]), key,
				map[string]any{"event_type": "a", "body": map[string]any{}})
			require.Equal(t, http.StatusOK, status, string(body))
			require.Equal(t, "the token", await.Value(t, "a request to the receiver", got))
		}
		use()
		old := in.keys(t)[0].ID
		_, checks := in.outcomes(t)
		require.Contains(t, checks["sealed values"].Message, fmt.Sprintf("key %d encrypts", old))

		in.do(t, "keyset", "rotate", "--key-only")
		_, checks = in.outcomes(t)
		require.Equal(t, operator.CheckWarn, checks["sealed values"].Status)
		require.Contains(t, checks["sealed values"].Message, fmt.Sprintf("key %d: ", old))
		r := in.call(t, command{args: []string{"keyset", "remove", fmt.Sprint(old)}, clock: skippingClock{
			Manual: clock.NewManual(time.Now()), meanwhile: func() {}}})
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "values in the database need the key")
		require.Len(t, in.keys(t), 2)
		r = in.run(t, "keyset", "remove", fmt.Sprint(in.keys(t)[1].ID))
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "the key encrypts, so it cannot be removed")
		r = in.run(t, "keyset", "remove", "1")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "the keyset has no such key")

		await.Condition(t, "the server has encrypted everything again", func() bool {
			clk.Advance(time.Second)
			return len(in.holding(t, old)) == 0
		})
		use()
		_, checks = in.outcomes(t)
		require.Equal(t, operator.CheckOK, checks["sealed values"].Status)
		require.Contains(t, checks["sealed values"].Message, fmt.Sprintf("`sallyport keyset remove %d`", old))
		r = in.call(t, command{args: []string{"keyset", "remove", fmt.Sprint(old)}, clock: skippingClock{
			Manual: clock.NewManual(time.Now()), meanwhile: func() {}}})
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, fmt.Sprintf("removed key %d\n", old), r.out)
		require.Len(t, in.keys(t), 1)
		for range 3 {
			clk.Advance(time.Minute) // the removed key is gone from the server's memory too
			use()
		}
		s.stop()
		s = in.serve(t, clk)
		use()
	})
}

// With a keyset that each node has a copy of, a key is added everywhere before one node encrypts with it.
func TestAddAndPromoteKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		out := in.do(t, "keyset", "add")
		keys := in.keys(t)
		require.Len(t, keys, 2)
		require.True(t, keys[0].Primary)
		require.Equal(t, fmt.Sprintf("added key %d, which only decrypts\n", keys[1].ID), out)
		out = in.do(t, "keyset", "promote", fmt.Sprint(keys[1].ID))
		require.Equal(t, fmt.Sprintf("key %d encrypts from now on\n", keys[1].ID), out)
		require.True(t, in.keys(t)[1].Primary)
		require.Contains(t, in.do(t, "keyset", "reseal"), "values encrypted again: 2;")
		r := in.run(t, "keyset", "promote", "1")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "the keyset has no such key")
	})
}
