package eventstream

import (
	"context"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// feedKey names a feed: the messages of an environment, whether they come with the events' deliveries, which only some
// filters look at, and whether with the connections of subscriptions, which only readers need who may not see all.
type feedKey struct {
	env         id.Environment
	deliveries  bool
	connections bool
}

// feedKeys returns the keys of all feeds of an environment.
func feedKeys(env id.Environment) []feedKey {
	return []feedKey{{env, false, false}, {env, true, false}, {env, false, true}, {env, true, true}}
}

// part is a record, or some of the messages of one that follow each other.
type part struct {
	events.LogRecord
	// skipped is how many messages of the record come before the part.
	skipped int
}

// end is how many messages of the record are left for a reader that has read the part.
func (p *part) end() int { return p.skipped + p.Messages() }

// whole returns records as parts.
func whole(records []events.LogRecord) []part {
	parts := make([]part, len(records))
	for i := range records {
		parts[i].LogRecord = records[i]
	}
	return parts
}

// some returns the messages of a record from one index up to another.
func some(r events.LogRecord, from, to int) part {
	p := part{r, from}
	p.Received, from, to = between(r.Received, from, to)
	p.Attempts, from, to = between(r.Attempts, from, to)
	p.Updated, _, _ = between(r.Updated, from, to)
	return p
}

// between returns what a list has between two indices, and where these are in what follows the list.
func between[T any](list []T, from, to int) (found []T, fromNext, toNext int) {
	n := len(list)
	return list[min(from, n):min(to, n)], max(from-n, 0), max(to-n, 0)
}

// load makes the chunks of parts of one environment's log, in their order. Events are read in their present state. If
// several parts report changes of an event, only the last one gets a message.
func (s *Service) load(ctx context.Context, key feedKey, records []part) ([]*chunk, error) {
	updated := lastUpdates(records)
	var uuids []string
	var tries []events.LogAttempt
	for i := range records {
		r := &records[i]
		uuids = append(uuids, r.Received...)
		for _, a := range r.Attempts {
			uuids = append(uuids, a.EventUUID)
		}
		for _, u := range r.Updated {
			if updated[u] == i {
				uuids = append(uuids, u)
			}
		}
		tries = append(tries, r.Attempts...)
	}
	slices.Sort(uuids)
	uuids = slices.Compact(uuids)
	list, err := s.events.ByUUIDs(ctx, key.env, uuids)
	if err != nil {
		return nil, err
	}
	attempts, err := s.attempts.AttemptsByID(ctx, key.env, tries)
	if err != nil {
		return nil, err
	}
	var byEvent map[string][]deliveries.Delivery
	if key.deliveries {
		if byEvent, err = s.attempts.ByEvents(ctx, access.Whole(key.env), uuids); err != nil {
			return nil, err
		}
	}
	var shown *scopes
	if key.connections {
		if shown, err = s.readScopes(ctx, key.env, list, attempts, byEvent); err != nil {
			return nil, err
		}
	}
	chunks := make([]*chunk, len(records))
	for i := range records {
		r := &records[i]
		c := &chunk{record: events.LogPlace{Position: r.Position, At: r.At, Messages: r.end()}}
		index := r.skipped
		add := func(kind Kind, uuid, attempt string) {
			index++
			e := list[uuid]
			a := attempts[attempt]
			if e == nil || attempt != "" && a == nil {
				return // deleted since
			}
			m := &message{Message: Message{Kind: kind, Event: e, Attempt: a}, place: Place{position: r.Position, index: index,
				at: r.At}, deliveries: byEvent[uuid], scopes: shown}
			c.messages = append(c.messages, m)
			c.size += m.size()
		}
		for _, u := range r.Received {
			add(EventReceived, u, "")
		}
		for _, a := range r.Attempts {
			add(AttemptCompleted, a.EventUUID, a.ID)
		}
		for _, u := range r.Updated {
			if updated[u] == i {
				add(EventUpdated, u, "")
			} else {
				index++
			}
		}
		chunks[i] = c
	}
	return chunks, nil
}

// lastUpdates returns the index of the last part with a change of each event.
func lastUpdates(records []part) map[string]int {
	last := map[string]int{}
	for i := range records {
		for _, u := range records[i].Updated {
			last[u] = i
		}
	}
	return last
}
