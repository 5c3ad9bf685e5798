package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// expectDuplicate requires that the message is treated as a duplicate of the event.
func (w *world) expectDuplicate(segment string, m message, original string) {
	w.t.Helper()
	r := w.deliver(segment, m)
	require.True(w.t, r.Duplicate)
	require.Equal(w.t, original, r.EventUUID, "a repeat is answered with the event it repeats")
}

// fresh requires that the message is taken for an event of its own, and returns its uuid.
func (w *world) fresh(segment string, m message) string {
	w.t.Helper()
	r := w.deliver(segment, m)
	require.False(w.t, r.Duplicate)
	return r.EventUUID
}

// A provider's id makes one event, however often it comes, and as long as the event lives. A duplicate leaves a light
// row that names the first event, and is not forwarded.
func TestSameIDIsOneEvent(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url)
		w.connectGitHub("acme")
		w.connectGitHub("other")
		delivery := id.NewUUID()
		m := githubAs(githubSecret, "issues", delivery, issueOpened)
		first := w.fresh("acme", m)
		w.awaitEvent(first, "forwarded")
		w.expectDuplicate("acme", m, first)
		w.expectDuplicate("acme", githubAs(githubSecret, "issues", delivery, `{"action":"closed"}`), first)
		w.clk.Advance(40 * 24 * time.Hour)
		w.expectDuplicate("acme", m, first)

		second := w.fresh("other", m) // the scope of a key is the connection
		w.awaitEvent(second, "forwarded")
		require.Len(w.t, sink.all(), 2)

		list := w.events("&duplicate=true&include=body,deliveries")
		require.Len(w.t, list, 3)
		for _, e := range list {
			require.Equal(w.t, first, *e.DuplicateOf)
			require.NotEqual(w.t, first, e.EventUUID)
			require.Equal(w.t, "null", string(e.Body))
			require.Nil(w.t, e.BodyEncoding)
			require.Empty(w.t, e.Deliveries)
			require.Equal(w.t, delivery, e.IdempotencyKey)
		}
		require.Len(w.t, w.events("&duplicate=false"), 2)
	})
}

// A sender that uses an id twice for different bodies gets one event, and the operator sees it: the duplicate is
// marked, whether the original was stored before or comes in the same transaction. A body that is sent again is not.
func TestSameIDNewBody(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		delivery := id.NewUUID()
		first := w.fresh("acme", githubAs(githubSecret, "issues", delivery, issueOpened))
		for _, body := range []string{issueOpened, strings.Replace(issueOpened, "opened", "closed", 1), `{}`} {
			w.expectDuplicate("acme", githubAs(githubSecret, "issues", delivery, body), first)
		}
		count := func(query string) map[string]int {
			marks := map[string]int{}
			for _, e := range w.events(query) {
				mark := "none"
				if e.Suspect != nil {
					mark = *e.Suspect
				}
				marks[mark]++
			}
			return marks
		}
		require.Equal(w.t, map[string]int{"none": 1, "same_id_new_body": 2}, count("&duplicate=true"))

		var all sync.WaitGroup
		together := id.NewUUID()
		for i := range 20 {
			body := fmt.Sprintf(`{"action":"opened","number":%d}`, i%2)
			all.Go(func() { w.post("acme", githubAs(githubSecret, "issues", together, body)) })
		}
		all.Wait()
		require.Equal(w.t, map[string]int{"none": 10, "same_id_new_body": 10}, count("&idempotency_key="+together))
	})
}

// A person with a delivery whose id is in an unsigned header can write any id there. That makes no duplicate of a later
// event whose id is signed, even if they know it beforehand.
func TestUnsignedIDTakesNoSignedOne(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a shared secret"
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "orders", "webhook_secret": secret,
			"webhook": object{"params": object{"event_id_pointer": "/id", "event_id_header": "X-Event-Id"}}})
		replayed := generic(secret, "application/json", `{"ping":true}`)
		replayed.header.Set("X-Event-Id", "order-1")
		w.expectDuplicate("orders", replayed, w.fresh("orders", replayed))
		genuine := generic(secret, "application/json", `{"id":"order-1"}`)
		first := w.fresh("orders", genuine)
		w.expectDuplicate("orders", genuine, first)
	})
}

