package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// UnboundedWaits returns one line for each place in a test's clean-up that may wait for ever: a receive outside a
// select, a call of a method Wait without arguments, and the Close of a test server. A wait that is an argument of a
// function of testkit/await has a limit. Files that exempt lists may wait as they like, because they run on a clock
// that finds a deadlock; an exemption without need is a line, too.
func UnboundedWaits(files []File, exempt map[string]string) ([]string, error) {
	var findings []string
	needed := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Path, ".go") {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Path, err)
		}
		servers := testServers(parsed)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || calledName(call) != "Cleanup" || len(call.Args) != 1 {
				return true
			}
			for _, at := range unboundedWaits(call.Args[0], servers) {
				needed[f.Path] = true
				if exempt[f.Path] == "" {
					findings = append(findings, fmt.Sprintf("%s waits without a limit; use testkit/await", fset.Position(at)))
				}
			}
			return false
		})
	}
	for path := range exempt {
		if !needed[path] {
			findings = append(findings, path+" needs no exemption: no clean-up waits without a limit")
		}
	}
	slices.Sort(findings)
	return findings, nil
}

// unboundedWaits returns the places in a clean-up that may wait for ever. servers names variables that hold a test
// server.
func unboundedWaits(cleanup ast.Expr, servers map[string]bool) []token.Pos {
	var found []token.Pos
	if method, ok := cleanup.(*ast.SelectorExpr); ok && isWait(method, servers) {
		return []token.Pos{cleanup.Pos()} // t.Cleanup(server.Close)
	}
	ast.Inspect(cleanup, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				if c, ok := clause.(*ast.CommClause); ok {
					for _, statement := range c.Body {
						found = append(found, unboundedWaits(&ast.FuncLit{Type: &ast.FuncType{},
							Body: &ast.BlockStmt{List: []ast.Stmt{statement}}}, servers)...)
					}
				}
			}
			return false
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found = append(found, n.Pos())
			}
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := method.X.(*ast.Ident); ok && x.Name == "await" {
				return false
			}
			if len(n.Args) == 0 && isWait(method, servers) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// isWait reports whether a method waits for others to end.
func isWait(method *ast.SelectorExpr, servers map[string]bool) bool {
	if method.Sel.Name == "Wait" {
		return true
	}
	x, ok := method.X.(*ast.Ident)
	return ok && method.Sel.Name == "Close" && servers[x.Name]
}

// testServers returns the names of variables to which a file assigns a server of net/http/httptest.
func testServers(f *ast.File) map[string]bool {
	names, servers := importedNames(f), map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		assignment, ok := n.(*ast.AssignStmt)
		if !ok || len(assignment.Lhs) != 1 || len(assignment.Rhs) != 1 {
			return true
		}
		call, ok := assignment.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		maker, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := maker.X.(*ast.Ident)
		if !ok || names[pkg.Name] != "net/http/httptest" || !strings.HasSuffix(maker.Sel.Name, "Server") {
			return true
		}
		switch to := assignment.Lhs[0].(type) {
		case *ast.Ident:
			servers[to.Name] = true
		case *ast.SelectorExpr: // r.Server, which r embeds
			if x, ok := to.X.(*ast.Ident); ok {
				servers[x.Name] = true
			}
		}
		return true
	})
	return servers
}

// calledName returns the name of the method or function that is called, without its package or receiver.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.Ident:
		return fun.Name
	default:
		return ""
	}
}
