package deliveries

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

const (
	// maxHandedBody is the size of the largest body that stays in memory until its first attempt, in bytes.
	maxHandedBody = 32 << 10
	// maxHandedBodies limits the bodies of all deliveries that wait in memory, in bytes. A body that several of them share
	// counts for each.
	maxHandedBodies = 32 << 20
	// freshFor is how long what was read of an event is assumed to exist in the database.
	freshFor = time.Second
	// comparedFor is how long a comparison with the database counts. The next follows after a second and the time that it
	// takes, so there is no moment between two of them in which everything would be read again.
	comparedFor = 2 * time.Second
	// maxFresh is how long it is assumed to if no payload was expunged meanwhile. Payloads also expire.
	maxFresh = time.Minute
)

// expunged is the collection whose version every expunged payload raises.
const expunged = "expunged_payloads"

// content is what a job sends.
type content struct {
	// event and payload are set if they were at hand; a worker reads missing ones.
	event   *events.Event
	payload *events.Payload
	// since is when event and payload were known to be in the database, or were about to be stored there, and epoch which
	// payloads were known to be expunged before.
	since time.Time
	epoch epoch
}

// epoch counts expunged payloads. The counters are apart because the same payload counts in both, at different times:
// one counter would make up for a payload that another node expunges with one that this node has.
type epoch struct {
	// own counts the expungings of this process, also those that failed or changed nothing, db those of any process that
	// the database has counted, as of the last comparison.
	own, db int64
}

// epochs knows the epoch.
type epochs struct {
	mu    sync.Mutex
	epoch epoch
	// at is when the epoch was last compared with the database.
	at time.Time
}

// now returns the epoch.
func (e *epochs) now() epoch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}

// advance records that this process has expunged a payload, or may have: it costs others no more than to be read again.
func (e *epochs) advance() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch.own++
}

// compare records how many expunged payloads the database had counted at the time given.
func (e *epochs) compare(counted int64, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch.db, e.at = counted, at
}

// forget makes the last comparison count no longer.
func (e *epochs) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at = time.Time{}
}

// isFresh reports whether the content can be sent without reading it again: it was read within freshFor, or nothing was
// expunged between then and comparedFor ago.
func (e *epochs) isFresh(c *content, now time.Time) bool {
	age := now.Sub(c.since)
	if age < 0 { // the clock was set back
		return false
	}
	if age <= freshFor {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return age <= maxFresh && c.epoch == e.epoch && now.Sub(e.at) <= comparedFor
}

// refreshExpunged learns of payloads that other processes have expunged.
func (s *Service) refreshExpunged(ctx context.Context) error {
	at := s.clock.Now()
	s.kept.drop(at)
	versions, err := s.db.Versions(ctx)
	if err == nil {
		s.epochs.compare(versions[expunged], at)
	}
	return err
}

// contents returns the events of deliveries and their payloads, by event, from memory or the database. Large payloads,
// those that are gone and those of unknown events are not there.
func (s *Service) contents(ctx context.Context, list []claimed) (map[string]content, error) {
	out := make(map[string]content, len(list))
	now := s.clock.Now()
	missing := make([]claimed, 0, len(list))
	for _, d := range list {
		c, ok := s.kept.take(d.EventUUID)
		if ok && s.epochs.isFresh(&c, now) {
			out[d.EventUUID] = c
		} else if out[d.EventUUID].event == nil {
			missing = append(missing, d)
		}
	}
	read, err := s.readContents(ctx, missing)
	maps.Copy(out, read)
	return out, err
}

// readContents reads the events of deliveries and their payloads, as contents returns them.
func (s *Service) readContents(ctx context.Context, list []claimed) (map[string]content, error) {
	found := content{since: s.clock.Now(), epoch: s.epochs.now()}
	byEnvironment := map[id.Environment][]string{}
	out := make(map[string]content, len(list))
	for i := range list {
		d := &list[i]
		if _, seen := out[d.EventUUID]; !seen {
			out[d.EventUUID] = found
			byEnvironment[d.Environment] = append(byEnvironment[d.Environment], d.EventUUID)
		}
	}
	for env, uuids := range byEnvironment {
		known, err := s.events.ByUUIDs(ctx, env, uuids)
		if err != nil {
			return nil, fmt.Errorf("read the events of deliveries: %w", err)
		}
		small := make([]events.Event, 0, len(known))
		for _, e := range known {
			if e.BodySize <= maxHandedBody {
				small = append(small, *e)
			}
		}
		payloads, err := s.events.Payloads(ctx, env, small)
		if err != nil {
			return nil, fmt.Errorf("read the payloads of deliveries: %w", err)
		}
		for uuid, e := range known {
			c := found
			c.event = e
			if p, ok := payloads[uuid]; ok {
				c.payload = &p
			}
			out[uuid] = c
		}
	}
	return out, nil
}
