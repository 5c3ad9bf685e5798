package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Lines of a Go file, tests included, beyond which LongFiles asks for a reason and beyond which it accepts none.
const (
	QuestionedLines = 500
	ForbiddenLines  = 900
)

// File is one file of the repository: its slash-separated path from the root, and its text.
type File struct {
	Path string
	Text string
}

var (
	// SQL in this repository writes its keywords in capitals, which keeps prose ("deliveries from connections") out.
	namedTable   = regexp.MustCompile(`\b(?:FROM|INTO|UPDATE|JOIN)\s+(?:ONLY\s+)?([a-z_][a-z0-9_]*)\b`)
	createdTable = regexp.MustCompile(
		`(?i)\bCREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([a-z_][a-z0-9_]*)(\s+PARTITION\s+OF\b)?`)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

// ForeignTables returns one line for each string literal in a Go file that names, in SQL, a table that another package
// owns. Owners are paths under internal; a folder below an owner counts as the owner. Test files may look anywhere, and
// so may bench, where a soak compares the database with what it has seen.
func ForeignTables(files []File, owners map[string]string) ([]string, error) {
	var findings []string
	for _, f := range files {
		if !isProductGo(f.Path) || strings.HasPrefix(f.Path, "bench/") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Path, err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				return true // the parser has accepted it, so that Unquote does
			}
			for _, match := range namedTable.FindAllStringSubmatch(text, -1) {
				owner, ok := owners[match[1]]
				if ok && !strings.HasPrefix(f.Path, "internal/"+owner+"/") {
					findings = append(findings, fmt.Sprintf("%s names table %s of %s", fset.Position(literal.Pos()), match[1], owner))
				}
			}
			return true
		})
	}
	return findings, nil
}

// TablesWithoutOwner compares the migrations with the owners and returns one line for each table that only one of them
// knows. Partitions are parts of their table.
func TablesWithoutOwner(migrations []File, owners map[string]string) []string {
	created := map[string]bool{}
	for _, f := range migrations {
		for _, match := range createdTable.FindAllStringSubmatch(f.Text, -1) {
			if match[2] == "" {
				created[strings.ToLower(match[1])] = true
			}
		}
	}
	var findings []string
	for table := range created {
		if owners[table] == "" {
			findings = append(findings, fmt.Sprintf("table %s has no owner", table))
		}
	}
	for table, owner := range owners {
		if !created[table] {
			findings = append(findings, fmt.Sprintf("table %s of %s is in no migration", table, owner))
		}
	}
	slices.Sort(findings)
	return findings
}

// LongFiles returns one line for each Go file over ForbiddenLines, for each over QuestionedLines that reasons does not
// name, and for each reason that is no longer needed. Generated files are exempt.
func LongFiles(files []File, reasons map[string]string) []string {
	var findings []string
	needed := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Path, ".go") || generated.MatchString(f.Text) {
			continue
		}
		lines := strings.Count(f.Text, "\n")
		switch {
		case lines > ForbiddenLines:
			findings = append(findings, fmt.Sprintf("%s has %d lines; %d is the limit", f.Path, lines, ForbiddenLines))
		case lines > QuestionedLines && reasons[f.Path] == "":
			findings = append(findings, fmt.Sprintf("%s has %d lines; over %d needs a reason", f.Path, lines, QuestionedLines))
		}
		needed[f.Path] = lines > QuestionedLines
	}
	for path := range reasons {
		if !needed[path] {
			findings = append(findings, fmt.Sprintf("%s no longer needs a reason for its length", path))
		}
	}
	slices.Sort(findings)
	return findings
}

// clientMakers are the types whose construction opens a way out of the process past the address policy.
func clientMakers() map[string][]string {
	return map[string][]string{
		"net/http":   {"Client", "Transport"},
		"net":        {"Dialer", "Resolver"},
		"crypto/tls": {"Dialer"},
	}
}

// ForeignClients returns one line for each place outside the folders of makers where product code constructs a network
// client: a composite literal, a new(T) or a variable of a type that clientMakers lists. Taking or keeping a pointer to
// a client that egress made is no construction.
func ForeignClients(files []File, makers []string) ([]string, error) {
	var findings []string
	for _, f := range files {
		inMaker := slices.ContainsFunc(makers, func(m string) bool { return strings.HasPrefix(f.Path, m) })
		if !isProductGo(f.Path) || inMaker {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Path, err)
		}
		names := importedNames(parsed)
		report := func(t ast.Expr) {
			if name := clientType(t, names); name != "" {
				findings = append(findings, fmt.Sprintf("%s constructs %s", fset.Position(t.Pos()), name))
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				report(n.Type)
			case *ast.ValueSpec:
				report(n.Type)
			case *ast.StructType:
				for _, field := range n.Fields.List {
					report(field.Type)
				}
			case *ast.CallExpr:
				if fun, ok := n.Fun.(*ast.Ident); ok && fun.Name == "new" && len(n.Args) == 1 {
					report(n.Args[0])
				}
			}
			return true
		})
	}
	return findings, nil
}

// importedNames maps the name by which a file knows a package to the package's path.
func importedNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it, so that Unquote does
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

func clientType(t ast.Expr, names map[string]string) string {
	selector, ok := t.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := selector.X.(*ast.Ident)
	if !ok || !slices.Contains(clientMakers()[names[pkg.Name]], selector.Sel.Name) {
		return ""
	}
	return names[pkg.Name] + "." + selector.Sel.Name
}

// MachinePaths returns one line for each line of text that holds an absolute path of the machine it was written on.
func MachinePaths(files []File) []string {
	var findings []string
	for _, f := range files {
		if strings.ContainsRune(f.Text, 0) {
			continue // not text
		}
		for i, line := range strings.Split(f.Text, "\n") {
			if path := machinePath.FindStringSubmatch(line); path != nil {
				findings = append(findings, fmt.Sprintf("%s:%d holds a path under %s", f.Path, i+1, path[1]))
			}
		}
	}
	return findings
}

// machinePath asks for what precedes a path in prose, code and scripts, so that the same words inside a URL are none.
var machinePath = regexp.MustCompile("(?:^|[\\s\"'`=(:,])(/(?:work|root|home|Users)/)")

// WholeViews returns one line for each place in an HTTP package that asks for the view of a whole environment. A
// handler takes the view of its caller, which an API key may limit.
func WholeViews(files []File) []string {
	var findings []string
	for _, f := range files {
		if !isProductGo(f.Path) || !strings.HasSuffix(path.Dir(f.Path), "http") {
			continue
		}
		for i, line := range strings.Split(f.Text, "\n") {
			if strings.Contains(line, "access.Whole(") || strings.Contains(line, "access.All()") {
				findings = append(findings, fmt.Sprintf("%s:%d asks for a whole environment; take the View of the principal",
					f.Path, i+1))
			}
		}
	}
	return findings
}

func isProductGo(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !isTestSupport(path.Dir(name))
}

// Callers returns the folders whose product code calls a function of a package of this module, each once, sorted. The
// package is given by its import path below the module.
func Callers(files []File, pkg, function string) ([]string, error) {
	found := map[string]bool{}
	for _, f := range files {
		if !isProductGo(f.Path) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Path, err)
		}
		names := importedNames(parsed)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == function {
				if x, ok := s.X.(*ast.Ident); ok && names[x.Name] == Module+"/"+pkg {
					found[path.Dir(f.Path)] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found)), nil
}
