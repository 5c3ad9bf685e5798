package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
)

func drawBound(t *rapid.T, label string) access.Bound {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, label)
	if rapid.Bool().Draw(t, label+" except") {
		return access.All().Minus(access.Only(names...))
	}
	return access.Only(names...)
}

// Bounds are sets: union and difference are those of their members, equal sets are equal, and their text names them.
func TestBoundsAreSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawBound(t, "a"), drawBound(t, "b")
		same := true
		for _, c := range []string{"a", "b", "c", "d", "e", ""} {
			inA, inB := a.Contains(c), b.Contains(c)
			require.Equal(t, inA || inB, a.Union(b).Contains(c), c)
			require.Equal(t, inA && !inB, a.Minus(b).Contains(c), c)
			same = same && inA == inB
		}
		require.Equal(t, same, a.Equal(b))
		text, err := a.Text()
		require.NoError(t, err)
		read, err := access.ParseBound(text)
		require.NoError(t, err)
		require.True(t, a.Equal(read))
		other, err := b.Text()
		require.NoError(t, err)
		require.Equal(t, same, text == other)
		require.Equal(t, a.Unrestricted(), text == "")
	})
}

// An unset bound contains nothing, and an unknown text never becomes a wider bound.
func TestNoBoundIsNothing(t *testing.T) {
	t.Parallel()
	var none access.Bound
	require.True(t, none.Empty())
	require.False(t, none.Contains(""))
	require.False(t, none.Covers(""))
	key := access.Principal{Kind: access.KindAPIKey, Environment: "env"}
	require.True(t, key.View().Connections.Empty())
	require.Error(t, key.Require(access.RouteWebhooks, ""))
	condition, args := none.Where("c", 1)
	require.Equal(t, "1 = 0", condition)
	require.Empty(t, args)
	for _, text := range []string{"{}", "null", `{"only":["a"],"except":["b"]}`, `{"all":true}`, `{"except":[]}`, "x",
		`{"only":null}`} {
		_, err := access.ParseBound(text)
		require.Error(t, err, text)
	}
}

// All connections but one is not all: a subscription to everything is not for a caller who may not see that one.
func TestExceptionsDoNotCoverEverything(t *testing.T) {
	t.Parallel()
	b := access.All().Minus(access.Only("acme"))
	require.False(t, b.Covers(""))
	require.False(t, b.Covers("acme"))
	require.True(t, b.Covers("globex"))
	require.True(t, b.Contains(""))
	require.True(t, access.All().Covers(""))
}
