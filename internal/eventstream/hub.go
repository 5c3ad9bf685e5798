package eventstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhookevents"
)

// Pace of the hub.
const (
	// tickInterval is how often the log is read while there are readers: messages wait for each other that long.
	tickInterval = 50 * time.Millisecond
	// tickRest is how many times as long as it worked the hub rests at least, up to tickMaxRest: under the highest load it
	// takes a quarter of one processor from the events, and no more. Longer rounds wait for the database.
	tickRest    = 3
	tickMaxRest = time.Second
	// tickIdle is how long the hub sleeps without readers; the first one wakes it.
	tickIdle = time.Hour
	// tickRecords and tickMessages bound what one round reads.
	tickRecords  = 64
	tickMessages = 2000
	tickTimeout  = 5 * time.Second
	// patience is how long the hub may stay behind the log before it gives up what it is behind with.
	patience = 10 * time.Second
)

// tick reads what is new in the log, once for all readers of the node.
func (s *Service) tick(ctx context.Context) time.Duration {
	start := s.clock.Now()
	more, err := s.advance(ctx)
	now := s.clock.Now()
	s.mu.Lock()
	idle := len(s.feeds) == 0
	s.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.ErrorContext(ctx, "the log of events could not be read for the streams", slog.String("error", err.Error()))
	case idle:
		s.behind = time.Time{}
		return tickIdle
	case !more:
		s.behind = time.Time{}
	case s.behind.IsZero():
		s.behind = now
	case now.Sub(s.behind) > patience:
		s.log.WarnContext(ctx, "the streams have fallen behind and are told so")
		s.behind = time.Time{}
		s.breakOff()
	}
	work := now.Sub(start)
	return max(tickInterval-work, min(tickRest*work, tickMaxRest))
}

// breakOff ends all feeds. Their readers come back and go on where the log still leads.
func (s *Service) breakOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		s.remove(f)
		f.fail()
	}
}

// advance reads the next records and adds them to the feeds. It reports whether there may be more.
func (s *Service) advance(ctx context.Context) (more bool, err error) {
	s.mu.Lock()
	head, idle := s.head, len(s.feeds) == 0
	s.mu.Unlock()
	if idle {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	if err := s.events.Sequence(ctx); err != nil {
		return false, err
	}
	records, err := s.events.LogAfter(ctx, head, tickRecords)
	if err != nil || len(records) == 0 {
		return false, err
	}
	more = len(records) == tickRecords
	byEnvironment := map[id.Environment][]webhookevents.LogRecord{}
	for i, messages := 0, 0; i < len(records); i++ {
		r := &records[i]
		if s.fed(r.Environment) {
			if messages += r.Messages(); messages > tickMessages && i > 0 {
				records, more = records[:i], true
				break
			}
		}
		byEnvironment[r.Environment] = append(byEnvironment[r.Environment], *r)
	}
	loaded := map[feedKey][]*chunk{}
	for {
		missing := s.offer(head, records[len(records)-1].Position, loaded)
		if len(missing) == 0 {
			return more, nil
		}
		if err := s.loadFeeds(ctx, missing, byEnvironment, loaded); err != nil {
			return false, err
		}
	}
}

// fed reports whether somebody reads the environment.
func (s *Service) fed(env id.Environment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds[feedKey{env, false}] != nil || s.feeds[feedKey{env, true}] != nil
}

// offer adds what is loaded to all feeds at once and moves the head on; or, where something has yet to be loaded for a
// feed, returns that feed and does nothing else. A feed that is made meanwhile begins at the old head.
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
			s.metrics.StreamDelay.Observe(max(0, now.Sub(c.record.At).Seconds()))
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

// loadFeeds loads the records for feeds, and ends those whose record before them is gone: the log has been cut under them.
func (s *Service) loadFeeds(ctx context.Context, feeds []*feed, records map[id.Environment][]webhookevents.LogRecord, loaded map[feedKey][]*chunk) error {
	var before []int64
	for _, f := range feeds {
		list := records[f.key.env]
		if len(list) == 0 {
			loaded[f.key] = nil
			continue
		}
		chunks, err := s.load(ctx, f.key, list)
		if err != nil {
			return err
		}
		loaded[f.key] = chunks
		before = append(before, f.guarded())
	}
	if len(before) == 0 {
		return nil
	}
	kept, err := s.events.LogKept(ctx, before)
	if err != nil {
		return err
	}
	for _, f := range feeds {
		if guard := f.guarded(); len(records[f.key.env]) > 0 && guard > 0 && !kept[guard] {
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
