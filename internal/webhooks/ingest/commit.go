package ingest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

const (
	// maxBatch is the maximum number of events that one transaction stores, and maxCost that of its cost, unless one event
	// costs more: a longer transaction would delay all other writers.
	maxBatch = 100
	maxCost  = 500
	// turnCost is what an environment may add to a transaction while others have events.
	turnCost = 100
	// After a transaction of severalEvents, the next one waits for lingerTime, unless it is full: each transaction costs
	// as much as ten events.
	severalEvents = 8
	lingerTime    = 300 * time.Microsecond
	// bytesPerCost is how many bytes of a body take as long to store as a row.
	bytesPerCost = 4 << 10
)

// commitBatch stores a batch and wakes the requests that wait for it. It runs on one goroutine, which creates the event
// ids, so that ids ascend in the order of commits. The goroutine serves all environments, so it matches nothing itself:
// an item whose match is outdated goes back to its request. Environments take turns, so that one whose events are many,
// or have large bodies or many deliveries, delays those of others by little.
func (s *Service) commitBatch(batch []*item) {
	ctx := context.Background() // an accepted event is committed even when its sender has left
	matched := batch[:0:0]
	for _, it := range batch {
		if s.outdated(it) {
			it.again = true
			close(it.done)
			continue
		}
		matched = append(matched, it)
	}
	if len(matched) > 0 {
		s.commitRows(ctx, matched)
	}
}

func (it *item) rows() int { return 2 + len(it.keys) + deliveries.NewRows(len(it.matched)) }

// cost is about how long the event takes to store, in rows.
func (it *item) cost() int { return it.rows() + len(it.payload.Body)/bytesPerCost }

func (s *Service) commitRows(ctx context.Context, batch []*item) {
	start, rows := s.clock.Now(), 0
	for _, it := range batch {
		rows += it.rows()
	}
	err := s.tryCommit(ctx, batch)
	if err != nil && len(batch) > 1 && !db.IsUnavailable(err) {
		// One of them cannot be stored. Each gets its own response.
		for _, it := range batch {
			s.commitRows(ctx, []*item{it})
		}
		return
	}
	s.batching.Observe("ingest", s.clock.Now().Sub(start), rows)
	if err != nil {
		s.log.ErrorContext(ctx, "cannot store events", slog.Int("count", len(batch)),
			slog.String("error", err.Error()), obs.Outage("event_commit"))
	}
	for _, it := range batch {
		if err != nil {
			it.err = unavailable(err)
		}
		close(it.done)
	}
}

// unavailable returns the error of a webhook that could not be stored, for any cause: the provider resends it later.
func unavailable(err error) error {
	return apperr.Unavailable(internal(err))
}

// tryCommit stores a batch in one transaction and hands its deliveries to the workers.
func (s *Service) tryCommit(ctx context.Context, batch []*item) error {
	now := s.clock.Now()
	forwarding := s.deliveries.NewBatch(now)
	for _, it := range batch {
		it.duplicateOf, it.event.Suspect, it.event.DuplicateOf = "", nil, nil
		it.event.UUID = id.NewUUID()
		if it.event.IdempotencySource == events.SourceEvent {
			it.event.IdempotencyKey = it.event.UUID
		}
		it.plan = forwarding.Add(&it.event.Event, &it.payload, it.matched)
	}
	return forwarding.Commit(ctx, func(tx *sql.Tx) error {
		return s.write(ctx, tx, batch, forwarding, clock.Millis(now))
	})
}

// forwards reports whether the event goes to its subscriptions.
func (it *item) forwards() bool {
	return it.duplicateOf == "" && (it.event.Suspect == nil || !it.refusesSuspects())
}

// write stores the batch. It may run several times for one batch and begins from the start each time.
func (s *Service) write(ctx context.Context, tx *sql.Tx, batch []*item, forwarding *deliveries.Batch,
	nowMillis int64) error {
	for _, it := range batch {
		it.claims, it.usedBy = it.keys, ""
		if it.check == nil {
			continue
		}
		if err := it.check(ctx, tx); err != nil {
			return err
		}
	}
	if err := s.claimSingleUses(ctx, tx, batch, nowMillis); err != nil {
		return err
	}
	if err := s.claimKeys(ctx, tx, batch, nowMillis); err != nil {
		return err
	}
	again, err := s.releaseDuplicates(ctx, tx, batch)
	if err != nil {
		return err
	}
	if again {
		if err := s.claimKeys(ctx, tx, batch, nowMillis); err != nil {
			return err
		}
	}
	if err := s.handSingleUsesOver(ctx, tx, batch); err != nil {
		return err
	}
	if err := s.markNewBodies(ctx, tx, batch); err != nil {
		return err
	}
	found := make([]events.NewEvent, 0, len(batch))
	plans := make([]*deliveries.Plan, 0, len(batch))
	for _, it := range batch {
		e := &it.event
		e.Counters, e.Payload = events.Counters{}, nil
		if it.duplicateOf == "" {
			e.Payload = &it.payload
		}
		if it.forwards() {
			e.Counters = it.plan.Counters()
			plans = append(plans, it.plan)
		}
		found = append(found, *e)
	}
	if _, err := s.db.ExecLast(ctx, tx, append(events.Insert(found), forwarding.Insert(plans)...)...); err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	return nil
}

