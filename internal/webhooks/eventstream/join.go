package eventstream

import (
	"context"
	"errors"

	"sallyport/internal/webhooks/events"
)

// nearby is how many messages a feed may begin behind the newest, so that readers who come back together, as after a
// restart, are fed together.
const nearby = 1000

// join puts the reader on the feed of its environment, which it makes where there is none. Without a feed, the reader
// is farther behind and must first catch up to the position returned.
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

// pageRecords and pageMessages bound what a reader catches up with at a time, and has in memory for as long as it takes
// to read it.
const (
	pageRecords  = 8
	pageMessages = 128
)

// errCut says that the log has been cut in front of the reader.
var errCut = errors.New("the log no longer has what the reader needs")

// catchUp sends the reader a page of the messages between it and a position.
func (r *Reader) catchUp(ctx context.Context, here *start, target int64) *ending {
	select {
	case r.s.pages <- struct{}{}:
	case <-ctx.Done():
		return r.over(ctx)
	}
	chunks, need, err := r.page(ctx, here.need, target)
	<-r.s.pages
	if errors.Is(err, errCut) {
		e := endLagged()
		return &e
	}
	if err != nil {
		return r.failed(ctx, err)
	}
	here.need = need
	if here.need >= here.head {
		here.missing = 0
	}
	return r.deliver(ctx, chunks, func(int) bool { return false })
}

// page loads what comes next in the log of the reader's environment, after one position up to another, or returns
// errCut. next is the position after which the page behind it begins.
func (r *Reader) page(ctx context.Context, need, target int64) (chunks []*chunk, next int64, err error) {
	records, err := r.s.log.AfterIn(ctx, r.key.env, need, target, pageRecords)
	if err != nil {
		return nil, 0, err
	}
	// The log is cut from its beginning: as long as the reader's record is there, so is all after it.
	if r.place.position > 0 {
		kept, err := r.s.log.Kept(ctx, []int64{r.place.position})
		if err != nil {
			return nil, 0, err
		}
		if !kept[r.place.position] {
			return nil, 0, errCut
		}
	}
	parts, next := r.clip(records, target)
	chunks, err = r.s.load(ctx, r.key, parts)
	return chunks, next, err
}

// clip takes from the records what the reader has not read yet, up to pageMessages.
func (r *Reader) clip(records []events.LogRecord, target int64) (parts []part, next int64) {
	room := pageMessages
	for i := range records {
		record, from := records[i], 0
		if record.Position == r.place.position {
			from = r.place.index
		}
		p := some(record, from, from+room)
		parts = append(parts, p)
		room -= p.Messages()
		if p.end() < record.Messages() {
			return parts, record.Position - 1
		}
		next = record.Position
		if room == 0 {
			return parts, next
		}
	}
	if len(records) < pageRecords {
		next = max(next, target)
	}
	return parts, next
}
