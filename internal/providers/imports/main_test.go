package imports

import (
	"testing"

	"sallyport/internal/platform/testkit"
)

func TestMain(m *testing.M) {
	testkit.LimitProperties()
	m.Run()
}
