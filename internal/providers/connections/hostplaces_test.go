package connections

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An environment that takes every place of a host that it gets leaves some to each of the next ones, and all places are
// free again at the end.
func TestPlacesOfAHost(t *testing.T) {
	t.Parallel()
	var p hostPlaces
	var releases []func()
	takeAll := func(environment string) (n int) {
		for {
			release, free := p.take("api.example.com", environment)
			if !free {
				return n
			}
			releases = append(releases, release)
			n++
		}
	}
	require.Equal(t, checksPerHost/2, takeAll("a"))
	require.Equal(t, 2, takeAll("b"))
	require.Equal(t, 1, takeAll("c"))
	_, free := p.take("other.example.com", "a")
	require.True(t, free, "another host")
	for _, release := range releases {
		release()
	}
	require.NotContains(t, p.taken, "api.example.com")
	require.Equal(t, checksPerHost/2, takeAll("b"))
}

// However environments take and release places, no host has more than its number, and an environment that has none gets
// one unless all are taken.
func TestPlacesOfAHostProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p hostPlaces
		var releases []func()
		held := map[string]int{}
		total := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(releases) > 0 && rapid.Bool().Draw(t, "release") {
				releases[0]()
				releases = releases[1:]
				continue
			}
			environment := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "environment")
			release, free := p.take("h", environment)
			if !free {
				if held[environment] == 0 && total < checksPerHost {
					t.Fatalf("%s has no place, and %d of %d are taken", environment, total, checksPerHost)
				}
				continue
			}
			held[environment]++
			if total++; total > checksPerHost {
				t.Fatalf("%d places are taken", total)
			}
			releases = append(releases, func() {
				release()
				held[environment]--
				total--
			})
		}
	})
}
