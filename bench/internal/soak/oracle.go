//go:build linux

package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The rules that every run checks. Their numbers are those of docs/arch/soak.md.
const (
	ruleStored    = "1: an acknowledged event exists"
	ruleMatched   = "2: an event has one delivery for each matching subscription, and no other"
	ruleReached   = "3: a delivery reaches its receiver or ends in a recorded final state"
	ruleOnce      = "4: a generation has one recorded success at most, which its receiver gave"
	ruleAfter     = "5: no attempt begins after the success of its generation was recorded"
	ruleDuplicate = "6: one key gives one forwardable event"
	ruleCounters  = "7: an event's counters are those of its deliveries, its status follows from them"
	ruleQuiet     = "8: nothing is leased, waits or fans out after a quiet end"
	ruleSignature = "9: requests are signed as Standard Webhooks says"
	ruleIsolation = "10: environments do not see each other's events"
	ruleRequest   = "11: requests have the documented form and the original content"
	ruleNode      = "12: a node ends only when it is asked to"
)

// violation is a broken guarantee.
type violation struct {
	rule, event, detail string
}

func (v violation) String() string {
	return fmt.Sprintf("rule %s: event %s: %s", v.rule, v.event, v.detail)
}

// evidence is everything that a check compares.
type evidence struct {
	books *books
	// messages and events are the provider's, by marker.
	messages map[string]message
	events   map[string]string
	arrivals []arrival
	// subscriptions are those of all environments, by id.
	subscriptions map[string]*subscription
	// recorded is when a success was first known to be recorded, where the engine does not say.
	recorded map[generationKey]time.Time
	// thawed are the moments at which a node continued after a pause.
	thawed []time.Time
	// losses are the moments at which nodes lost their leases.
	losses []time.Time
	// quiet says that everything has had the time to end.
	quiet bool
	// late counts the requests that arrived after their success and are excused by a pause of their node.
	late int
}

const (
	// latency is how long a request that was sent before a success was recorded may need to arrive.
	latency = 300 * time.Millisecond
	// afterThaw is how long after a pause of its node a request may arrive that was being sent when the pause began, and
	// inFlight how many of a subscription may: a node looks at the lease right before the first byte.
	afterThaw = time.Second
	inFlight  = 3
	// maxLeasesLost is how many leases in a row a delivery may lose before it dies as worker_lost.
	maxLeasesLost = 5
)

// check returns every broken rule.
func (e *evidence) check() []violation {
	var found []violation
	report := func(rule, event, format string, args ...any) {
		found = append(found, violation{rule, event, fmt.Sprintf(format, args...)})
	}
	e.checkStored(report)
	e.checkDuplicates(report)
	e.checkDeliveries(report)
	e.checkSuccesses(report)
	e.checkArrivals(report)
	e.checkCounters(report)
	if n := e.books.open(); e.quiet && n > 0 {
		for k, d := range e.books.deliveries {
			if slices.Contains([]string{"pending", "sending", "retry_wait", "held"}, d.status) {
				report(ruleQuiet, k.event, "one of %d: the delivery to %s is %s", n, k.subscription, d.status)
				return found
			}
		}
		report(ruleQuiet, "", "%d fan-outs and %d parts are left", len(e.books.fanouts), e.books.parts)
	}
	return found
}

type reporter func(rule, event, format string, args ...any)

func (e *evidence) checkStored(report reporter) {
	for marker, event := range e.events {
		row, ok := e.books.events[event]
		m := e.messages[marker]
		switch {
		case !ok:
			report(ruleStored, event, "message %s was acknowledged and is not there", marker)
		case row.duplicateOf.Valid:
			report(ruleStored, event, "message %s was acknowledged as an event that is a duplicate", marker)
		case row.environment != m.environment.id:
			report(ruleIsolation, event, "message %s of %s is in %s", marker, m.environment.id, row.environment)
		}
	}
}

func (e *evidence) checkDuplicates(report reporter) {
	type scope struct{ environment, connection, key string }
	forwardable := map[scope]string{}
	for uuid, row := range e.books.events {
		if row.duplicateOf.Valid {
			original, ok := e.books.events[row.duplicateOf.String]
			if !ok || original.duplicateOf.Valid || original.environment != row.environment {
				report(ruleDuplicate, uuid, "it duplicates %s, which is no original", row.duplicateOf.String)
			}
			continue
		}
		s := scope{row.environment, row.connection, row.key}
		if other := forwardable[s]; other != "" && row.key != "" {
			report(ruleDuplicate, uuid, "event %s has the same key %s", other, row.key)
		}
		forwardable[s] = uuid
	}
}

// checkDeliveries compares deliveries with what matches, and with how they may end.
func (e *evidence) checkDeliveries(report reporter) {
	of := map[string]map[string]bool{}
	for k, d := range e.books.deliveries {
		row, ok := e.books.events[k.event]
		switch s := e.subscriptions[k.subscription]; {
		case !ok || row.duplicateOf.Valid:
			report(ruleMatched, k.event, "a delivery to %s, and no event to forward", k.subscription)
		case d.environment != row.environment || s == nil || s.receiver.environment != d.environment:
			report(ruleIsolation, k.event, "a delivery of %s to %s", row.environment, k.subscription)
		case d.status == "dead":
			e.checkDead(k, d, report)
		case e.quiet && d.status == "cancelled":
			report(ruleReached, k.event, "the delivery to %s is cancelled", k.subscription)
		}
		if of[k.event] == nil {
			of[k.event] = map[string]bool{}
		}
		of[k.event][k.subscription] = true
	}
	for marker, event := range e.events {
		if e.books.fanouts[event] {
			continue
		}
		for id, s := range e.subscriptions {
			m := e.messages[marker]
			want := s.receiver.environment == m.environment.id && s.matches(m)
			if got := of[event][id]; got != want {
				report(ruleMatched, event, "message %s matches %q (%s): %v, it has a delivery: %v", marker, s.name, id, want, got)
			}
		}
	}
}

