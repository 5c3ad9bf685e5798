package eventstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

func chunkOf(position int64, messages, size int, at time.Time) *chunk {
	c := &chunk{record: events.LogPlace{Position: position, At: at, Messages: messages}, size: size}
	for range messages {
		c.messages = append(c.messages, &message{})
	}
	return c
}

// A feed stays within its bounds with any additions, keeps the newest, counts what it holds, and serves a reader either
// all that follows its place or nothing.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f, now := newFeed(feedKey{}, 10, 10, began()), began()
		position, total, next := int64(10), 0, int64(0)
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
			var chunks []*chunk
			for range rapid.IntRange(0, 3).Draw(rt, "chunks") {
				position += rapid.Int64Range(1, 3).Draw(rt, "step")
				chunks = append(chunks, chunkOf(position, rapid.IntRange(0, 6000).Draw(rt, "messages"),
					rapid.IntRange(0, feedBytes).Draw(rt, "bytes"),
					now.Add(-time.Duration(rapid.IntRange(0, 3600).Draw(rt, "age"))*time.Second)))
			}
			if rapid.Bool().Draw(rt, "shed") {
				total -= f.shed()
			}
			before := f.changed
			total += f.add(chunks, now)
			select {
			case <-before:
				require.NotEmpty(rt, chunks)
			default:
				require.Empty(rt, chunks, "readers wait for ever")
			}
			require.Equal(rt, total, f.bytes)
			messages, bytes := 0, 0
			for i, c := range f.chunks {
				messages += len(c.messages)
				bytes += c.size
				require.NotEmpty(rt, c.messages)
				require.Greater(rt, c.record.Position, f.from)
				require.True(rt, i == len(f.chunks)-1 || now.Sub(c.added) <= feedAge)
			}
			require.Equal(rt, messages, f.messages)
			require.Equal(rt, bytes, f.bytes)
			require.True(rt, len(f.chunks) <= 1 || messages <= feedMessages && bytes <= feedBytes)

			from := rapid.Int64Range(5, position).Draw(rt, "from")
			index, ok := f.indexAfter(from)
			require.Equal(rt, from >= f.from, ok)
			if ok {
				for _, c := range f.read(index).chunks {
					require.Greater(rt, c.record.Position, from)
				}
			}
			got := f.read(next)
			require.Equal(rt, next < f.base, got.lagged)
			next = max(next, f.base) + int64(len(got.chunks))
		}
		f.fail()
		require.True(rt, f.read(next).lagged)
		_, ok := f.indexAfter(position)
		require.False(rt, ok)
	})
}

// All feeds together stay within the memory of the node, and the largest gives way.
func TestNodeIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		s := New(Config{Clock: w.clock})
		loaded := map[feedKey][]*chunk{}
		for i := range 12 {
			key := feedKey{env: w.env, deliveries: i%2 == 0}
			key.env += "x"
			for range i / 2 {
				key.env += "x"
			}
			s.feeds[key] = newFeed(key, 0, 0, w.clock.Now())
			for n := range 8 {
				loaded[key] = append(loaded[key], chunkOf(int64(n+1), 1, 1<<20, w.clock.Now()))
			}
		}
		require.Empty(w.t, s.offer(0, 8, loaded))
		require.LessOrEqual(w.t, s.bytes, nodeBytes)
		sum := 0
		for _, f := range s.feeds {
			sum += f.size()
			require.NotEmpty(w.t, f.chunks)
		}
		require.Equal(w.t, s.bytes, sum)
		for _, f := range s.feeds {
			s.remove(f)
		}
		require.Zero(w.t, s.bytes)
	})
}

// An environment that takes all that the hub reads for ten seconds is found, and one that does so for a while is not.
func TestFlood(t *testing.T) {
	t.Parallel()
	full := func(loud, quiet int) round {
		return round{messages: loud + quiet, byEnvironment: map[id.Environment]int{"loud": loud, "quiet": quiet}, more: true}
	}
	var f flood
	now := began()
	rounds := func(n int, r round) (found id.Environment) {
		for range n {
			now = now.Add(time.Second)
			if env, ok := f.after(r, now); ok {
				found = env
			}
		}
		return found
	}
	require.Empty(t, rounds(9, full(1500, 400)))
	require.Empty(t, rounds(1, round{messages: 1900}), "the hub has caught up")
	require.Empty(t, rounds(10, full(400, 1500)))
	require.Equal(t, id.Environment("quiet"), rounds(1, full(1500, 400)), "who took most of the time")
	require.Empty(t, rounds(10, full(1500, 400)), "it begins anew")
	require.Equal(t, id.Environment("loud"), rounds(1, full(1500, 400)))
	require.Empty(t, rounds(100, round{messages: 10, more: true}), "many small records are no flood")
}

// The feeds of an environment that is too loud end, and those of the others go on.
func TestBreakOff(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		loud := w.open(n)
		other := environment(w.t, w.db)
		quiet := w.connect(n, newClient(), Request{View: access.Whole(other)})
		quiet.until("the other stream to begin", quiet.begun)
		n.breakOff(w.env)
		event, closing := loud.over()
		require.Equal(w.t, StreamLagged, event)
		require.True(w.t, closing.Reconnect)
		w.received(w.event(other))
		quiet.until("an event", func() bool { return len(quiet.uuids(w.t)) == 1 })
		// A reader that comes back continues from its position, also while the hub is behind.
		uuid := w.one()
		again := w.connect(n, loud.client, Request{View: access.Whole(w.env)})
		again.until("what was missed", func() bool { return len(again.uuids(w.t)) == 1 })
		require.Equal(w.t, []string{uuid}, again.uuids(w.t))
	})
}
