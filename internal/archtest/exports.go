package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// SourcePackage is a package of the module: its import path, its files without tests, and the files of its external
// tests.
type SourcePackage struct {
	ImportPath string
	Files      []File
	Tests      []File
}

// UnusedExports returns one line for each exported identifier under internal that no other package uses, and one for
// each entry of reasons that is not needed. The key of a reason is the import path without the module, and the name:
// "internal/platform/clock.Manual", "internal/platform/db.Tx.Rollback". An asterisk at its end stands for any ending.
//
// Packages come in the order of their imports; outside resolves what is not among them. Tests of other packages do not
// count as a use. Accepted without a use are:
//   - identifiers that the package itself uses and that its external tests name;
//   - fields of structs;
//   - types of HTTP packages, after which the schemas of the OpenAPI document are named;
//   - methods that an interface requires, or that libraries look up by name;
//   - types in the declarations of identifiers that are used;
//   - constants of a type that is used, and constants and variables declared in one group with one that is used.
//
// Packages that hold nothing but tests and what tests need are left out.
func UnusedExports(packages []SourcePackage, outside types.Importer, reasons map[string]string) ([]string, error) {
	u := &exportUse{fset: token.NewFileSet(), outside: outside, checked: map[string]*types.Package{},
		used: map[types.Object]bool{}, inside: map[types.Object]bool{}, tested: map[string]bool{},
		methods: map[string][]*types.Interface{}}
	for _, p := range packages {
		if err := u.add(p); err != nil {
			return nil, err
		}
	}
	u.addOutsideInterfaces()
	u.followDeclarations()
	var lines []string
	needed := map[string]bool{}
	for _, obj := range u.exports {
		if u.used[obj] || u.usedGroup(obj) {
			continue
		}
		name := exportName(obj)
		reason := reasonFor(name, reasons)
		needed[reason] = true
		if reason == "" {
			lines = append(lines, fmt.Sprintf("%s: %s is used by no other package", u.fset.Position(obj.Pos()), name))
		}
	}
	for name := range reasons {
		if !needed[name] {
			lines = append(lines, name+" needs no reason to be exported")
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// reasonFor returns the key of the reason for a name, or "".
func reasonFor(name string, reasons map[string]string) string {
	for key := range reasons {
		prefix, open := strings.CutSuffix(key, "*")
		if key == name || open && strings.HasPrefix(name, prefix) {
			return key
		}
	}
	return ""
}

// exportUse collects what packages declare and what they use of each other.
type exportUse struct {
	fset    *token.FileSet
	outside types.Importer
	checked map[string]*types.Package

	exports []types.Object
	used    map[types.Object]bool // by another package
	inside  map[types.Object]bool // used by their own package
	tested  map[string]bool       // by their own external tests: import path, dot, name
	groups  [][]types.Object      // constants or variables declared together
	methods map[string][]*types.Interface
}

// Import implements types.Importer.
func (u *exportUse) Import(importPath string) (*types.Package, error) {
	if p := u.checked[importPath]; p != nil {
		return p, nil
	}
	return u.outside.Import(importPath)
}

// add type-checks a package and records its declarations and uses.
func (u *exportUse) add(p SourcePackage) error {
	var files []*ast.File
	for _, f := range p.Files {
		file, err := parser.ParseFile(u.fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", f.Path, err)
		}
		files = append(files, file)
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Types: map[ast.Expr]types.TypeAndValue{}}
	checked, err := (&types.Config{Importer: u}).Check(p.ImportPath, u.fset, files, info)
	if err != nil {
		return fmt.Errorf("check %s: %w", p.ImportPath, err)
	}
	u.checked[p.ImportPath] = checked
	rest, internal := strings.CutPrefix(p.ImportPath, Module+"/internal/")
	for _, obj := range info.Uses {
		if obj.Pkg() == checked {
			u.inside[origin(obj)] = true
		} else if obj.Pkg() != nil && !isTestSupport(rest) {
			u.used[origin(obj)] = true
		}
	}
	if err := u.addTests(p); err != nil {
		return err
	}
	for expr, t := range info.Types {
		if _, ok := expr.(*ast.InterfaceType); ok {
			u.addInterface(t.Type)
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			u.addGroup(decl, info)
		}
	}
	first, _, _ := strings.Cut(rest, "/")
	if internal && tests()[first] == "" && !strings.HasPrefix(rest+"/", "platform/testkit/") && !isTestSupport(rest) {
		u.addExports(checked)
	}
	return nil
}

// addTests records the names that a package's external tests select.
func (u *exportUse) addTests(p SourcePackage) error {
	for _, f := range p.Tests {
		file, err := parser.ParseFile(u.fset, f.Path, f.Text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", f.Path, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				u.tested[p.ImportPath+"."+selector.Sel.Name] = true
			}
			return true
		})
	}
	return nil
}

// addExports records the exported identifiers of a package, and the exported methods of its types.
func (u *exportUse) addExports(p *types.Package) {
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		_, isType := obj.(*types.TypeName)
		namesSchema := isType && strings.HasSuffix(p.Path(), "http")
		if obj.Exported() && !namesSchema {
			u.exports = append(u.exports, obj)
		}
		named, ok := obj.Type().(*types.Named)
		if !ok || !isType {
			continue
		}
		for method := range named.Methods() {
			if method.Exported() && obj.Exported() {
				u.exports = append(u.exports, method)
			}
		}
	}
}

