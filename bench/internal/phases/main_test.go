package phases_test

import (
	"testing"

	"sallyport/internal/platform/testkit/await"
)

// TestMain runs many tests at the same time, because they wait for what must not arrive.
func TestMain(m *testing.M) {
	await.InParallel()
	m.Run()
}
