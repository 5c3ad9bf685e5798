// Package archtest holds the tree to its architecture: which package may import which, who names which table in SQL, how
// long a file may grow, where network clients are made, and what the repository's text must not contain. It has no
// runtime part; each rule is a function over plain data, so that its own tests can show it failing.
package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path of the module whose packages the rules speak about.
const Module = "sallyport"

// Package is what the import rules need to know of one package, as `go list -json` prints it.
type Package struct {
	ImportPath   string
	Imports      []string
	TestImports  []string // of _test.go files in the package itself
	XTestImports []string // of _test.go files in the package's external test package
}

// support lists the folders under internal that are neither platform nor a capability.
func support() map[string]string {
	return map[string]string{
		"app":      "the composition root",
		"archtest": "these tests",
		"crash":    "tests that take from the real process what it stands on",
		"e2e":      "tests of the whole server",
	}
}

// Imports checks packages against the dependency table and returns one line for each import that breaks a rule:
//
//  1. platform imports only platform and the module's embedded data, in tests too;
//  2. every package under internal is platform, in the table, or support;
//  3. a capability's HTTP package is imported only by internal/app and by tests;
//  4. a capability imports another only along the table; its tests may set up a world with any;
//  5. internal/app is imported only by commands, the load generator and tests;
//  6. commands and the load generator reach capabilities through internal/app.
func Imports(packages []Package, table map[string][]string) []string {
	var faults []string
	for _, p := range packages {
		faults = append(faults, importFaults(p, table)...)
	}
	slices.Sort(faults)
	return faults
}

func importFaults(p Package, table map[string][]string) []string {
	var faults []string
	report := func(imported, reason string) {
		faults = append(faults, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, reason))
	}
	from := place(p.ImportPath)
	if from.internal && !known(from, table) {
		faults = append(faults, fmt.Sprintf("%s is in no row of the dependency table", p.ImportPath))
	}
	if from.top == "platform" {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if to := place(imported); to.internal && to.top != "platform" {
				report(imported, "platform knows no capability")
			}
		}
		return faults
	}
	for _, imported := range p.Imports {
		to := place(imported)
		switch {
		case !to.internal, to.top == "platform":
		case to.http && from.top != "app" && p.ImportPath != imported:
			report(imported, "only internal/app mounts HTTP packages")
		case to.top == "app":
			if from.internal && support()[from.top] == "" {
				report(imported, "the composition root is nobody's dependency")
			}
		case !from.internal:
			report(imported, "commands reach capabilities through internal/app")
		case from.top == to.top, support()[from.top] != "":
		case !slices.Contains(allowed(from, table), to.top):
			report(imported, fmt.Sprintf("not in the row of %s", from.row()))
		}
	}
	return faults
}

// location is an import path seen by the rules.
type location struct {
	internal bool   // below sallyport/internal
	top      string // first folder below internal
	http     bool   // a capability's HTTP package
}

// row is the name under which the table may know the package beside its capability.
func (l location) row() string {
	if l.http {
		return l.top + "http"
	}
	return l.top
}

func place(importPath string) location {
	rest, ok := strings.CutPrefix(importPath, Module+"/internal/")
	if !ok {
		return location{}
	}
	top, below, _ := strings.Cut(rest, "/")
	second, _, _ := strings.Cut(below, "/")
	return location{internal: true, top: top, http: second == top+"http"}
}

func known(l location, table map[string][]string) bool {
	if l.top == "platform" || support()[l.top] != "" {
		return true
	}
	_, ok := table[l.top]
	return ok
}

func allowed(l location, table map[string][]string) []string {
	row := table[l.top]
	if l.http {
		row = slices.Concat(row, table[l.row()])
	}
	return row
}

// Table checks the dependency table itself: every name it allows has a row, a row of an HTTP package stands beside its
// capability's and is allowed to nobody, and no capability reaches itself.
func Table(table map[string][]string) []string {
	var faults []string
	for name, row := range table {
		if capability, ok := strings.CutSuffix(name, "http"); ok && table[capability] == nil {
			faults = append(faults, fmt.Sprintf("%s stands beside no capability", name))
		}
		for _, other := range row {
			if _, ok := table[other]; !ok {
				faults = append(faults, fmt.Sprintf("%s allows %s, which has no row", name, other))
			}
			if strings.HasSuffix(other, "http") {
				faults = append(faults, fmt.Sprintf("%s allows %s, an HTTP package", name, other))
			}
		}
		if reaches(table, name, name, map[string]bool{}) {
			faults = append(faults, fmt.Sprintf("%s reaches itself", name))
		}
	}
	slices.Sort(faults)
	return faults
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
