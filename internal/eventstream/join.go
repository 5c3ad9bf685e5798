package eventstream

import (
	"context"
	"errors"
)

// nearby is how many messages a feed may begin behind the newest, so that readers who come back together, as after a
// restart, are fed together.
const nearby = 1000

// join puts the reader on the feed of its environment, which it makes where there is none. Without a feed, the reader is
// farther behind and must first catch up to the position returned.
func (s *Service) join(r *Reader, here *start) (f *feed, target int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.gone {
		return nil, here.head // and ctx has ended
	}
	f = s.feeds[r.key]
	if f == nil {
		switch {
		case len(s.feeds) > 0 && here.need < s.head:
			return nil, s.head
		case len(s.feeds) == 0 && here.missing > nearby:
			return nil, here.head
		case len(s.feeds) == 0:
			s.head = here.need
		}
		f = newFeed(r.key, here.need, here.place.position, s.clock.Now())
	}
	next, ok := f.indexAfter(here.need)
	if !ok {
		return nil, f.start()
	}
	if s.feeds[r.key] == nil {
		s.feeds[r.key] = f
		s.wake.Signal()
	}
	f.readers++
	r.feed, r.next = f, next
	return f, 0
}

// pageRecords bounds what a reader catches up with at a time.
const pageRecords = 8

// errCut says that the log has been cut in front of the reader.
var errCut = errors.New("the log no longer has what the reader needs")

// catchUp sends the reader a page of what lies between it and a position.
func (r *Reader) catchUp(ctx context.Context, here *start, target int64) *ending {
	select {
	case r.s.pages <- struct{}{}:
	case <-ctx.Done():
		return r.over(ctx)
	}
	chunks, err := r.page(ctx, here.need, target)
	<-r.s.pages
	if errors.Is(err, errCut) {
		e := endLagged()
		return &e
	}
	if err != nil {
		return r.failed(ctx, err)
	}
	for _, c := range chunks {
		here.need = c.record.Position
	}
	if len(chunks) < pageRecords {
		here.need = max(here.need, target)
	}
	if here.need >= here.head {
		here.missing = 0
	}
	return r.deliver(ctx, chunks)
}

// page loads the next records of the reader's environment after one position up to another, or returns errCut.
func (r *Reader) page(ctx context.Context, need, target int64) ([]*chunk, error) {
	records, err := r.s.events.EnvironmentLog(ctx, r.key.env, need, target, pageRecords)
	if err != nil {
		return nil, err
	}
	// The log is cut from its beginning: as long as the reader's record is there, so is all after it.
	if r.place.position > 0 {
		kept, err := r.s.events.LogKept(ctx, []int64{r.place.position})
		if err != nil {
			return nil, err
		}
		if !kept[r.place.position] {
			return nil, errCut
		}
	}
	return r.s.load(ctx, r.key, records)
}
