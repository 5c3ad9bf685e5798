//go:build linux

package soak

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// past is when everything in the evidence of a test has happened.
func past() time.Time { return time.Now().Add(-time.Hour) }

// good returns evidence of one event of an environment that two subscriptions match: one delivery succeeded, and one
// died. Another environment has a subscription, too.
func good() *evidence {
	at := past()
	here, there := &receiver{environment: "env_1"}, &receiver{environment: "env_2"}
	every := func(message) bool { return true }
	ok, dead := deliveryKey{"e", "ok"}, deliveryKey{"e", "dead"}
	return &evidence{
		quiet:    true,
		recorded: map[generationKey]time.Time{},
		messages: map[string]message{"m": {marker: "m", environment: &environment{id: "env_1"}, kind: issue}},
		events:   map[string]string{"m": "e"},
		subscriptions: map[string]*subscription{
			"ok":    {id: "ok", receiver: here, matches: every},
			"dead":  {id: "dead", receiver: here, matches: every, hostile: true},
			"other": {id: "other", receiver: here, matches: func(message) bool { return false }},
			"there": {id: "there", receiver: there, matches: every},
		},
		arrivals: []arrival{
			{generationKey: generationKey{ok, false}, environment: "env_1", number: 1, at: at, whole: true, status: 200,
				marker: "m"},
			{generationKey: generationKey{dead, false}, environment: "env_1", number: 1, at: at, whole: true, status: 500},
		},
		books: &books{
			at: time.Now(),
			events: map[string]eventRow{"e": {environment: "env_1", connection: "c", key: "m", status: "dead_letter",
				counts: counts{succeeded: 1, dead: 1, tried: 2, attempts: 2}}},
			deliveries: map[deliveryKey]deliveryRow{
				ok:   {environment: "env_1", status: "succeeded", generation: 1, attempts: 1},
				dead: {environment: "env_1", status: "dead", generation: 1, attempts: 1, failure: `{"code":"unexpected_status"}`},
			},
			attempts: []attemptRow{
				{deliveryKey: ok, generation: 1, number: 1, outcome: "succeeded", committed: at.Add(time.Millisecond)},
				{deliveryKey: dead, generation: 1, number: 1, outcome: "failed", committed: at.Add(time.Millisecond)},
			},
		},
	}
}

func (e *evidence) delivery(subscription string, change func(*deliveryRow)) {
	k := deliveryKey{"e", subscription}
	d := e.books.deliveries[k]
	change(&d)
	e.books.deliveries[k] = d
}

func (e *evidence) event(uuid string, change func(*eventRow)) {
	row := e.books.events[uuid]
	change(&row)
	e.books.events[uuid] = row
}

