package e2e_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit/await"
)

// A reader sees an event's whole way: its receipt, each attempt once, and its final state.
func TestStreamShowsEveryStepOfAnEvent(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{60}})
		w.connectGitHub("acme")
		s := w.stream(w.dev(), "")
		uuid := w.fresh("acme", github(issueOpened))
		w.ticking("the failed try", func() bool { return len(s.of("webhook_attempt.completed")) == 1 })
		w.ticking("the event to fail", func() bool {
			list := s.of("webhook_event.updated")
			return len(list) > 0 && list[len(list)-1]["status"] == "failed"
		})
		w.nextAttempt(uuid, sub.ID, sink, 2)
		w.ticking("the event to be forwarded", func() bool {
			list := s.of("webhook_event.updated")
			return list[len(list)-1]["status"] == "forwarded"
		})
		// A message shows the event as it is by then, so that one of an earlier change may show the attempt's effect before
		// the attempt's own message.
		w.ticking("the second try", func() bool { return len(s.of("webhook_attempt.completed")) > 1 })
		require.Equal(w.t, []string{uuid}, s.received())
		var shown object
		w.call(w.dev(), http.MethodGet, "/webhook-events?limit=1", nil).into(w, &[]*object{&shown})
		updates := s.of("webhook_event.updated")
		require.Equal(w.t, shown, updates[len(updates)-1], "as the list shows it")
		messages := s.of("webhook_attempt.completed")
		require.Len(w.t, messages, 2)
		require.Equal(w.t, []any{"failed", "succeeded"}, []any{messages[0]["outcome"], messages[1]["outcome"]})
		var attempts []object
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/attempts?order=asc", nil).into(w, &attempts)
		for i, o := range messages {
			require.Equal(w.t, attempts[i]["id"], o["id"])
			require.NotContains(w.t, o, "request")
			require.NotContains(w.t, o, "response")
		}
	})
}

// A reader comes back where it stopped, by header or query, also after a restart, and the header goes before the query.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		numbered := func(n int) string { return w.fresh("acme", github(`{"action":"opened","n":`+strconv.Itoa(n)+`}`)) }
		s := w.stream(w.dev(), "")
		first, second := numbered(1), numbered(2)
		require.Equal(w.t, []string{first, second}, s.waits(2))
		s.quit()
		third := numbered(3)
		resumed := func(header, query string) []string {
			w.t.Helper()
			s := w.stream(func(h http.Header) {
				w.dev()(h)
				if header != "" {
					h.Set("Last-Event-ID", header)
				}
			}, query)
			w.ticking("the third event", func() bool { return slices.Contains(s.received(), third) })
			s.quit()
			return s.received()
		}
		ids := []string{}
		for _, m := range s.messages() {
			if m.Event == "webhook_event.received" {
				ids = append(ids, m.ID)
			}
		}
		require.Equal(w.t, []string{third}, resumed(s.lastID(), ""))
		require.Equal(w.t, []string{second, third}, resumed("", "?last_event_id="+ids[0]))
		require.Equal(w.t, []string{third}, resumed(s.lastID(), "?last_event_id="+ids[0]))
		w.stop()
		w.start()
		require.Equal(w.t, []string{second, third}, resumed(ids[0], ""))
		require.Equal(w.t, []string{third}, resumed(ids[1], "?event_type=issues.*"))
	})
}

// The stream takes the filters of the list, in the same words, and refuses what the list refuses; paging is not for it.
// An id that no stream of the environment has sent is refused, too.
func TestStreamFilters(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		w.connectGitHub("other")
		own := w.stream(w.dev(), "?connection_id=acme&event_type=issues.*&duplicate=false")
		all := w.stream(w.dev(), "")
		const key = "5c7a0d0e-1b9f-4c55-8d8e-6f7f3a3d2b10"
		searched := w.stream(w.dev(), "?duplicate=false&q="+key)
		w.fresh("other", github(issueOpened))
		w.fresh("acme", githubAs(githubSecret, "push", id.NewUUID(), `{"ref":"x"}`))
		m := githubAs(githubSecret, "issues", key, issueOpened)
		uuid := w.fresh("acme", m)
		w.expectDuplicate("acme", m, uuid)
		last := w.fresh("acme", github(issueOpened))
		require.Equal(w.t, []string{uuid, last}, own.waits(2))
		require.Equal(w.t, []string{uuid}, searched.waits(1))
		all.waits(5)

		production := w.environment("production")
		foreign := w.stream(w.user(production), "")
		for query, want := range map[string][]string{
			"?status=nope":                       {"query.status[0] enum"},
			"?event_type=a*":                     {"query.event_type[0] pattern"},
			"?limit=5":                           {"query.limit unknown_parameter"},
			"?include=body":                      {"query.include unknown_parameter"},
			"?last_event_id=" + canary:           {"query.last_event_id event_id"},
			"?last_event_id=" + foreign.lastID(): {"query.last_event_id event_id"},
			"?event_type=a*&http_status=1&last_event_id=x": {"query.event_type[0] pattern", "query.http_status[0] minimum",
				"query.last_event_id event_id"},
		} {
			require.ElementsMatch(w.t, want, w.call(w.dev(), http.MethodGet, streamPath+query, nil).violations(w), query)
		}
		header := func(h http.Header) { w.dev()(h); h.Set("Last-Event-ID", foreign.lastID()) }
		require.Equal(w.t, []string{"header.Last-Event-ID event_id"}, w.call(header, http.MethodGet, streamPath,
			nil).violations(w))
		forged := all.lastID()[:16] + "_____w"
		require.Equal(w.t, []string{"query.last_event_id event_id"}, w.call(w.dev(), http.MethodGet, streamPath+
			"?last_event_id="+forged, nil).violations(w))
	})
}

