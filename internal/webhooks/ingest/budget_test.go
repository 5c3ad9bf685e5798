package ingest

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
)

// A source holds half of a budget at most, or one largest body where that is more, over however many connections:
// others keep room, and what the budget has room for is not refused for ever.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, largest, want int64 }{
		{64 << 20, 25 << 20, 32 << 20}, {32 << 20, 25 << 20, 25 << 20}, {1 << 20, 25 << 20, 1 << 20}, {100, 1, 50},
	} {
		b := newBudget(c.size, c.largest)
		require.Equal(t, c.want, b.share)
		largest := min(c.largest, c.want)
		require.True(t, b.take(at(1, 1, 1), 0, largest), "%+v", c)
		held := largest
		for connection := byte(2); connection < 60; connection++ {
			for b.take(at(1, connection, connection), 1, c.size/100) {
				held += c.size / 100
			}
		}
		require.LessOrEqual(t, held, c.want)
		require.GreaterOrEqual(t, held, c.want-c.want/10)
		if rest := c.size - c.want; rest > 0 {
			require.True(t, b.take(at(2, 100, 100), 0, rest/4), "%+v", c)
		}
	}
}

// However many senders one environment has, at one connection or at several, and however many strangers send to a
// connection: another environment, another connection and another sender find room.
func TestSharesLeaveRoom(t *testing.T) {
	t.Parallel()
	const size, piece = 64 << 20, 64 << 10
	fill := func(holders ...holder) *budget {
		b := newBudget(size, largest)
		for again := true; again; {
			again = false
			for _, h := range holders {
				again = b.take(h, 1, piece) || again
			}
		}
		return b
	}
	senders := func(n byte, connections byte) (list []holder) {
		for from := range n {
			list = append(list, at(10+from, from%connections, 1))
		}
		return list
	}
	for _, n := range []byte{1, 2, 8, 40} {
		b := fill(senders(n, 1)...)
		require.LessOrEqual(t, size-b.free, int64(size/2), "one connection, %d senders", n)
		require.True(t, b.take(at(1, 0, 1), 0, 20<<10), "another sender next to %d", n)
		require.True(t, b.take(at(1, 100, 1), 0, 2<<20), "another connection")
		b = fill(senders(n, n)...)
		require.LessOrEqual(t, size-b.free, int64(size*3/4), "%d connections", n)
		require.True(t, b.take(at(1, 200, 2), 0, 8<<20), "another environment")
	}
}

// A body of the largest size is accepted next to others.
func TestLargestBodyFits(t *testing.T) {
	t.Parallel()
	b := newBudget(memorySize, largest)
	require.True(t, b.take(at(2, 2, 2), 0, 8<<20))
	require.True(t, b.take(at(1, 1, 1), 0, copyPiece))
	require.True(t, b.take(at(1, 1, 1), copyPiece, largest-copyPiece))
}

// For any order of takes and releases the sums are right, no one exceeds a limit, no one within them is refused, and
// what no one holds is forgotten.
func TestBudgetAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const size, share = 100, 50
		b := newBudget(size, 1)
		var leases []*lease
		held := func(of func(h holder) bool) (sum int64) {
			for _, l := range leases {
				if of(l.holder) {
					sum += l.held
				}
			}
			return sum
		}
		rt.Repeat(map[string]func(*rapid.T){
			"grow": func(rt *rapid.T) {
				h := at(rapid.ByteRange(1, 3).Draw(rt, "source"), rapid.ByteRange(1, 4).Draw(rt, "connection"), 0)
				h.environment = id.Environment(rune('a' + h.connection[0]%2))
				more := rapid.Int64Range(1, 60).Draw(rt, "more")
				l, isNew := &lease{of: b, holder: h}, true
				for _, known := range leases {
					if known.holder == h && rapid.Bool().Draw(rt, "known") {
						l, isNew = known, false
					}
				}
				if isNew {
					leases = append(leases, l)
				}
				before := l.held
				free := size - held(func(holder) bool { return true }) - more
				connection := held(func(x holder) bool { return x.connection == h.connection }) + more
				environment := held(func(x holder) bool { return x.environment == h.environment }) + more
				sent := held(func(x holder) bool { return x == h })
				fits := free >= 0 && held(func(x holder) bool { return x.source == h.source })+more <= share &&
					connection <= free && environment <= 3*free && (sent == before || sent+more <= 2*(free-connection))
				err := l.grow(before + more)
				if fits {
					require.NoError(rt, err)
					require.Equal(rt, before+more, l.held)
				} else {
					require.Same(rt, errOverloaded, err)
					require.Equal(rt, before, l.held)
				}
			},
			"shrink": func(rt *rapid.T) {
				if n := len(leases); n > 0 {
					l := leases[rapid.IntRange(0, n-1).Draw(rt, "which")]
					l.shrink(rapid.Int64Range(0, l.held).Draw(rt, "rest"))
				}
			},
			"release": func(*rapid.T) {
				for _, l := range leases {
					l.release()
					l.release()
				}
				leases = nil
				unused(rt, b, size)
			},
			"": func(rt *rapid.T) {
				for from := byte(1); from <= 3; from++ {
					require.Equal(rt, held(func(h holder) bool { return h.source == source(from) }), b.held[source(from)])
				}
				require.Equal(rt, size-held(func(holder) bool { return true }), b.free)
			},
		})
	})
}

// at is a sender at a connection of an environment.
func at(from, connection, environment byte) holder {
	return holder{source(from), string(rune(connection)), id.Environment(rune(environment))}
}

func source(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }

// unused requires that a budget is whole again.
func unused(t require.TestingT, b *budget, size int64) {
	require.Equal(t, size, b.free)
	require.Empty(t, b.held)
	require.Empty(t, b.senders)
	require.Empty(t, b.connections)
	require.Empty(t, b.environments)
}