// releaseDuplicates releases the body keys that duplicates have claimed in addition to the id that they duplicate: a
// duplicate is never forwarded, so its body must not cast suspicion on the event that is. It reports whether there were
// any; then the keys of the others must be claimed again.
func (s *Service) releaseDuplicates(ctx context.Context, tx *sql.Tx, batch []*item) (bool, error) {
	again := false
	for _, it := range batch {
		if it.duplicateOf == "" {
			continue
		}
		var decisive []claimedKey
		for _, k := range it.claims {
			if k.decides {
				decisive = append(decisive, k)
				continue
			}
			again = true
			err := s.keys.Release(ctx, tx, events.Key{ConnectionUUID: it.event.KeyScope(), Hash: []byte(k.hash),
				EventUUID: it.event.UUID})
			if err != nil {
				return false, err
			}
		}
		it.claims = decisive
	}
	return again, nil
}

// markNewBodies marks the duplicates by an id whose body is not that of their original: a sender that uses an id twice
// would otherwise lose an event without a trace.
func (s *Service) markNewBodies(ctx context.Context, tx *sql.Tx, batch []*item) error {
	var copies []events.Copy
	var of []*item
	for _, it := range batch {
		if it.duplicateOf == "" || it.bodyKey != "" {
			continue
		}
		if original := find(batch, it.duplicateOf); original != nil {
			if !bytes.Equal(it.payload.Body, original.payload.Body) {
				it.event.Suspect = new(events.SuspectNewBody)
			}
			continue
		}
		copies = append(copies, events.Copy{Environment: it.event.Environment, Of: it.duplicateOf, Size: it.event.BodySize,
			Body: it.payload.Body})
		of = append(of, it)
	}
	differing, err := s.keys.FindDiffering(ctx, tx, copies)
	for _, i := range differing {
		of[i].event.Suspect = new(events.SuspectNewBody)
	}
	return err
}

// find returns the item of the batch whose event has the uuid; nil if none has.
func find(batch []*item, uuid string) *item {
	for _, it := range batch {
		if it.event.UUID == uuid {
			return it
		}
	}
	return nil
}

// keyName names a key within a batch.
type keyName struct{ connection, hash string }

// claimKeys claims the keys of the batch, of which the first event of a key gets it, and marks the events that came too
// late.
func (s *Service) claimKeys(ctx context.Context, tx *sql.Tx, batch []*item, nowMillis int64) error {
	first := make(map[keyName]string, len(batch))
	var keys []*events.Key
	for _, it := range batch {
		for _, k := range it.claims {
			name := keyName{it.event.KeyScope(), k.hash}
			if _, ok := first[name]; ok {
				continue
			}
			first[name] = it.event.UUID
			keys = append(keys, &events.Key{ConnectionUUID: name.connection, Hash: []byte(k.hash), EventUUID: it.event.UUID,
				ExpiresMillis: k.expires})
		}
	}
	holders, err := s.keys.Claim(ctx, tx, keys, nowMillis)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if holders[i] != "" {
			first[keyName{k.ConnectionUUID, string(k.Hash)}] = holders[i]
		}
	}
	for _, it := range batch {
		it.classify(func(hash string) string { return first[keyName{it.event.KeyScope(), hash}] })
	}
	return nil
}

// classify decides from the holders of its keys whether the event is new, a duplicate or a suspect.
func (it *item) classify(holder func(hash string) string) {
	it.duplicateOf, it.event.DuplicateOf, it.event.Suspect = it.usedBy, nil, nil
	window := it.event.UUID
	if it.usedBy != "" {
		window, it.event.DuplicateOf = it.usedBy, &it.duplicateOf
	}
	for _, k := range it.claims {
		h := holder(k.hash)
		switch {
		case h == it.event.UUID:
		case k.decides:
			it.duplicateOf, window = h, h
			it.event.DuplicateOf = &it.duplicateOf
		case it.duplicateOf == "":
			it.event.Suspect = new(events.SuspectSameBody)
		}
	}
	if it.bodyKey != "" {
		it.event.IdempotencyKey = events.BodyKey(it.bodyKey, window)
	}
}

func (it *item) refusesSuspects() bool {
	return it.in != nil && it.in.Connection.Webhook.SameBodyNewID == connections.SameBodyRefuse
}