// addGroup records constants or variables that are declared together.
func (u *exportUse) addGroup(decl ast.Decl, info *types.Info) {
	group, ok := decl.(*ast.GenDecl)
	if !ok || group.Tok != token.CONST && group.Tok != token.VAR {
		return
	}
	var members []types.Object
	for _, spec := range group.Specs {
		if values, ok := spec.(*ast.ValueSpec); ok {
			for _, name := range values.Names {
				members = append(members, info.Defs[name])
			}
		}
	}
	u.groups = append(u.groups, members)
}

func (u *exportUse) addInterface(t types.Type) {
	iface, ok := t.Underlying().(*types.Interface)
	if !ok {
		return
	}
	for method := range iface.Methods() {
		u.methods[method.Name()] = append(u.methods[method.Name()], iface)
	}
}

// addOutsideInterfaces records the interfaces of the packages that the module imports.
func (u *exportUse) addOutsideInterfaces() {
	imported := map[string]*types.Package{}
	for _, p := range u.checked {
		for _, i := range p.Imports() {
			imported[i.Path()] = i
		}
	}
	for importPath, p := range imported {
		if u.checked[importPath] != nil {
			continue
		}
		for _, name := range p.Scope().Names() {
			if t, ok := p.Scope().Lookup(name).(*types.TypeName); ok && t.Exported() {
				u.addInterface(t.Type())
			}
		}
	}
}

// followDeclarations marks what is used without being named by another package, and the types that used identifiers
// mention.
func (u *exportUse) followDeclarations() {
	for _, obj := range u.exports {
		if u.inside[obj] && u.tested[obj.Pkg().Path()+"."+obj.Name()] {
			u.used[obj] = true
		}
		if method, ok := obj.(*types.Func); ok && method.Signature().Recv() != nil && u.required(method) {
			u.used[obj] = true
		}
	}
	seen := map[types.Object]bool{}
	for grown := true; grown; {
		grown = false
		for _, obj := range slices.Collect(maps.Keys(u.used)) {
			if !seen[obj] {
				seen[obj], grown = true, true
				u.mention(obj.Type(), map[types.Type]bool{})
				if _, isType := obj.(*types.TypeName); isType {
					u.mention(obj.Type().Underlying(), map[types.Type]bool{})
				}
			}
		}
	}
}

