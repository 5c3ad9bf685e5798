package eventstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/webhookevents"
)

func chunkOf(position int64, messages, size int, at time.Time) *chunk {
	c := &chunk{record: webhookevents.LogPlace{Position: position, At: at, Messages: messages}, size: size}
	for range messages {
		c.messages = append(c.messages, &message{})
	}
	return c
}

// A feed stays within its bounds whatever is added, keeps the newest, counts what it holds, and serves a reader either all
// that follows its place or nothing.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f, now := newFeed(feedKey{}, 10, 10), began()
		position, total, next := int64(10), 0, int64(0)
		for range rapid.IntRange(1, 30).Draw(rt, "rounds") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second)
			var chunks []*chunk
			for range rapid.IntRange(0, 3).Draw(rt, "chunks") {
				position += rapid.Int64Range(1, 3).Draw(rt, "step")
				chunks = append(chunks, chunkOf(position, rapid.IntRange(0, 6000).Draw(rt, "messages"), rapid.IntRange(0, feedBytes).Draw(rt, "bytes"), now))
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
				require.True(rt, i == len(f.chunks)-1 || now.Sub(c.record.At) <= feedAge)
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
		s := New(Config{Clock: w.clock, Metrics: w.start().metrics})
		loaded := map[feedKey][]*chunk{}
		for i := range 12 {
			key := feedKey{env: w.env, deliveries: i%2 == 0}
			key.env += "x"
			for range i / 2 {
				key.env += "x"
			}
			s.feeds[key] = newFeed(key, 0, 0)
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
