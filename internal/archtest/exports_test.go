package archtest

import (
	"errors"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"
)

// nothingOutside resolves no package: the samples import only each other.
type nothingOutside struct{}

func (nothingOutside) Import(path string) (*types.Package, error) {
	return nil, errors.New("no package " + path)
}

// unusedExports checks package a with this text and tests, and package b that imports it.
func unusedExports(t *testing.T, a, test, b string, reasons map[string]string) []string {
	t.Helper()
	lines, err := UnusedExports([]SourcePackage{
		{ImportPath: "sallyport/internal/a", Files: []File{{Path: "a.go", Text: "package a\n" + a}},
			Tests: []File{{Path: "a_test.go", Text: "package a_test\n" + test}}},
		{ImportPath: "sallyport/internal/b", Files: []File{{Path: "b.go",
			Text: "package b\nimport \"sallyport/internal/a\"\n" + b}}},
	}, nothingOutside{}, reasons)
	require.NoError(t, err)
	return lines
}

// Each kind of unused identifier is found, wherever its own package or other tests use it.
func TestUnusedExportsFindsEachKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ a, test, b, want string }{
		"function":        {"func F() {}", "", "var _ a.T", "F"},
		"variable":        {"var V int", "", "var _ a.T", "V"},
		"constant":        {"const C = 1", "", "var _ a.T", "C"},
		"type":            {"type U int", "", "var _ a.T", "U"},
		"method":          {"func (T) M() {}", "", "var _ a.T", "T.M"},
		"used inside":     {"func F() {}\nfunc g() { F() }", "", "var _ a.T", "F"},
		"only tested":     {"func F() {}", "var _ = a.F", "var _ a.T", "F"},
		"group of unused": {"const (\n\tC = 1\n\td = 2\n)", "", "var _ a.T", "C"},
		"namesake of a field": {"func Same() {}", "", "type s struct{ Same int }\nvar _ = s{Same: 1}\nvar _ a.T",
			"Same"},
		"method of another interface": {"func (T) M() {}\ntype other interface { M(int) }", "", "var _ a.T", "T.M"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := unusedExports(t, c.a+"\ntype T int\n", c.test, c.b, nil)
			require.Len(t, lines, 1)
			require.Regexp(t, `^a\.go:\d+:\d+: internal/a\.`+c.want+` is used by no other package$`, lines[0])
		})
	}
}

// Uses that name the identifier in no other package are recognised: a check that reports everything would be switched
// off.
func TestUnusedExportsAccepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ a, test, b string }{
		"function":                 {"func F() {}", "", "func g() { a.F() }"},
		"generic function":         {"func F[X any](x X) {}", "", "func g() { a.F(1) }"},
		"method":                   {"type T int\nfunc (T) M() {}", "", "func g(t a.T) { t.M() }"},
		"method of a generic type": {"type T[X any] struct{}\nfunc (T[X]) M() {}", "", "func g(t a.T[int]) { t.M() }"},
		"promoted method":          {"type T int\nfunc (T) M() {}", "", "type u struct{ a.T }\nfunc g(x u) { x.M() }"},
		"field":                    {"type T struct{ F int }", "", "var _ a.T"},
		"type of a result":         {"type T int\nfunc F() *T { return nil }", "", "var _ = a.F()"},
		"type of a field":          {"type U int\ntype T struct{ F []U }", "", "var _ a.T"},
		"constant of a type":       {"type T int\nconst C T = 1", "", "var _ a.T"},
		"constant of a group":      {"const (\n\tC = 1\n\tD = 2\n)", "", "var _ = a.C"},
		"method of an interface":   {"type T int\nfunc (T) M() {}", "", "var _ interface { M() } = a.T(1)"},
		"method of a pointer":      {"type T int\nfunc (*T) M() {}", "", "var _ interface { M() } = new(a.T)"},
		"method looked up": {"type T int\nfunc (T) MarshalJSON() ([]byte, error) { return nil, nil }", "",
			"var _ a.T"},
		"used inside and tested":   {"func F() {}\nfunc g() { F() }", "var _ = a.F", "var _ = a.H\n"},
		"method inside and tested": {"type T int\nfunc (T) M() {}\nfunc g(t T) { t.M() }", "var _ = t.M", "var _ a.T"},
		"method of a generic interface": {"type T int\nfunc (T) M() T { return 0 }", "",
			"type i[X any] interface { M() X }\nfunc f[X i[X]](x X) {}\nfunc g() { f(a.T(1)) }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, unusedExports(t, c.a+"\nvar H int\n", c.test, c.b+"\nvar _ = a.H", nil))
		})
	}
}

// A reason excuses one identifier, or all with a beginning, and one that excuses nothing is reported.
func TestUnusedExportsReasons(t *testing.T) {
	t.Parallel()
	const a = "const (\n\tCodeA = 1\n\tCodeB = 2\n)\nfunc F() {}\nfunc G() {}\nfunc H() {}"
	require.Equal(t, []string{
		"a.go:7:6: internal/a.G is used by no other package",
		"internal/a.H needs no reason to be exported",
	}, unusedExports(t, a, "", "var _ = a.H",
		map[string]string{"internal/a.Code*": "documented", "internal/a.F": "tests", "internal/a.H": "tests"}))
}

// Packages of tests, and types that name schemas, need no other package to use them.
func TestUnusedExportsLeavesOut(t *testing.T) {
	t.Parallel()
	lines, err := UnusedExports([]SourcePackage{
		{ImportPath: "sallyport/internal/e2e", Files: []File{{Path: "e.go", Text: "package e2e\nfunc F() {}"}}},
		{ImportPath: "sallyport/internal/platform/testkit",
			Files: []File{{Path: "t.go", Text: "package testkit\nfunc F() {}"}}},
		{ImportPath: "sallyport/internal/a/ahttp",
			Files: []File{{Path: "h.go", Text: "package ahttp\ntype Schema struct{}"}}},
		{ImportPath: "sallyport/cmd/c", Files: []File{{Path: "c.go", Text: "package main\nfunc F() {}"}}},
	}, nothingOutside{}, nil)
	require.NoError(t, err)
	require.Empty(t, lines)
}