// Fifty at the same time are one event too, whether their key is an id or the body: no two of them find it absent.
func TestSimultaneousDuplicatesAreOneEvent(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url)
		w.connectGitHub("by-id")
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "by-body",
			"webhook_secret": "a shared secret", "webhook": object{"dedupe_window_seconds": 3600}})
		for i, c := range []struct {
			segment string
			m       message
		}{{"by-id", github(issueOpened)}, {"by-body", generic("a shared secret", "application/json", issueOpened)}} {
			const many = 50
			receipts := make([]receipt, many)
			var all sync.WaitGroup
			for n := range many {
				all.Go(func() { receipts[n] = w.deliver(c.segment, c.m) })
			}
			all.Wait()
			events := 0
			for _, r := range receipts {
				require.Equal(w.t, receipts[0].EventUUID, r.EventUUID)
				if !r.Duplicate {
					events++
				}
			}
			require.Equal(w.t, 1, events)
			w.awaitEvent(receipts[0].EventUUID, "forwarded")
			require.Len(w.t, sink.all(), i+1)
			require.Len(w.t, w.events("&connection_id="+c.segment), many)
		}
	})
}

// Where a provider sends no id, equal bodies are duplicates for as long as the connection says, or where the definition
// says that the bodies are unique, and events of their own after it; no key belongs to two events.
func TestBodyWindow(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a shared secret"
		calendly := func(body string) message {
			at := fmt.Sprint(w.clk.Now().Unix())
			return message{http.Header{"Content-Type": {"application/json"}, "Calendly-Webhook-Signature": {"t=" + at + ",v1=" +
				hexHMAC(secret, at+"."+body)}}, []byte(body)}
		}
		plain := func(body string) message { return generic(secret, "text/plain", body) }
		for _, c := range []struct {
			name, provider string
			window         any
			length         time.Duration
			message        func(body string) message
		}{
			{"stated", "calendly", nil, time.Hour, calendly}, {"shorter", "calendly", 10, 10 * time.Second, calendly},
			{"asked", "generic-hmac", 10, 10 * time.Second, plain},
		} {
			w.run(c.name, func(w *world) {
				made := w.connect(w.dev(), object{"provider": c.provider, "connection_id": c.name, "webhook_secret": secret,
					"webhook": object{"dedupe_window_seconds": c.window}})
				require.InDelta(w.t, c.length.Seconds(), made.Webhook.Duplicates.SameBodySeconds, 0)
				require.Contains(w.t, made.Webhook.Duplicates.Summary, "makes a duplicate")
				first := w.fresh(c.name, c.message("same"))
				w.clk.Advance(c.length - time.Millisecond)
				w.expectDuplicate(c.name, c.message("same"), first)
				w.fresh(c.name, c.message("other"))
				w.clk.Advance(time.Millisecond)
				second := w.fresh(c.name, c.message("same"))
				w.expectDuplicate(c.name, c.message("same"), second)

				one, two := w.event(first), w.event(second)
				require.Equal(w.t, "body_hash", one.IdempotencySource)
				require.Regexp(w.t, `^body:[0-9a-f]{64}:`+first+`$`, one.IdempotencyKey)
				require.Regexp(w.t, `^body:[0-9a-f]{64}:`+second+`$`, two.IdempotencyKey)
				require.Equal(w.t, strings.TrimSuffix(one.IdempotencyKey, first), strings.TrimSuffix(two.IdempotencyKey, second))
			})
		}
	})
}

