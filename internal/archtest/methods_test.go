package archtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A type with one method too many is found, with its methods spread over files and with any form of receiver. Types of
// other packages, tests and folders outside internal do not count towards it.
func TestLargeTypes(t *testing.T) {
	t.Parallel()
	methods := func(receiver string, from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "func (%s) method%d() {}\n", receiver, i)
		}
		return b.String()
	}
	files := []File{
		goFile("internal/orders/a.go", methods("s *Service", 0, 20)),
		goFile("internal/orders/b.go", methods("s Service", 20, MaxMethods)),
		goFile("internal/orders/b_test.go", methods("s *Service", 100, 120)),
		goFile("internal/bills/a.go", methods("s *Service", 0, 20)),
		goFile("internal/orders/list.go", methods("l *list[T]", 0, MaxMethods)),
		goFile("bench/a.go", methods("s *Service", 0, 2*MaxMethods)),
	}
	lines, err := LargeTypes(files)
	require.NoError(t, err)
	require.Empty(t, lines)

	files = append(files, goFile("internal/orders/c.go", methods("*Service", 200, 201)),
		goFile("internal/orders/more.go", methods("l *list[T]", 300, 301)))
	lines, err = LargeTypes(files)
	require.NoError(t, err)
	require.Equal(t, []string{"internal/orders.Service has 41 methods; 40 is the limit",
		"internal/orders.list has 41 methods; 40 is the limit"}, lines)
}
