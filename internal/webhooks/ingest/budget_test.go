package ingest

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A source holds half of a budget at most, or one largest body where that is more: others keep room, and what the
// budget has room for is not refused for ever.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, largest, want int64 }{
		{64 << 20, 25 << 20, 32 << 20}, {32 << 20, 25 << 20, 25 << 20}, {1 << 20, 25 << 20, 1 << 20}, {101, 1, 50},
	} {
		b := newBudget(c.size, c.largest)
		require.True(t, b.take(source(1), c.want))
		require.False(t, b.take(source(1), 1), "%+v", c)
		if rest := c.size - c.want; rest > 0 {
			require.True(t, b.take(source(2), min(rest, c.want)), "%+v", c)
		}
	}
}

// For any order of takes and releases the sums are right, no one exceeds a limit, no one within them is refused, and a
// source that holds nothing is forgotten.
func TestBudgetAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		const size, share = 100, 50
		b := newBudget(size, 1)
		leases := map[byte][]*lease{}
		held := func(of byte) (sum int64) {
			for _, l := range leases[of] {
				sum += l.held
			}
			return sum
		}
		rt.Repeat(map[string]func(*rapid.T){
			"grow": func(rt *rapid.T) {
				of := rapid.ByteRange(1, 4).Draw(rt, "source")
				more := rapid.Int64Range(1, 60).Draw(rt, "more")
				l := &lease{of: b, source: source(of)}
				if n := len(leases[of]); n > 0 && rapid.Bool().Draw(rt, "known") {
					l = leases[of][n-1]
				} else {
					leases[of] = append(leases[of], l)
				}
				before := l.held
				fits := more <= size-held(1)-held(2)-held(3)-held(4) && held(of)+more <= share
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
				of := rapid.ByteRange(1, 4).Draw(rt, "source")
				if n := len(leases[of]); n > 0 {
					l := leases[of][n-1]
					l.shrink(rapid.Int64Range(0, l.held).Draw(rt, "rest"))
				}
			},
			"release": func(rt *rapid.T) {
				of := rapid.ByteRange(1, 4).Draw(rt, "source")
				for _, l := range leases[of] {
					l.release()
					l.release()
				}
				leases[of] = nil
			},
			"": func(rt *rapid.T) {
				sources := 0
				for of := byte(1); of <= 4; of++ {
					require.Equal(rt, held(of), b.held[source(of)])
					if held(of) > 0 {
						sources++
					}
				}
				require.Len(rt, b.held, sources)
				require.Equal(rt, size-held(1)-held(2)-held(3)-held(4), b.free)
			},
		})
	})
}

func source(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }

// unused requires that a budget is whole again.
func unused(t require.TestingT, b *budget, size int64) {
	require.Equal(t, size, b.free)
	require.Empty(t, b.held)
}
