package eventstream

import (
	"context"
	"log/slog"
)

// deliver sends the reader what is for it. A reader is asked after each piece whether it lags, with the index of the
// chunk that it is at: otherwise it kept in memory what its feed has dropped.
func (r *Reader) deliver(ctx context.Context, chunks []*chunk, lags func(chunk int) bool) *ending {
	buffer, ok := r.s.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	defer r.s.buffers.Put(buffer)
	piece := (*buffer)[:0]
	sent := map[Kind]int{}
	flush := func(chunk int) *ending {
		if len(piece) == 0 {
			return nil
		}
		if err := r.sink.Write(piece); err != nil {
			e := silent(reasonUnwanted)
			return &e
		}
		for kind, n := range sent {
			r.s.metrics.messages.WithLabelValues(string(kind)).Add(float64(n))
		}
		clear(sent)
		r.spent += len(piece)
		piece = piece[:0]
		if lags(chunk) {
			e := endLagged()
			return &e
		}
		return r.rest(ctx)
	}
	for i, c := range chunks {
		for _, m := range c.messages {
			if !m.place.beyond(r.place) {
				continue
			}
			if r.filter.matches(m) {
				frame, err := m.encode(r.digest, r.s.data, r.filter.hidesFailure(m))
				if err != nil {
					// Without it the reader gets at least what follows.
					r.s.logger.ErrorContext(ctx, "a message of a stream could not be written", slog.String("event_uuid", m.Event.UUID),
						slog.String("error", err.Error()))
					continue
				}
				if len(piece) > 0 && len(piece)+len(frame) > pieceBytes {
					if e := flush(i); e != nil {
						return e
					}
				}
				piece = append(piece, frame...)
				sent[m.Kind]++
			}
			r.place = m.place
		}
		if p := after(c.record); p.beyond(r.place) {
			r.place = p
		}
	}
	e := flush(len(chunks))
	*buffer = piece
	return e
}

// rest waits until the reader may be sent more, where it has been sent a turn's share.
func (r *Reader) rest(ctx context.Context) *ending {
	now := r.s.clock.Now()
	if now.Sub(r.turn) >= tickInterval {
		r.turn, r.spent = now, 0
		return nil
	}
	if r.spent < r.s.turnBytes() {
		return nil
	}
	t := r.s.clock.NewTimer(tickInterval - now.Sub(r.turn))
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	case <-r.s.stopping:
	}
	r.turn, r.spent = r.s.clock.Now(), 0
	return r.over(ctx)
}
