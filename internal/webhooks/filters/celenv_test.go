package filters

import (
	"sync"
	"testing"
)

// Filters are compiled at the same time, those with unknown names too, without a data race in the environment. Only the
// race detector can see one.
func TestEnvironmentIsShared(t *testing.T) {
	t.Parallel()
	for range 20 {
		env := newEnvironment()
		var compiling sync.WaitGroup
		for _, text := range []string{"missing", "event.payload.exists(x, x == 1)", "missing.exists(x, x == 1)"} {
			compiling.Go(func() { _, _ = env.Compile(text) })
		}
		compiling.Wait()
	}
}