// mention marks the named types in a declaration as used.
func (u *exportUse) mention(t types.Type, seen map[types.Type]bool) {
	if t == nil || seen[t] {
		return
	}
	seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		u.used[t.Obj()] = true
		u.mention(t.Rhs(), seen)
	case *types.Named:
		u.used[t.Origin().Obj()] = true
		for argument := range t.TypeArgs().Types() {
			u.mention(argument, seen)
		}
	case *types.Pointer:
		u.mention(t.Elem(), seen)
	case *types.Slice:
		u.mention(t.Elem(), seen)
	case *types.Array:
		u.mention(t.Elem(), seen)
	case *types.Chan:
		u.mention(t.Elem(), seen)
	case *types.Map:
		u.mention(t.Key(), seen)
		u.mention(t.Elem(), seen)
	case *types.Signature:
		u.mention(t.Params(), seen)
		u.mention(t.Results(), seen)
		for parameter := range t.TypeParams().TypeParams() {
			u.mention(parameter.Constraint(), seen)
		}
	case *types.Tuple:
		for v := range t.Variables() {
			u.mention(v.Type(), seen)
		}
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() {
				u.mention(field.Type(), seen)
			}
		}
	case *types.Interface:
		for method := range t.Methods() {
			u.mention(method.Type(), seen)
		}
		for embedded := range t.EmbeddedTypes() {
			u.mention(embedded, seen)
		}
	case *types.Union:
		for term := range t.Terms() {
			u.mention(term.Type(), seen)
		}
	}
}

// required reports whether an interface requires the method of its receiver's type, or libraries look it up by name.
func (u *exportUse) required(method *types.Func) bool {
	if lookedUp(method.Name()) {
		return true
	}
	receiver := method.Signature().Recv().Type()
	if _, ok := receiver.(*types.Pointer); !ok {
		receiver = types.NewPointer(receiver)
	}
	return slices.ContainsFunc(u.methods[method.Name()], func(i *types.Interface) bool {
		return types.Implements(receiver, i) || implementsGeneric(receiver, i)
	})
}

// implementsGeneric reports whether the type has all methods of an interface that belongs to a generic type or is
// implemented by one. Their type parameters are not compared.
func implementsGeneric(receiver types.Type, i *types.Interface) bool {
	set := types.NewMethodSet(receiver)
	generic := false
	for method := range i.Methods() {
		have := set.Lookup(method.Pkg(), method.Name())
		if have == nil {
			return false
		}
		generic = generic || mentionsParameter(method.Type()) || mentionsParameter(have.Type())
	}
	return generic
}

// mentionsParameter reports whether a method's parameters or results have a type parameter in them.
func mentionsParameter(t types.Type) bool {
	found := false
	signature, ok := t.(*types.Signature)
	if !ok {
		return false
	}
	for _, tuple := range []*types.Tuple{signature.Params(), signature.Results()} {
		for v := range tuple.Variables() {
			found = found || isParameterized(v.Type())
		}
	}
	return found
}

func isParameterized(t types.Type) bool {
	switch t := t.(type) {
	case *types.TypeParam:
		return true
	case *types.Pointer:
		return isParameterized(t.Elem())
	case *types.Slice:
		return isParameterized(t.Elem())
	case *types.Map:
		return isParameterized(t.Key()) || isParameterized(t.Elem())
	case *types.Named:
		for argument := range t.TypeArgs().Types() {
			if isParameterized(argument) {
				return true
			}
		}
	}
	return false
}

// lookedUp lists the methods that the standard library finds without a named interface.
func lookedUp(name string) bool {
	return slices.Contains([]string{"As", "Error", "Is", "LogValue", "MarshalJSON", "MarshalText", "MarshalYAML", "Scan",
		"String", "Temporary", "Timeout", "UnmarshalJSON", "UnmarshalText", "UnmarshalYAML", "Unwrap", "Value"}, name)
}

// usedGroup reports whether obj is a constant of a type that is used, or declared in a group with one that is used.
func (u *exportUse) usedGroup(obj types.Object) bool {
	if _, ok := obj.(*types.Const); ok {
		if named, ok := obj.Type().(*types.Named); ok && u.used[named.Obj()] {
			return true
		}
	}
	return slices.ContainsFunc(u.groups, func(group []types.Object) bool {
		return slices.Contains(group, obj) && slices.ContainsFunc(group, func(o types.Object) bool { return u.used[o] })
	})
}

// origin returns the declaration of an instantiated function, method or field.
func origin(obj types.Object) types.Object {
	switch obj := obj.(type) {
	case *types.Func:
		return obj.Origin()
	case *types.Var:
		return obj.Origin()
	}
	return obj
}

func exportName(obj types.Object) string {
	name := obj.Name()
	if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
		t := f.Signature().Recv().Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if named, ok := t.(*types.Named); ok {
			name = named.Obj().Name() + "." + name
		}
	}
	return strings.TrimPrefix(obj.Pkg().Path(), Module+"/") + "." + name
}
