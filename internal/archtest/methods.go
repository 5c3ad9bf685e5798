package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// MaxMethods is how many methods a type has at most, exported or not. A service with more holds several capabilities.
const MaxMethods = 40

// LargeTypes returns one line for each type under internal that has more than MaxMethods methods, over all files of its
// package without tests.
func LargeTypes(files []File) ([]string, error) {
	methods := map[string]int{}
	for _, f := range files {
		if !isProductGo(f.Path) || !strings.HasPrefix(f.Path, "internal/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", f.Path, err)
		}
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil && len(fn.Recv.List) == 1 {
				methods[path.Dir(f.Path)+"."+receiverType(fn.Recv.List[0].Type)]++
			}
		}
	}
	var lines []string
	for name, n := range methods {
		if n > MaxMethods {
			lines = append(lines, fmt.Sprintf("%s has %d methods; %d is the limit", name, n, MaxMethods))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// receiverType returns the name of a receiver's type, without its pointer and its type parameters.
func receiverType(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverType(t.X)
	case *ast.ParenExpr:
		return receiverType(t.X)
	case *ast.IndexExpr:
		return receiverType(t.X)
	case *ast.IndexListExpr:
		return receiverType(t.X)
	case *ast.Ident:
		return t.Name
	default:
		return ""
	}
}
