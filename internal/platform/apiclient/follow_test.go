package apiclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit/await"
)

// script handles the n-th request, from 0, with its n-th function, and records the position of each.
type script struct {
	mu    sync.Mutex
	turns []http.HandlerFunc
	asked []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := len(s.asked)
	s.asked = append(s.asked, r.Header.Get("Last-Event-ID")+" "+r.URL.RawQuery+" "+r.Header.Get("Api-Key"))
	s.mu.Unlock()
	s.turns[min(n, len(s.turns)-1)](w, r)
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", sse.ContentType)
		_, _ = io.WriteString(w, "retry: 1000\n\n"+text)
	}
}

// broken sends the text and breaks off.
func broken(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(text)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func refusal(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":"no"}}`, code)
	}
}

// hasty is a clock on which no wait takes time.
type hasty struct{ clock.Clock }

func (hasty) NewTimer(time.Duration) clock.Timer { return clock.System().NewTimer(0) }

func follower(t *testing.T, turns ...http.HandlerFunc) (*script, *apiclient.Client) {
	t.Helper()
	s := &script{turns: turns}
	server := httptest.NewServer(s)
	await.Close(t, server)
	c, err := apiclient.New(apiclient.Options{Server: server.URL, Key: "k", Clock: hasty{clock.System()}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return s, c
}

// Following continues behind the last message, or heartbeat, through ordered ends, breaks, overload and an absent
// server. It reports each interruption that was not an ordered end, once until it is over. A stream is open when it has
// a position.
func TestFollow(t *testing.T) {
	t.Parallel()
	s, c := follower(t,
		stream("id: 1\nevent: a\ndata: one\n\nid: 2\n\nevent: stream.closed\ndata: {}\n\n"),
		broken(": no place yet\n\n"),
		broken("id: 3\nevent: a\ndata: two\n\nid: 4\nevent: a\ndata: cut"),
		refusal(http.StatusServiceUnavailable, "unavailable"),
		refusal(http.StatusTooManyRequests, "rate_limited"),
		stream("event: stream.gap\ndata: {}\n\nid: 9\nevent: stream.lagged\ndata: {}\n\n"),
		refusal(http.StatusUnauthorized, "unauthorized"),
	)
	var got, told []string
	last, err := c.Follow(t.Context(), apiclient.Following{
		Path: "/s", Query: map[string][]string{"status": {"failed"}}, From: "0",
		Message: func(m sse.Message) error {
			got = append(got, m.Event+" "+string(m.Data))
			return nil
		},
		Opened: func(again bool) { told = append(told, fmt.Sprint("open ", again)) },
		Lost:   func(error, time.Duration) { told = append(told, "lost") },
	})
	require.True(t, hasCode(err, apperr.CodeUnauthorized), "%v", err)
	require.Equal(t, "9", last)
	require.Equal(t, []string{"a one", "stream.closed {}", "a two", "stream.gap {}", "stream.lagged {}"}, got)
	require.Equal(t, []string{"open false", "lost", "open true", "lost", "open true"}, told)
	require.Equal(t, []string{"0 status=failed k", "2 status=failed k", "2 status=failed k", "3 status=failed k",
		"3 status=failed k", "3 status=failed k", "9 status=failed k"}, s.asked)
}

// A stream that cannot be opened at the beginning is an error immediately: most likely the command was given the wrong
// server.
func TestFollowOpensFirst(t *testing.T) {
	t.Parallel()
	ignore := func(sse.Message) error { return nil }
	for _, tt := range []struct {
		turn http.HandlerFunc
		want string
	}{
		{refusal(http.StatusServiceUnavailable, "unavailable"), "unavailable"},
		{refusal(http.StatusForbidden, "grant_denied"), "grant_denied"},
		{func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, apiclient.ErrForeign.Error()},
	} {
		_, c := follower(t, tt.turn)
		_, err := c.Follow(t.Context(), apiclient.Following{Path: "/s", Message: ignore})
		require.ErrorContains(t, err, tt.want)
	}
	c, err := apiclient.New(apiclient.Options{Server: "http://127.0.0.1:1"})
	require.NoError(t, err)
	_, err = c.Follow(t.Context(), apiclient.Following{Path: "/s", Message: ignore})
	var gone *apiclient.Unreachable
	require.ErrorAs(t, err, &gone)
}

// The consumer of the messages can end the following, and so can the context. Either way the position is known.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	_, c := follower(t, stream("id: 1\nevent: a\ndata: x\n\nid: 2\nevent: a\ndata: y\n\n"))
	last, err := c.Follow(t.Context(), apiclient.Following{Path: "/s", Message: func(sse.Message) error { return enough }})
	require.ErrorIs(t, err, enough)
	require.Equal(t, "1", last)

	ctx, cancel := context.WithCancel(t.Context())
	_, c = follower(t, func(w http.ResponseWriter, r *http.Request) {
		stream("id: 1\nevent: a\ndata: x\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	last, err = c.Follow(ctx, apiclient.Following{Path: "/s", Message: func(sse.Message) error { cancel(); return nil }})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "1", last)
}
