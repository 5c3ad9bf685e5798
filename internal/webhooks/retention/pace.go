package retention

import (
	"context"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// A chunk's transaction ends before it delays others noticeably.
const (
	longChunk  = 15 * time.Millisecond
	shortChunk = 5 * time.Millisecond

	firstLimit = 100
	leastLimit = 20
	mostLimit  = 400
)

// Shares of the time in which the worker works, of what the others leave it.
const (
	leastShare = 0.04
	mostShare  = 0.5
	longRest   = time.Second
)

// pace keeps chunks short, and rests between them: the busier others keep the writer, the longer. It uses real time,
// also in tests with a manual clock, because it only decides how fast the work is done.
type pace struct {
	db  *db.DB
	clk clock.Clock
	// rest waits for d or until ctx ends.
	rest func(ctx context.Context, d time.Duration)
	// at and held are when it was last looked at how long write transactions had been open, and how long that was.
	at   time.Time
	held time.Duration
	// busy is the share of the time in which others wrote, of late; 1 is all of it.
	busy float64
	// first is the limit of a task's first chunk, in rows.
	first int
}

func newPace(d *db.DB, clk clock.Clock) pace {
	p := pace{db: d, clk: clk, at: clk.Now(), held: d.Held(), busy: 1, first: firstLimit}
	p.rest = func(ctx context.Context, d time.Duration) {
		t := clk.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C():
		case <-ctx.Done():
		}
	}
	return p
}

// chunk does one chunk of the task and then rests.
func (p *pace) chunk(ctx context.Context, t *task) (more bool, err error) {
	if t.limit == 0 {
		t.limit = p.first
	}
	var own time.Duration
	began, held := p.clk.Now(), p.db.Held()
	more, err = t.do(db.WithHeld(ctx, &own), t.limit)
	now, total := p.clk.Now(), p.db.Held()
	t.limit = adapt(t.limit, own)
	// Other writers' work counts as waiting time of the chunk.
	worked := max(own, now.Sub(began)-(total-held-own))
	p.observe(now, total-own)
	p.held = total
	if more && err == nil {
		p.rest(ctx, rest(worked, p.busy))
	}
	return more, err
}

// adapt returns the limit after a chunk whose transactions were open for so long.
func adapt(limit int, own time.Duration) int {
	switch {
	case own > longChunk:
		return max(leastLimit, limit/2)
	case own < shortChunk:
		return min(mostLimit, limit+limit/4)
	default:
		return limit
	}
}

// observe records for how long the transactions of others have been open in total.
func (p *pace) observe(now time.Time, held time.Duration) {
	elapsed := now.Sub(p.at)
	if elapsed <= 0 {
		return
	}
	share := min(1, max(0, float64(held-p.held)/float64(elapsed)))
	const weight = 0.3
	p.busy += weight * (share - p.busy)
	p.at = now
}

// rest is how long to rest after so much work: the worker has half of the time that the others leave, and a little of
// it however busy they are.
func rest(worked time.Duration, busy float64) time.Duration {
	share := min(mostShare, max(leastShare, (1-busy)*mostShare))
	return min(longRest, time.Duration(float64(worked)*(1/share-1)))
}
