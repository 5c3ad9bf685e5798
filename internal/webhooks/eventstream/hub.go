package eventstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/events"
)

// Pace of the hub.
const (
	// tickInterval is how often the log is read while there are readers: messages wait for each other that long.
	tickInterval = 50 * time.Millisecond
	// tickRate is how many messages the hub reads in a second at most, which costs about a quarter of one processor.
	// Beyond it the streams fall behind, and not the events.
	tickRate = 12_000
	// tickIdle is how long the hub sleeps without readers; the first one wakes it.
	tickIdle = time.Hour
	// tickRecords and tickMessages bound what one round reads.
	tickRecords  = 256
	tickMessages = 2000
	tickTimeout  = 5 * time.Second
	// patience is how long the hub reads at its limit before it ends the feeds that cause it.
	patience = 10 * time.Second
)

// tick reads what is new in the log, once for all readers of the node.
func (s *Service) tick(ctx context.Context) time.Duration {
	start := s.clock.Now()
	round, err := s.advance(ctx)
	now := s.clock.Now()
	if err != nil && ctx.Err() == nil {
		s.logger.ErrorContext(ctx, "the log of events could not be read for the streams", slog.String("error", err.Error()),
			obs.Outage("stream"))
	}
	s.mu.Lock()
	idle := len(s.feeds) == 0
	s.mu.Unlock()
	if idle {
		s.flood = flood{}
		return tickIdle
	}
	if env, ok := s.flood.after(round, now); ok {
		s.logger.WarnContext(ctx, "ended the streams of an environment with more messages than one node reads",
			slog.String("environment_id", string(env)))
		s.breakOff(env)
	}
	return max(tickInterval, time.Duration(round.messages)*time.Second/tickRate) - now.Sub(start)
}

// flood finds environments with more messages than the hub reads, which would delay the messages of all others.
type flood struct {
	since time.Time
	// messages counts what the hub has read since then.
	messages map[id.Environment]int
}

// after records a round. If rounds have been full for as long as patience, it returns the environment that filled them.
func (f *flood) after(r round, now time.Time) (id.Environment, bool) {
	if !r.more || r.messages < tickMessages/2 {
		*f = flood{}
		return "", false
	}
	if f.messages == nil {
		*f = flood{since: now, messages: map[id.Environment]int{}}
	}
	var largest id.Environment
	for env, n := range r.byEnvironment {
		f.messages[env] += n
	}
	for env, n := range f.messages {
		if largest == "" || n > f.messages[largest] {
			largest = env
		}
	}
	if now.Sub(f.since) < patience {
		return "", false
	}
	*f = flood{}
	return largest, true
}

// breakOff ends the feeds of an environment. Their readers come back and continue where the log still reaches.
func (s *Service) breakOff(env id.Environment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		if f.key.env == env {
			s.remove(f)
			f.fail()
		}
	}
}

// round is the result of one read by the hub.
type round struct {
	messages      int
	byEnvironment map[id.Environment]int
	// more says that there may be more.
	more bool
}

// advance reads the next records and adds them to the feeds.
func (s *Service) advance(ctx context.Context) (r round, err error) {
	s.mu.Lock()
	head, idle := s.head, len(s.feeds) == 0
	s.mu.Unlock()
	if idle {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	if err := s.log.Sequence(ctx); err != nil {
		return r, err
	}
	records, err := s.log.After(ctx, head, tickRecords)
	if err != nil || len(records) == 0 {
		return r, err
	}
	r.more, r.byEnvironment = len(records) == tickRecords, map[id.Environment]int{}
	byEnvironment := map[id.Environment][]events.LogRecord{}
	for i := range records {
		record := &records[i]
		if env := record.Environment; s.fed(env) {
			n := record.Messages()
			if r.messages > 0 && r.messages+n > tickMessages {
				records, r.more = records[:i], true
				break
			}
			r.messages += n
			r.byEnvironment[env] += n
		}
		byEnvironment[record.Environment] = append(byEnvironment[record.Environment], *record)
	}
	loaded := map[feedKey][]*chunk{}
	for {
		missing := s.offer(head, records[len(records)-1].Position, loaded)
		if len(missing) == 0 {
			return r, nil
		}
		if err := s.loadFeeds(ctx, missing, byEnvironment, loaded); err != nil {
			return r, err
		}
	}
}

// fed reports whether the environment has readers.
func (s *Service) fed(env id.Environment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(feedKeys(env), func(key feedKey) bool { return s.feeds[key] != nil })
}

// offer adds the loaded records to all feeds together and moves the head forward. Where a feed needs more loaded first,
// it returns that feed and does nothing else. A feed that is created meanwhile begins at the old head.
func (s *Service) offer(head, next int64, loaded map[feedKey][]*chunk) (missing []*feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.head != head {
		return nil // all readers left, and another has begun elsewhere
	}
	for key, f := range s.feeds {
		if _, ok := loaded[key]; !ok {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	now := s.clock.Now()
	for key, f := range s.feeds {
		chunks := loaded[key]
		s.bytes += f.add(chunks, now)
		for _, c := range chunks {
			if c.record.At.Before(f.made) {
				continue // it waited for its reader to come back
			}
			s.metrics.delay.Observe(max(0, now.Sub(c.record.At).Seconds()))
		}
	}
	s.head = next
	for s.bytes > nodeBytes {
		largest := slices.MaxFunc(slices.Collect(maps.Values(s.feeds)), func(a, b *feed) int { return a.size() - b.size() })
		n := largest.shed()
		if n == 0 {
			break
		}
		s.bytes -= n
	}
	return nil
}

// loadFeeds loads the records for feeds, and ends those whose record before them is gone: the log has been cut under
// them.
func (s *Service) loadFeeds(ctx context.Context, feeds []*feed, records map[id.Environment][]events.LogRecord,
	loaded map[feedKey][]*chunk) error {
	var guards []int64
	var guarded []*feed
	for _, f := range feeds {
		list := f.unread(records[f.key.env])
		if len(list) == 0 {
			loaded[f.key] = nil
			continue
		}
		chunks, err := s.load(ctx, f.key, whole(list))
		if err != nil {
			return err
		}
		loaded[f.key] = chunks
		if guard := f.guarded(); guard > 0 {
			guards, guarded = append(guards, guard), append(guarded, f)
		}
	}
	if len(guards) == 0 {
		return nil
	}
	kept, err := s.log.Kept(ctx, guards)
	if err != nil {
		return err
	}
	for i, f := range guarded {
		if !kept[guards[i]] {
			s.mu.Lock()
			s.remove(f)
			s.mu.Unlock()
			f.fail()
		}
	}
	return nil
}

// remove takes a feed out of service. The caller holds the lock.
func (s *Service) remove(f *feed) {
	if s.feeds[f.key] == f {
		delete(s.feeds, f.key)
		s.bytes -= f.size()
	}
}