// No stream shows another environment's events, to any caller and with any id.
func TestStreamIsolation(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		production := w.environment("production")
		w.connectGitHub("acme")
		there := w.connect(w.user(production), object{"provider": "github", "connection_id": "there",
			"webhook_secret": githubSecret})
		here, away := w.stream(w.dev(), ""), w.stream(w.user(production), "")
		mine := w.fresh("acme", github(issueOpened))
		theirs := w.fresh(there.pathToken(), github(issueOpened))
		require.Equal(w.t, []string{mine}, here.waits(1))
		require.Equal(w.t, []string{theirs}, away.waits(1))
		for _, list := range [][]sse.Message{here.messages(), away.messages()} {
			require.Len(w.t, list, 1)
		}
		otherEnvironment, otherToken := w.otherTeam()
		w.call(byToken(otherToken, w.env), http.MethodGet, streamPath, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		w.call(byToken(otherToken, otherEnvironment), http.MethodGet, streamPath+"?last_event_id="+here.lastID(),
			nil).violations(w)
	})
}

// Too many streams are refused with an ordinary response, and a stream that ends makes room.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		production := w.environment("production")
		first, second := w.stream(w.dev(), ""), w.stream(w.dev(), "")
		a := w.call(w.dev(), http.MethodGet, streamPath, nil)
		a.refused(w, http.StatusTooManyRequests, apperr.CodeTooManyStreams)
		require.NotEmpty(w.t, a.header.Get("Retry-After"))
		third := w.stream(w.user(production), "")
		a = w.call(w.user(production), http.MethodGet, streamPath, nil)
		a.refused(w, http.StatusServiceUnavailable, apperr.CodeUnavailable)
		require.NotEmpty(w.t, a.header.Get("Retry-After"))
		second.quit()
		await.Condition(w.t, "the place to be given back", func() bool {
			return w.call(w.dev(), http.MethodGet, streamPath, nil).status == http.StatusOK
		})
		first.quit()
		third.quit()
	}, func(c *config.Config) { c.StreamMaxReaders, c.StreamMaxReadersPerEnvironment = 3, 2 })
}

// A stop ends the streams with a message and immediately, and events from meanwhile follow after the restart.
func TestStreamStopsInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		s := w.stream(w.dev(), "")
		first := w.fresh("acme", github(issueOpened))
		s.waits(1)
		w.stop()
		event, reason := s.ends()
		require.Equal(w.t, "stream.closed", event)
		require.Equal(w.t, "server_stopping", reason)
		w.start()
		second := w.fresh("acme", github(`{"action":"closed"}`))
		s = w.stream(w.dev(), "?last_event_id="+s.lastID())
		require.Equal(w.t, []string{second}, s.waits(1))
		require.NotEqual(w.t, first, second)
	})
}

// A client that asks for the headers alone gets them, and an old one, and one in HTTP/1.0, the stream.
func TestStreamOfOddClients(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := w.call(w.dev(), http.MethodHead, streamPath, nil).want(w, http.StatusOK)
		require.Equal(w.t, sse.ContentType, a.header.Get("Content-Type"))
		require.Empty(w.t, a.body)
		u, err := url.Parse(w.base)
		require.NoError(w.t, err)
		conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", u.Host)
		require.NoError(w.t, err)
		_, err = io.WriteString(conn, "GET "+prefix+streamPath+" HTTP/1.0\r\nHost: "+u.Host+"\r\nAPI-Key: "+w.key+"\r\n\r\n")
		require.NoError(w.t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(w.t, err)
		block, err := firstBlock(bufio.NewReader(resp.Body))
		require.NoError(w.t, err)
		require.Equal(w.t, "retry: 3000\n\n", string(block))
		require.NoError(w.t, errors.Join(resp.Body.Close(), conn.Close()))
	})
}

// A reader on one node hears of what another node takes and delivers, once, and comes back on either.
func TestStreamOverNodes(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		if w.databaseURL == "" {
			w.t.Skip("SQLite has one node")
		}
		second := w.node()
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, nil)
		w.connectGitHub("acme")
		here, there := w.stream(w.dev(), ""), second.stream(w.dev(), "")
		var all []string
		for n := range 6 {
			on := []*world{w, second}[n%2]
			on.ticking("the node to know the connection", func() bool {
				a := on.post("acme", github(`{"action":"opened","n":`+strconv.Itoa(n)+`}`))
				if a.status != http.StatusOK {
					return false
				}
				var taken struct {
					EventUUID string `json:"event_uuid"`
				}
				a.into(on, &taken)
				all = append(all, taken.EventUUID)
				return true
			})
		}
		for _, s := range []*stream{here, there} {
			require.ElementsMatch(w.t, all, s.waits(6))
			w.ticking("the tries", func() bool { return len(s.of("webhook_attempt.completed")) == 6 })
			s.quit()
		}
		require.Equal(w.t, here.received(), there.received(), "one order for all")
		missed := w.fresh("acme", github(`{"action":"closed"}`))
		again := second.stream(w.dev(), "?last_event_id="+here.lastID())
		require.Equal(w.t, []string{missed}, again.waits(1))
	})
}