// Two events with one body are two events where neither the definition nor the connection says anything else: the
// gateway loses neither. The connection says so when it is made.
func TestEqualBodiesAreTwoEvents(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a shared secret"
		for _, c := range []struct {
			name, provider string
			window         any
		}{{"hmac", "generic-hmac", nil}, {"off", "generic-hmac", 0}, {"asana", "asana", nil}, {"off-unique", "zoom", 0}} {
			made := w.connect(w.dev(), object{"provider": c.provider, "connection_id": c.name, "webhook_secret": secret,
				"webhook": object{"dedupe_window_seconds": c.window}})
			require.Zero(w.t, made.Webhook.Duplicates.SameBodySeconds)
			require.Equal(w.t, "No id is known: each webhook is a new event, also with an equal body.",
				made.Webhook.Duplicates.Summary)
		}
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url)
		for range 2 {
			for _, name := range []string{"hmac", "off"} {
				w.awaitEvent(w.fresh(name, generic(secret, "text/plain", "same")), "forwarded")
			}
			body := `{"events":[{"action":"changed","resource":{"gid":"1","resource_type":"task"}}]}`
			w.awaitEvent(w.fresh("asana", message{http.Header{"X-Hook-Signature": {hexHMAC(secret, body)}}, []byte(body)}),
				"forwarded")
		}
		require.Len(w.t, sink.all(), 6)
	})
}

// Mailgun signs a token and not the body. A token counts once: who replays a signature with another body makes a
// duplicate, and takes from the event whose id they write nothing.
func TestMailgunTokenCountsOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const key = "key-of-an-account-at-mailgun"
		made := w.connect(w.dev(), object{"provider": "mailgun", "connection_id": "mail", "webhook_secret": key})
		require.Equal(w.t, []string{"json:/signature/token", "form:token"}, made.Webhook.Duplicates.SingleUse)
		signed := func(at time.Time, token, eventID string) message {
			seconds := fmt.Sprint(at.Unix())
			body, err := json.Marshal(object{
				"signature":  object{"timestamp": seconds, "token": token, "signature": hexHMAC(key, seconds+token)},
				"event-data": object{"event": "opened", "id": eventID}})
			require.NoError(w.t, err)
			return message{http.Header{"Content-Type": {"application/json"}}, body}
		}
		began := w.clk.Now().Truncate(time.Second)
		send := func(token, eventID string) message { return signed(began, token, eventID) }

		first := w.fresh("mail", send("token-1", "event-1"))
		w.expectDuplicate("mail", send("token-1", "event-1"), first)
		w.expectDuplicate("mail", send("token-1", "event-2"), first)
		second := w.fresh("mail", send("token-2", "event-2"))
		// Mailgun sends the first again, with another token, which counts as used then.
		w.expectDuplicate("mail", send("token-3", "event-1"), first)
		w.expectDuplicate("mail", send("token-3", "event-4"), first)
		w.fresh("mail", send("token-4", "event-4"))
		require.Len(w.t, w.events("&duplicate=false"), 3)
		for _, e := range w.events("&duplicate=true") {
			require.Equal(w.t, first, *e.DuplicateOf)
		}
		require.Nil(w.t, w.event(second).DuplicateOf)

		const many = 20
		receipts := make([]receipt, many)
		var all sync.WaitGroup
		for n := range many {
			all.Go(func() { receipts[n] = w.deliver("mail", send("token-5", fmt.Sprint("forged-", n))) })
		}
		all.Wait()
		fresh := 0
		for n, r := range receipts {
			require.Equal(w.t, receipts[0].EventUUID, r.EventUUID)
			if !r.Duplicate {
				fresh++
				continue
			}
			w.fresh("mail", send(fmt.Sprint("genuine-", n), fmt.Sprint("forged-", n)))
		}
		require.Equal(w.t, 1, fresh)

		w.clk.Advance(24*time.Hour - time.Second)
		w.expectDuplicate("mail", send("token-1", "event-9"), first)
		w.clk.Advance(time.Second)
		w.post("mail", send("token-1", "event-9")).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.fresh("mail", signed(w.clk.Now(), "token-9", "event-9"))
	})
}

