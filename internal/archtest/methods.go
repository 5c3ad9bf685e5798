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
// package without tests. pending holds types that are still too large, with the number of methods that they may have:
// the folder, a dot and the name. A type that has fewer by now needs its entry lowered or removed.
func LargeTypes(files []File, pending map[string]int) ([]string, error) {
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
		if limit := max(MaxMethods, pending[name]); n > limit {
			lines = append(lines, fmt.Sprintf("%s has %d methods; %d is the limit", name, n, limit))
		}
	}
	for name, n := range pending {
		switch {
		case methods[name] <= MaxMethods:
			lines = append(lines, name+" is no longer too large")
		case methods[name] < n:
			lines = append(lines, fmt.Sprintf("%s has only %d methods now", name, methods[name]))
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