// Each guarantee is really checked: evidence against it is found under its rule, and evidence for all is accepted.
func TestOracle(t *testing.T) {
	t.Parallel()
	require.Empty(t, good().check())
	for name, c := range map[string]struct {
		rule  string
		spoil func(e *evidence)
	}{
		"an acknowledged event is lost": {ruleStored, func(e *evidence) { delete(e.books.events, "e") }},
		"an event was sent and is not stored": {ruleStored, func(e *evidence) {
			e.arrivals = append(e.arrivals, arrival{generationKey: generationKey{deliveryKey{"x", "ok"}, false}, at: past(),
				whole: true})
		}},
		"a subscription is left out": {ruleMatched, func(e *evidence) {
			delete(e.books.deliveries, deliveryKey{"e", "dead"})
		}},
		"a subscription gets what it does not match": {ruleMatched, func(e *evidence) {
			e.books.deliveries[deliveryKey{"e", "other"}] = deliveryRow{environment: "env_1", status: "succeeded", generation: 1}
		}},
		"a delivery died without a reason": {ruleReached, func(e *evidence) {
			e.delivery("dead", func(d *deliveryRow) { d.failure = "" })
		}},
		"a delivery died at a receiver that is well": {ruleReached, func(e *evidence) {
			e.subscriptions["dead"].hostile = false
		}},
		"a worker was not lost as often as recorded": {ruleReached, func(e *evidence) {
			e.losses = []time.Time{time.Now()}
			e.delivery("dead", func(d *deliveryRow) { d.failure = `{"code":"worker_lost"}` })
		}},
		"a success is recorded twice": {ruleOnce, func(e *evidence) {
			e.books.attempts = append(e.books.attempts, e.books.attempts[0])
		}},
		"a success is recorded that no receiver gave": {ruleOnce, func(e *evidence) { e.arrivals[0].status = 500 }},
		"a delivery succeeded without an attempt": {ruleOnce, func(e *evidence) {
			e.books.attempts[0].outcome = "superseded"
		}},
		"an attempt began after the success": {ruleAfter, func(e *evidence) {
			late := e.arrivals[0]
			late.at = late.at.Add(time.Second)
			e.arrivals = append(e.arrivals, late)
		}},
		"an attempt began long after the pause of its node": {ruleAfter, func(e *evidence) {
			late := e.arrivals[0]
			e.thawed = []time.Time{late.at.Add(time.Second)}
			late.at = late.at.Add(3 * time.Second)
			e.arrivals = append(e.arrivals, late)
		}},
		"more came out of a pause than was in flight": {ruleAfter, func(e *evidence) {
			late := e.arrivals[0]
			e.thawed = []time.Time{late.at.Add(time.Second)}
			late.at = late.at.Add(1100 * time.Millisecond)
			for range inFlight + 1 {
				e.arrivals = append(e.arrivals, late)
			}
		}},
		"one key has two events": {ruleDuplicate, func(e *evidence) {
			e.books.events["e2"] = eventRow{environment: "env_1", connection: "c", key: "m", status: "received"}
		}},
		"a duplicate has no original": {ruleDuplicate, func(e *evidence) {
			e.books.events["e2"] = eventRow{environment: "env_1", connection: "c", key: "m", status: "received",
				duplicateOf: sql.NullString{String: "e3", Valid: true}}
		}},
		"a counter is wrong": {ruleCounters, func(e *evidence) {
			e.event("e", func(r *eventRow) { r.counts.succeeded++ })
		}},
		"the attempts are wrong": {ruleCounters, func(e *evidence) {
			e.event("e", func(r *eventRow) { r.counts.attempts++ })
		}},
		"a status is wrong": {ruleCounters, func(e *evidence) { e.event("e", func(r *eventRow) { r.status = "forwarded" }) }},
		"a delivery is left": {ruleQuiet, func(e *evidence) {
			e.delivery("dead", func(d *deliveryRow) { d.status = "sending" })
			e.event("e", func(r *eventRow) {
				r.status, r.counts.sending, r.counts.dead = "forwarding", 1, 0
			})
		}},
		"a fan-out is left": {ruleQuiet, func(e *evidence) { e.books.parts = 1 }},
		"an event is in another environment": {ruleIsolation, func(e *evidence) {
			e.messages["m"] = message{marker: "m", environment: &environment{id: "env_2"}, kind: issue}
		}},
		"an event reached another environment": {ruleIsolation, func(e *evidence) { e.arrivals[1].environment = "env_2" }},
		"a delivery goes to another environment": {ruleIsolation, func(e *evidence) {
			e.books.deliveries[deliveryKey{"e", "there"}] = deliveryRow{environment: "env_2", status: "succeeded", generation: 1}
		}},
		"an event arrived with another's content": {ruleRequest, func(e *evidence) {
			e.messages["m2"], e.events["m2"], e.arrivals[0].marker = e.messages["m"], "e2", "m2"
		}},
		"a redirect was followed": {ruleRequest, func(e *evidence) { e.arrivals[0].receiver = "trap" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := good()
			c.spoil(e)
			var rules []string
			for _, v := range e.check() {
				rules = append(rules, v.rule)
			}
			require.Contains(t, rules, c.rule)
		})
	}
}

// The checks do not hold against a node what evidence cannot decide: requests that were being sent when it was stopped,
// and deliveries that are still to be stored.
func TestOracleAllows(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string]func(e *evidence){
		"a request that was in flight when its node was stopped": func(e *evidence) {
			late := e.arrivals[0]
			e.thawed = []time.Time{late.at.Add(time.Second)}
			late.at = late.at.Add(1100 * time.Millisecond)
			e.arrivals = append(e.arrivals, late)
		},
		"an attempt that arrives again before its success is recorded": func(e *evidence) {
			e.arrivals = append(e.arrivals, e.arrivals[0])
		},
		"a request that was cut off": func(e *evidence) {
			e.arrivals = append(e.arrivals, arrival{generationKey: e.arrivals[0].generationKey, at: time.Now()})
		},
		"deliveries that a fan-out is still to store": func(e *evidence) {
			e.quiet = false
			e.books.fanouts = map[string]bool{"e": true}
			e.books.parts = 1
			delete(e.books.deliveries, deliveryKey{"e", "dead"})
			e.event("e", func(r *eventRow) {
				r.status, r.counts = "forwarding", counts{succeeded: 1, pending: 1, tried: 1, attempts: 1}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := good()
			allow(e)
			require.Empty(t, e.check())
		})
	}
}