// checkDead requires a recorded reason, and one that can be true.
func (e *evidence) checkDead(k deliveryKey, d deliveryRow, report reporter) {
	if d.failure == "" {
		report(ruleReached, k.event, "the delivery to %s is dead without a reason", k.subscription)
		return
	}
	if strings.Contains(d.failure, `"worker_lost"`) {
		lost := 0
		for _, at := range e.losses {
			if at.UnixMilli() >= d.createdMs-maxClockError.Milliseconds() {
				lost++
			}
		}
		if lost < maxLeasesLost {
			report(ruleReached, k.event, "the delivery to %s died as worker_lost after %d losses", k.subscription, lost)
		}
		return
	}
	if s := e.subscriptions[k.subscription]; s != nil && !s.hostile {
		report(ruleReached, k.event, "the delivery to %q, whose receiver is well, died: %s", s.name, d.failure)
	}
}

// checkSuccesses compares recorded successes with each other and with the responses of the receivers.
func (e *evidence) checkSuccesses(report reporter) {
	type attemptKey struct {
		generationKey
		number int64
	}
	given := map[attemptKey]bool{}
	for _, a := range e.arrivals {
		if a.status >= 200 && a.status < 300 {
			given[attemptKey{a.generationKey, a.number}] = true
		}
	}
	successes := map[generationKey]int{}
	for _, a := range e.books.attempts {
		if a.outcome != "succeeded" {
			continue
		}
		g := generationKey{a.deliveryKey, a.generation > 1}
		if successes[g]++; successes[g] > 1 {
			report(ruleOnce, a.event, "two successes of generation %d to %s", a.generation, a.subscription)
		}
		if !given[attemptKey{g, a.number}] {
			report(ruleOnce, a.event, "attempt %d to %s is recorded as a success that its receiver never gave", a.number,
				a.subscription)
		}
		if !a.committed.IsZero() {
			e.recorded[g] = a.committed
		} else if _, known := e.recorded[g]; !known {
			e.recorded[g] = e.books.at
		}
	}
	for k, d := range e.books.deliveries {
		if d.status == "succeeded" && successes[generationKey{k, d.generation > 1}] == 0 {
			report(ruleOnce, k.event, "the delivery to %s succeeded, and no attempt did", k.subscription)
		}
	}
}

// checkArrivals requires that nothing is sent that must not be.
func (e *evidence) checkArrivals(report reporter) {
	type excuse struct {
		subscription string
		thaw         int
	}
	excused := map[excuse]int{}
	for _, a := range e.arrivals {
		row, ok := e.books.events[a.event]
		switch {
		case a.receiver == "trap":
			report(ruleRequest, a.event, "a redirect was followed")
		case !a.whole:
			continue
		case !ok && a.at.Before(e.books.at):
			report(ruleStored, a.event, "it was sent to %s and is not stored", a.subscription)
		case ok && row.environment != a.environment:
			report(ruleIsolation, a.event, "an event of %s reached %s", row.environment, a.environment)
		case a.marker != "" && e.events[a.marker] != "" && e.events[a.marker] != a.event:
			report(ruleRequest, a.event, "it was sent with the content of message %s", a.marker)
		}
		success, done := e.recorded[a.generationKey]
		if late := a.at.Sub(success); done && late > latency {
			thaw := slices.IndexFunc(e.thawed, func(t time.Time) bool { return a.at.After(t) && a.at.Sub(t) < afterThaw })
			x := excuse{a.subscription, thaw}
			if excused[x]++; thaw >= 0 && excused[x] <= inFlight {
				e.late++
			} else {
				report(ruleAfter, a.event, "attempt %d to %s arrived %s after the success was recorded", a.number,
					a.subscription, late)
			}
		}
	}
}

// checkCounters compares each event's counters with its rows, and its status with the table of docs/arch/states.md.
func (e *evidence) checkCounters(report reporter) {
	sums := map[string]counts{}
	for k, d := range e.books.deliveries {
		c := sums[k.event]
		switch d.status {
		case "sending":
			c.sending++
		case "pending":
			c.pending++
		case "retry_wait":
			c.retryWait++
		case "held":
			c.held++
		case "dead":
			c.dead++
		case "succeeded":
			c.succeeded++
		case "cancelled":
			c.cancelled++
		}
		c.attempts += d.attempts
		sums[k.event] = c
	}
	for uuid, row := range e.books.events {
		want, got := sums[uuid], row.counts
		// Which held deliveries have failed before, and which open ones were attempted, depends on their histories.
		want.heldFailed, want.held, want.tried = got.heldFailed, want.held-got.heldFailed, got.tried
		if e.quiet {
			want.tried = want.succeeded + want.dead
		}
		if e.books.fanouts[uuid] {
			want.pending, want.held = got.pending, got.held // it counts what is still to be stored
		}
		if got != want {
			report(ruleCounters, uuid, "its counters are %+v, its deliveries %+v", got, want)
		}
		if status := statusOf(got); row.status != status {
			report(ruleCounters, uuid, "its status is %s, by its counters %s", row.status, status)
		}
	}
}

// statusOf is the table of docs/arch/states.md.
func statusOf(c counts) string {
	switch {
	case c.sending == 0 && c.tried == 0:
		return "received"
	case c.sending > 0 || c.pending > 0:
		return "forwarding"
	case c.retryWait > 0 || c.heldFailed > 0:
		return "failed"
	case c.dead > 0:
		return "dead_letter"
	case c.succeeded > 0:
		return "forwarded"
	default:
		return "failed"
	}
}
