package rendering_test

import (
	"testing"

	"sallyport/internal/platform/testkit"
)

// TestMain limits the cases of properties where long tests do not run.
func TestMain(m *testing.M) {
	testkit.LimitProperties()
	m.Run()
}