// GitHub does not sign the id of a delivery, so an old body under a new id may be a replay by someone who has seen it.
// It is marked, and forwarded or not as the connection says; it is never lost.
func TestSameBodyUnderNewID(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url)
		w.connectGitHub("accepts")
		w.connectGitHub("refuses", object{"webhook": object{"same_body_new_id": "refuse"}})

		first := w.fresh("accepts", github(issueOpened))
		again := w.fresh("accepts", github(issueOpened))
		require.Nil(w.t, w.awaitEvent(first, "forwarded").Suspect)
		require.Equal(w.t, "same_body_new_id", *w.awaitEvent(again, "forwarded").Suspect)
		retyped := w.fresh("accepts", githubAs(githubSecret, "pull_request", id.NewUUID(), issueOpened))
		require.Equal(w.t, "same_body_new_id", *w.awaitEvent(retyped, "forwarded").Suspect,
			"the type is in an unsigned header too")
		require.Len(w.t, sink.all(), 3)

		w.awaitEvent(w.fresh("refuses", github(issueOpened)), "forwarded")
		m := github(issueOpened)
		held := w.fresh("refuses", m)
		e := w.event(held)
		require.Equal(w.t, "same_body_new_id", *e.Suspect)
		require.Equal(w.t, "received", e.Status)
		require.Empty(w.t, e.Deliveries)
		require.JSONEq(w.t, issueOpened, string(e.Body))
		w.expectDuplicate("refuses", m, held)

		w.clk.Advance(time.Hour)
		require.Nil(w.t, w.awaitEvent(w.fresh("refuses", github(issueOpened)), "forwarded").Suspect)
		require.Len(w.t, sink.all(), 5)
	})
}

// Anyone who replays a webhook can leave out an id that the signature does not cover, or make one that is none. An
// equal body makes such a webhook suspect like one under another id, before it and after it; it is never lost. Other
// bodies make nothing suspect.
func TestSameBodyWithoutID(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const linearSecret = "a secret of Linear"
		linear := func(body string) message {
			return message{http.Header{"Content-Type": {"application/json"}, "Linear-Delivery": {id.NewUUID()},
				"Linear-Signature": {hexHMAC(linearSecret, body)}}, []byte(body)}
		}
		sink := newReceiver(w.t, status(200))
		w.subscribe(sink.url)
		sent := 0
		for _, c := range []struct {
			provider, secret, header string
			message                  func(n int) message
		}{
			{"github", githubSecret, "X-GitHub-Delivery", func(n int) message {
				return github(fmt.Sprintf(`{"action":"opened","n":%d}`, n))
			}},
			{"shopify", shopifySecret, "X-Shopify-Webhook-Id", func(n int) message {
				return shopifyOrder("orders/create", fmt.Sprintf(`{"id":%d}`, n))
			}},
			{"linear", linearSecret, "Linear-Delivery", func(n int) message { // the body contains the type
				return linear(fmt.Sprintf(`{"type":"Issue","action":"create","n":%d,"webhookTimestamp":%d}`, n,
					w.clk.Now().UnixMilli()))
			}},
		} {
			for _, policy := range []string{"accept", "refuse"} {
				name := c.provider + "-" + policy
				made := w.connect(w.dev(), object{"provider": c.provider, "connection_id": name, "webhook_secret": c.secret,
					"webhook": object{"same_body_new_id": policy}})
				require.Contains(w.t, made.Webhook.Duplicates.Summary, "under another id or without one within one hour")
				genuine := func(m message) {
					w.t.Helper()
					require.Nil(w.t, w.awaitEvent(w.fresh(name, m), "forwarded").Suspect)
					sent++
				}
				replayed := func(m message) {
					w.t.Helper()
					uuid := w.fresh(name, m)
					e := w.event(uuid)
					require.NotNil(w.t, e.Suspect)
					require.Equal(w.t, "same_body_new_id", *e.Suspect)
					if policy == "accept" {
						w.awaitEvent(uuid, "forwarded")
						sent++
						return
					}
					require.Equal(w.t, "received", e.Status)
					require.Empty(w.t, e.Deliveries)
				}
				first, second, third := c.message(1), c.message(2), c.message(3)
				tooLong := strings.Repeat("x", 513)
				genuine(first)
				replayed(first.without(c.header))
				replayed(first.without(c.header))
				replayed(first.with(c.header, tooLong))
				replayed(first.with(c.header, id.NewUUID()))
				genuine(second.without(c.header))
				replayed(second)
				genuine(third.with(c.header, tooLong))
				replayed(third.without(c.header))
				require.Empty(w.t, w.events("&duplicate=true&connection_id="+name))
			}
		}
		w.clk.Advance(time.Hour)
		again := w.awaitEvent(w.fresh("github-refuse", github(`{"action":"opened","n":1}`).without("X-GitHub-Delivery")),
			"forwarded")
		require.Nil(w.t, again.Suspect)
		require.Len(w.t, sink.all(), sent+1)
	})
}

