package eventstream

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// plan is one course of events: who writes what and how, which connections break when, and what happens to the nodes.
type plan struct {
	// writers hold, for each transaction of a writer, how many events it stores; each gets one attempt in the next.
	writers [][]int
	// breaks hold, for each reader, after how many bytes its connections break, one after the other. The last one holds.
	breaks [][]int
	// filtered readers want one provider only.
	filtered []bool
	// restarts are after how many transactions a node is replaced.
	restarts []int
}

func drawPlan(t *rapid.T) plan {
	p := plan{
		writers: rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(1, 4), 1, 12), 1, 4).Draw(t, "writers"),
		breaks: rapid.SliceOfN(rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 400), rapid.IntRange(0, 6000)), 0, 5), 1, 4).
			Draw(t, "breaks"),
		restarts: rapid.SliceOfN(rapid.IntRange(0, 20), 0, 2).Draw(t, "restarts"),
	}
	for range p.breaks {
		p.filtered = append(p.filtered, rapid.Bool().Draw(t, "filtered"))
	}
	return p
}

// course is a plan in progress.
type course struct {
	*world
	plan
	t    *rapid.T
	env  id.Environment
	done atomic.Int64
	// expected are the events and attempts by provider.
	mu       sync.Mutex
	expected map[string][]string
	last     map[string]int64

	nodes [2]atomic.Pointer[node]
	ctx   context.Context //nolint:containedctx // the life of the course
	fault atomic.Pointer[error]
}

func (c *course) note(err error) bool {
	if err != nil {
		c.fault.CompareAndSwap(nil, &err)
	}
	return err != nil
}

// write is one writer: events in one transaction, their attempts in the next.
func (c *course) write(number int, sizes []int) {
	for n, size := range sizes {
		provider := []string{"github", "stripe"}[(number+n)%2]
		found := make([]events.NewEvent, size)
		for i := range found {
			found[i] = c.event(c.env)
			found[i].Provider = provider
		}
		if c.note(c.run(events.Insert(found)...)) {
			return
		}
		for _, e := range found {
			try, list := c.attempted(c.env, e.UUID)
			if c.note(c.run(list...)) {
				return
			}
			c.mu.Lock()
			c.expected[provider] = append(c.expected[provider], e.UUID, try)
			c.last[e.UUID] = 1
			c.mu.Unlock()
		}
		c.done.Add(1)
	}
}

// follow is one reader, which comes back until it has what it should have.
func (c *course) follow(number int, cl *client, complete func() bool) {
	request := Request{View: access.Whole(c.env)}
	if c.filtered[number] {
		request.Filter.Providers = []string{"github"}
	}
	for i := 0; c.ctx.Err() == nil && !complete(); i++ {
		cl.mu.Lock()
		cl.budget = -1
		if i < len(c.breaks[number]) {
			cl.budget = c.breaks[number][i]
		}
		cl.mu.Unlock()
		if err := cl.read(c.ctx, c.nodes[(number+i)%2].Load(), request); err != nil && !refused(err) && c.ctx.Err() == nil {
			// A node that is stopping refuses; the next one takes it.
			continue
		}
	}
}

// Through every failure, each reader gets each received event and each attempt once, and in the end the state of each
// event: with several writers and two nodes on one database, readers that drop in the middle of a message and come back
// elsewhere, and nodes that are replaced meanwhile.
func TestEachThingOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store, testkit.SwiftClock())
		rapid.Check(t, func(rt *rapid.T) {
			c := &course{world: w, plan: drawPlan(rt), t: rt, env: environment(rt, store.DB), expected: map[string][]string{},
				last: map[string]int64{}}
			c.play()
		})
	})
}

func (c *course) play() {
	ctx, cancel := context.WithTimeout(context.Background(), longest) // rapid's T has no context
	defer cancel()
	c.ctx = ctx
	for i := range c.nodes {
		c.nodes[i].Store(c.start())
	}
	defer func() {
		for i := range c.nodes {
			c.nodes[i].Load().end()
		}
	}()
	var writing, reading sync.WaitGroup
	written := make(chan struct{})
	clients := make([]*client, len(c.breaks))
	for i := range clients {
		clients[i] = newClient()
		// The reader's place is fixed before anything is written, so that it must get everything.
		here, err := c.nodes[0].Load().locate(ctx, c.env, nil)
		require.NoError(c.t, err)
		clients[i].lastID = here.place.text(digestOf(c.env))
		reading.Go(func() {
			c.follow(i, clients[i], func() bool {
				select {
				case <-written:
					return c.missing(i, clients[i]) == ""
				default:
					return false
				}
			})
		})
	}
	for i, sizes := range c.writers {
		writing.Go(func() { c.write(i, sizes) })
	}
	reading.Go(func() { c.restart() })
	writing.Wait()
	close(written)
	// A reader that has everything waits for more: some process must look for it.
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil && c.fault.Load() == nil && c.incomplete(clients) {
		<-again.C
	}
	cancel()
	reading.Wait()
	if err := c.fault.Load(); err != nil {
		require.NoError(c.t, *err)
	}
	for i, cl := range clients {
		require.Empty(c.t, c.missing(i, cl))
		c.check(i, cl)
	}
}

// incomplete reports whether a reader has yet to get something.
func (c *course) incomplete(clients []*client) bool {
	for i, cl := range clients {
		if c.missing(i, cl) != "" {
			return true
		}
	}
	return false
}

// restart replaces nodes as the plan says.
func (c *course) restart() {
	for i, after := range c.restarts {
		total := 0
		for _, sizes := range c.writers {
			total += len(sizes)
		}
		for c.done.Load() < int64(min(after, total)) && c.ctx.Err() == nil && c.fault.Load() == nil {
			again := time.NewTimer(time.Millisecond)
			<-again.C
		}
		old := c.nodes[i%2].Load()
		c.nodes[i%2].Store(c.start())
		old.end()
	}
}

// wanted holds the messages that a reader must get.
func (c *course) wanted(number int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := append([]string(nil), c.expected["github"]...)
	if !c.filtered[number] {
		list = append(list, c.expected["stripe"]...)
	}
	return list
}

// missing says what a reader has yet to get.
func (c *course) missing(number int, cl *client) string {
	got := map[string]bool{}
	for _, d := range cl.of(c.t, EventReceived) {
		got[d.Event] = true
	}
	for _, d := range cl.of(c.t, AttemptCompleted) {
		got[d.Try] = true
	}
	for _, name := range c.wanted(number) {
		if !got[name] {
			return name
		}
	}
	stands := map[string]int64{}
	for _, d := range cl.of(c.t, EventUpdated) {
		stands[d.Event] = d.Attempts
	}
	for event := range got {
		if c.last[event] > 0 && stands[event] != c.last[event] {
			return fmt.Sprintf("how %s stands", event)
		}
	}
	return ""
}

// check requires that the reader got everything once, attempts after their events, and nothing else.
func (c *course) check(number int, cl *client) {
	seen := map[string]int{}
	for _, m := range cl.messages() {
		var d data
		switch m.Event {
		case string(EventReceived):
			require.NoError(c.t, json.Unmarshal(m.Data, &d))
			seen[d.Event]++
		case string(AttemptCompleted):
			require.NoError(c.t, json.Unmarshal(m.Data, &d))
			require.Positive(c.t, seen[d.Event], "a try of an event that the reader has not heard of")
			seen[d.Try]++
		default:
			require.Contains(c.t, []string{string(EventUpdated), StreamClosed}, m.Event)
		}
	}
	for name, n := range seen {
		require.Equal(c.t, 1, n, name)
	}
	require.Len(c.t, seen, len(c.wanted(number)))
}
