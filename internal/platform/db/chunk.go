package db

import (
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// chunkTime is how long the statements of one transaction should take on SQLite, which has one writer: a longer
// transaction delays all others noticeably. Commits, which cost about the same for many rows as for few, come on top.
const chunkTime = 10 * time.Millisecond

// Chunk is how many rows a transaction should change, of work that takes many transactions. On SQLite it follows the
// time that the statements of the last transactions took. On PostgreSQL others write meanwhile, and the number is
// fixed. It is safe for concurrent use.
type Chunk struct {
	fixed       bool
	least, most int
	clk         clock.Clock

	mu    sync.Mutex
	limit int
}

// NewChunk returns a Chunk that begins with most.
func (d *DB) NewChunk(least, most int) *Chunk {
	return &Chunk{fixed: d.engine != SQLite, least: least, most: most, limit: most, clk: d.clk}
}

// Limit returns how many rows the next transaction should change at most.
func (c *Chunk) Limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}

// Measure runs the statements of a transaction that changes so many rows.
func (c *Chunk) Measure(rows int, statements func() error) error {
	began := c.clk.Now()
	err := statements()
	if err == nil {
		c.Observe(rows, c.clk.Now().Sub(began))
	}
	return err
}

// Observe records that the statements of a transaction took so long for that many rows.
func (c *Chunk) Observe(rows int, took time.Duration) {
	if c.fixed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case took > chunkTime*3/2:
		c.limit = min(c.limit, max(c.least, int(int64(rows)*int64(chunkTime)/int64(took))))
	case took < chunkTime && rows >= c.limit:
		c.limit = min(c.most, c.limit+max(1, c.limit/4))
	}
}