// A connection that asks for it takes an equal body without an id for a duplicate. Such a duplicate casts no suspicion
// on the event that comes next with that body.
func TestDuplicateWithoutIDCastsNoSuspicion(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a secret of Linear"
		w.connect(w.dev(), object{"provider": "linear", "connection_id": "l", "webhook_secret": secret,
			"webhook": object{"dedupe_window_seconds": 60}})
		body := fmt.Sprintf(`{"type":"Issue","action":"create","webhookTimestamp":%d}`, w.clk.Now().UnixMilli())
		m := message{http.Header{"Content-Type": {"application/json"}, "Linear-Signature": {hexHMAC(secret, body)}},
			[]byte(body)}
		first := w.fresh("l", m)
		w.expectDuplicate("l", m, first)
		require.Equal(w.t, "same_body_new_id", *w.event(w.fresh("l", m.with("Linear-Delivery", id.NewUUID()))).Suspect)
		require.Nil(w.t, w.event(first).Suspect)
	})
}

// A provider that resends a dead event starts its delivery again, but not more often than every five minutes, and not
// where the connection forbids it.
func TestRedeliveryRestartsTheDead(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(500, 500, 200))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		m := github(issueOpened)
		first := w.fresh("acme", m)
		w.awaitEvent(first, "dead_letter")
		at := func() delivery { return w.event(first).delivery(w, sub.ID) }

		w.expectDuplicate("acme", m, first)
		require.Equal(w.t, 2, at().Generation)
		require.Equal(w.t, "true", sink.wait(w.t, 2)[1].header.Get("Sallyport-Replay"))
		w.awaitEvent(first, "dead_letter")
		w.clk.Advance(5*time.Minute - time.Millisecond)
		w.expectDuplicate("acme", m, first)
		require.Equal(w.t, 2, at().Generation, "too early")

		w.call(w.dev(), http.MethodPatch, "/connections/github/acme",
			object{"webhook": object{"redeliver_on_duplicate": false}}).want(w, 200)
		w.clk.Advance(time.Millisecond)
		w.expectDuplicate("acme", m, first)
		require.Equal(w.t, 2, at().Generation, "the connection forbids it")

		w.call(w.dev(), http.MethodPatch, "/connections/github/acme",
			object{"webhook": object{"redeliver_on_duplicate": true}}).want(w, 200)
		w.expectDuplicate("acme", m, first)
		require.Equal(w.t, 3, at().Generation)
		w.awaitEvent(first, "forwarded")
		w.clk.Advance(time.Hour)
		w.expectDuplicate("acme", m, first)
		require.Equal(w.t, 3, at().Generation, "what has arrived is not sent again")
		require.Len(w.t, sink.all(), 3)
		for _, r := range sink.all() {
			require.Equal(w.t, first, r.header.Get("Webhook-Id"))
		}
	})
}

// Where a delivery has no id and its type stands in a header that the signature does not cover, who replays it
// with another type makes no new event.
func TestUnsignedTypeMakesNoNewEvent(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "g", "webhook_secret": githubSecret,
			"webhook": object{"params": object{"event_type_header": "X-Event-Type"}, "dedupe_window_seconds": 60}})
		m := generic(githubSecret, "application/json", `{"n":1}`).with("X-Event-Type", "order.paid")
		original := w.fresh(conn.pathToken(), m)
		replayed := w.deliver(conn.pathToken(), m.with("X-Event-Type", "order.refunded"))
		require.True(w.t, replayed.Duplicate)
		require.Equal(w.t, original, replayed.EventUUID)
	})
}
