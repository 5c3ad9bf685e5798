// Package archtest enforces the architecture of the tree: which package may import which, who names which table in SQL,
// how long a file may grow, where network clients are made, and which words and paths texts must not contain. It has no
// runtime part; each rule is a function over plain data, so that its own tests can show it failing.
package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Module is the path of the module that the rules check.
const Module = "sallyport"

// Package is the part of `go list -json`'s output about one package that the import rules need.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // of _test.go files in the package itself
	XTestImports []string // of _test.go files in the package's external test package
}

// Districts returns the folders under internal that hold capabilities, in the order of their imports: a district
// imports only those before it. platform comes before all of them and has no capability.
func Districts() []string { return []string{"identity", "providers", "webhooks", "calls"} }

// top lists the folders under internal above every district.
func top() map[string]string {
	return map[string]string{
		"app":       "the composition root",
		"demo":      "the demonstration, a client of a whole server",
		"listen":    "a client of a server, on a developer's machine",
		"operator":  "the work of commands on a database, next to a server that may be running",
		"reference": "printers of the generated documents",
	}
}

// tests lists the folders under internal that hold nothing but tests.
func tests() map[string]string {
	return map[string]string{
		"archtest": "these tests",
		"crash":    "tests that break the real process and its surroundings",
		"e2e":      "tests of the whole server",
	}
}

// Imports checks packages against the dependency table and returns one line for each import that breaks a rule:
//
//  1. platform imports only platform and the module's embedded data, in tests too;
//  2. every package under internal is platform, in the table, above the districts, or a folder of tests;
//  3. a capability's HTTP package is imported only by internal/app and by tests;
//  4. a capability imports another only along the table; its tests, and packages of test support, may set up a world
//     with any;
//  5. packages above the districts are imported only by each other, by commands, the load generator and tests;
//  6. commands and the load generator reach capabilities through packages above the districts.
func Imports(packages []Package, table map[string][]string) []string {
	var findings []string
	for _, p := range packages {
		findings = append(findings, importFindings(p, table)...)
	}
	slices.Sort(findings)
	return findings
}

func importFindings(p Package, table map[string][]string) []string {
	var findings []string
	report := func(imported, reason string) {
		findings = append(findings, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, reason))
	}
	from := place(p.ImportPath, table)
	if from.internal && from.layer == unknown {
		findings = append(findings, fmt.Sprintf("%s is in no row of the dependency table", p.ImportPath))
	}
	if from.layer == platform {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if to := place(imported, table); to.internal && to.layer != platform {
				report(imported, "platform knows no capability")
			}
		}
		return findings
	}
	for _, imported := range p.Imports {
		to := place(imported, table)
		switch {
		case !to.internal, to.layer == platform, from.layer == testsOnly:
		case to.http && from.name != "app" && p.ImportPath != imported:
			report(imported, "only internal/app mounts HTTP packages")
		case to.layer == above:
			if from.internal && from.layer != above {
				report(imported, "a capability does not depend on packages above the districts")
			}
		case !from.internal:
			report(imported, "commands reach capabilities through packages above the districts")
		case from.name == to.name, from.layer == above:
		case !slices.Contains(allowed(from, table), to.name):
			report(imported, fmt.Sprintf("not in the row of %s", from.row()))
		}
	}
	return findings
}

// layer is the place of a package under internal.
type layer int

const (
	unknown layer = iota
	platform
	capability
	above
	testsOnly
)

// location is an import path seen by the rules.
type location struct {
	internal bool // below sallyport/internal
	layer    layer
	name     string // the capability's row in the table; elsewhere the first folder below internal
	http     bool   // a capability's HTTP package
}

// row is the name of the package's own row in the table, next to the row of its capability.
func (l location) row() string {
	if l.http {
		return l.name + "http"
	}
	return l.name
}

func place(importPath string, table map[string][]string) location {
	rest, ok := strings.CutPrefix(importPath, Module+"/internal/")
	if !ok {
		return location{}
	}
	first, _, _ := strings.Cut(rest, "/")
	l := location{internal: true, name: first}
	switch {
	case first == "platform":
		l.layer = platform
	case top()[first] != "":
		l.layer = above
	case tests()[first] != "":
		l.layer = testsOnly
	case isTestSupport(rest):
		l.layer, l.name = testsOnly, rest
	default:
		for name := rest; name != "." && l.layer == unknown; name = path.Dir(name) {
			if _, ok := table[name]; ok {
				below, _, _ := strings.Cut(strings.TrimPrefix(rest, name+"/"), "/")
				l.layer, l.name, l.http = capability, name, rest != name && below == path.Base(name)+"http"
			}
		}
	}
	return l
}

// isTestSupport reports whether a path ends in a package that sets up a world for tests, such as identity/identitytest.
// Its name is that of its district or capability with "test" after it.
func isTestSupport(importPath string) bool {
	dir, name := path.Split(importPath)
	return dir != "" && name == path.Base(dir)+"test"
}

func allowed(l location, table map[string][]string) []string {
	row := table[l.name]
	if l.http {
		row = slices.Concat(row, table[l.row()])
	}
	return row
}

// Table checks the dependency table itself: every row is in a district and allows only its own and those before it,
// every name it allows has a row, a row of an HTTP package has its capability's row and is allowed to no one, and
// no capability reaches itself.
func Table(table map[string][]string) []string {
	var findings []string
	for name, row := range table {
		if district(name) < 0 {
			findings = append(findings, fmt.Sprintf("%s is in no district", name))
		}
		if capability, ok := strings.CutSuffix(name, "http"); ok && table[capability] == nil {
			findings = append(findings, fmt.Sprintf("%s belongs to no capability", name))
		}
		for _, other := range row {
			if _, ok := table[other]; !ok {
				findings = append(findings, fmt.Sprintf("%s allows %s, which has no row", name, other))
			}
			if district(other) > district(name) {
				findings = append(findings, fmt.Sprintf("%s allows %s, whose district comes later", name, other))
			}
			if strings.HasSuffix(other, "http") {
				findings = append(findings, fmt.Sprintf("%s allows %s, an HTTP package", name, other))
			}
		}
		if reaches(table, name, name, map[string]bool{}) {
			findings = append(findings, fmt.Sprintf("%s reaches itself", name))
		}
	}
	slices.Sort(findings)
	return findings
}

// Capabilities returns the names of the table's rows that are capabilities, sorted.
func Capabilities(table map[string][]string) []string {
	var names []string
	for name := range table {
		if !strings.HasSuffix(name, "http") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// district returns the place of a row's district in their order, or -1 where it is in none.
func district(row string) int {
	name, _, _ := strings.Cut(row, "/")
	return slices.Index(Districts(), name)
}

func reaches(table map[string][]string, from, target string, seen map[string]bool) bool {
	for _, next := range table[from] {
		if next == target {
			return true
		}
		if !seen[next] {
			seen[next] = true
			if reaches(table, next, target, seen) {
				return true
			}
		}
	}
	return false
}
