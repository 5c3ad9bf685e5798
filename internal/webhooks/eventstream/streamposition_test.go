package eventstream

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

func drawPlace(t *rapid.T) Place {
	n := func(label string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, label) }
	return Place{position: n("position", maxNumber), index: int(n("index", 1<<31)), at: clock.FromMillis(n("at", 1<<43))}
}

// An id leads back to its place, is short and plain enough for every header, and is no id of another environment.
func TestPlaceText(t *testing.T) {
	t.Parallel()
	env, other := id.Environment(id.New(id.PrefixEnvironment)), id.Environment(id.New(id.PrefixEnvironment))
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlace(rt)
		text := p.text(digestOf(env))
		require.LessOrEqual(rt, len(text), maxIDLength)
		require.Regexp(rt, `^[A-Za-z0-9_-]+$`, text)
		got, err := ParsePlace(env, text)
		require.NoError(rt, err)
		require.Equal(rt, p, got)
		_, err = ParsePlace(other, text)
		require.ErrorIs(rt, err, errPlace)
	})
}

// An invalid id is refused, and never makes an impossible position.
func FuzzParsePlace(f *testing.F) {
	const env = id.Environment("env_06dyxk8z3pk6n5q1v7wc4t2m9r")
	d := digestOf(env)
	good := Place{position: 7, index: 3, at: clock.FromMillis(1)}.text(d)
	far := append([]byte{placeVersion}, d[:]...)
	for range 3 {
		far = append(far, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)
	}
	for _, seed := range []string{"", good, good + "A", good[:len(good)-1], good[1:],
		base64.RawURLEncoding.EncodeToString(far), "====", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlace(env, text)
		if err != nil {
			require.ErrorIs(t, err, errPlace)
			return
		}
		require.GreaterOrEqual(t, p.position, int64(0))
		require.GreaterOrEqual(t, p.index, 0)
		again, err := ParsePlace(env, p.text(d))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

// Places are in the order of the log.
func TestPlacesAreOrdered(t *testing.T) {
	t.Parallel()
	ordered := []Place{{}, {position: 1, index: 1}, {position: 1, index: 2}, {position: 2}, {position: 2, index: 1}}
	for i, a := range ordered {
		for k, b := range ordered {
			require.Equal(t, i > k, a.beyond(b))
		}
	}
}
