package eventstream

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/sse"
)

const (
	// heartbeatInterval is how often a reader hears from the server at least.
	heartbeatInterval = 15 * time.Second
	// maxLife is how long a stream lasts, and lifeJitter by which share of it more or less, so that readers who came
	// together do not come back together.
	maxLife    = 30 * time.Minute
	lifeJitter = 0.1
	// pieceBytes is how much is written at a time.
	pieceBytes = 32 << 10
	// nodeTurnBytes is how much all readers of the node together may be sent in one tickInterval: about 60 MB a second.
	// Readers have equal shares, within the minimum and maximum of one reader. It keeps readers from taking the processor
	// and the network from the events; a reader that cannot keep up with that share is ended as lagged.
	nodeTurnBytes                 = 3 << 20
	leastTurnBytes, mostTurnBytes = 16 << 10, 512 << 10
)

// turnBytes is how much one reader may be sent in one tickInterval.
func (s *Service) turnBytes() int {
	return min(max(nodeTurnBytes/max(1, int(s.open.Load())), leastTurnBytes), mostTurnBytes)
}

// Sink receives whole blocks of a stream. An error ends the reader.
type Sink interface {
	Write(blocks []byte) error
}

// Reader is one reader of a stream.
type Reader struct {
	s      *Service
	key    feedKey
	digest digest
	filter filter
	from   *Place
	// ended holds why the stream must end, once there is a reason.
	ended chan ending

	// feed, which the reader is counted on, and gone belong to the service's lock; gone says that the reader's place has
	// been given back.
	feed *feed
	gone bool

	// Only Serve uses the following fields.
	sink  Sink
	place Place
	next  int64
	life  <-chan time.Time
	// turn is when the present turn began, spent what has been written in it.
	turn  time.Time
	spent int
}

// end ends the stream, unless it is ending already.
func (r *Reader) end(e ending) {
	select {
	case r.ended <- e:
	default:
	}
}

// Serve sends the stream to sink until ctx ends, the sink fails, or there is a reason to end it, which it sends last.
func (r *Reader) Serve(ctx context.Context, sink Sink) {
	r.sink = sink
	life := r.s.clock.NewTimer(time.Duration(float64(maxLife) * (1 - lifeJitter + 2*lifeJitter*random())))
	defer life.Stop()
	r.life = life.C()
	e := r.serve(ctx)
	if e.event != "" {
		b, err := control(e.event, r.place.text(r.digest), e.Closing)
		if err == nil {
			_ = sink.Write(b) // a reader who does not take it learns from the end of the stream
		}
	}
	r.s.metrics.closed.WithLabelValues(string(e.Reason)).Inc()
}

func (r *Reader) serve(ctx context.Context) ending {
	f, e := r.begin(ctx)
	if e != nil {
		return *e
	}
	beat := r.s.clock.NewTimer(heartbeatInterval)
	defer func() { beat.Stop() }()
	for {
		got := f.read(r.next)
		if got.lagged {
			return endLagged()
		}
		changed := got.changed
		if len(got.chunks) > 0 {
			changed = nil
			first := r.next
			if e := r.deliver(ctx, got.chunks, func(i int) bool { return f.dropped(first + int64(i)) }); e != nil {
				return *e
			}
			r.next += int64(len(got.chunks))
		} else if p := after(got.last); p.beyond(r.place) {
			r.place = p
		}
		beaten, e := r.wait(ctx, changed, beat.C())
		if e != nil {
			return *e
		}
		if beaten {
			if e := r.beat(); e != nil {
				return *e
			}
			beat = r.s.clock.NewTimer(heartbeatInterval)
		}
	}
}

// beat sends a heartbeat with the reader's place.
func (r *Reader) beat() *ending {
	if r.place.position == 0 {
		r.place.at = r.s.clock.Now()
	}
	return r.write(sse.AppendComment(nil, "heartbeat"), r.here())
}

// here returns a block without a message that moves the client to the reader's place, so that it comes back from there
// although it got no message.
func (r *Reader) here() []byte {
	b, err := sse.Message{ID: r.place.text(r.digest)}.Append(nil)
	if err != nil {
		return []byte("\n") // a place's text has no line breaks
	}
	return b
}

// write sends blocks that are no messages about events.
func (r *Reader) write(blocks ...[]byte) *ending {
	var all []byte
	for _, b := range blocks {
		all = append(all, b...)
	}
	if err := r.sink.Write(all); err != nil {
		e := silent(reasonUnwanted)
		return &e
	}
	return nil
}

// wait returns when changed is closed, immediately where it is nil. beaten says that it is time for a heartbeat.
func (r *Reader) wait(ctx context.Context, changed <-chan struct{}, beat <-chan time.Time) (beaten bool, e *ending) {
	// The reason to end the stream comes before further messages.
	if e := r.over(ctx); e != nil {
		return false, e
	}
	select {
	case <-beat:
		return true, nil
	default:
	}
	if changed == nil {
		return false, nil
	}
	select {
	case <-changed:
		return false, nil
	case <-beat:
		return true, nil
	case <-r.life:
		end := endTimeLimit()
		return false, &end
	case end := <-r.ended:
		return false, &end
	case <-ctx.Done():
	case <-r.s.stopping:
	}
	return false, r.over(ctx)
}

// over returns why the stream must end; nil where it need not.
func (r *Reader) over(ctx context.Context) *ending {
	var e ending
	select {
	case <-ctx.Done():
		e = silent(reasonLeft)
	case <-r.s.stopping:
		e = endStopping()
	case <-r.life:
		e = endTimeLimit()
	case e = <-r.ended:
	default:
		return nil
	}
	return &e
}

// begin finds where the reader begins, says so, and takes it up to a feed.
func (r *Reader) begin(ctx context.Context) (*feed, *ending) {
	here, err := r.s.locate(ctx, r.key.env, r.from)
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	r.place = here.place
	first := r.here()
	if here.gap != nil {
		if first, err = control(StreamGap, r.place.text(r.digest), here.gap); err != nil {
			return nil, r.failed(ctx, err)
		}
	}
	if e := r.write(first); e != nil {
		return nil, e
	}
	for {
		f, target := r.s.join(r, &here)
		if f != nil {
			return f, nil
		}
		if e := r.over(ctx); e != nil {
			return nil, e
		}
		if e := r.catchUp(ctx, &here, target); e != nil {
			return nil, e
		}
	}
}

// failed ends a stream after an error of the store.
func (r *Reader) failed(ctx context.Context, err error) *ending {
	e := silent(reasonLeft)
	if ctx.Err() == nil {
		r.s.logger.ErrorContext(ctx, "a stream could not go on", slog.String("error", err.Error()),
			obs.Outage("stream"))
		e = endInternal()
	}
	return &e
}
