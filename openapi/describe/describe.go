package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sallyport/internal/platform/httpapi"
)

// module is the path of the module, which all wire structs are in.
const module = "sallyport/"

// comments holds the comments of fields by their package, type and name.
type comments map[string]map[string]map[string]string

// describe returns descriptions.json: the comments of the fields, read from the source below root.
func describe(root string, fields []httpapi.Field) ([]byte, error) {
	source, selected := comments{}, comments{}
	for _, f := range fields {
		if source[f.Package] == nil {
			dir := filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(f.Package, module)))
			found, err := readPackage(dir)
			if err != nil {
				return nil, err
			}
			source[f.Package] = found
		}
		if text := source[f.Package][f.Type][f.Name]; text != "" {
			selected.set(f, text)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(selected)
	return b.Bytes(), err
}

func (c comments) set(f httpapi.Field, text string) {
	if c[f.Package] == nil {
		c[f.Package] = map[string]map[string]string{}
	}
	if c[f.Package][f.Type] == nil {
		c[f.Package][f.Type] = map[string]string{}
	}
	c[f.Package][f.Type][f.Name] = text
}

// readPackage returns the comments of the fields in the package's structs, by type and name. It reads no tests.
func readPackage(dir string) (map[string]map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the source of wire structs: %w", err)
	}
	found, derived := map[string]map[string]string{}, map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read the source of wire structs: %w", err)
		}
		for _, d := range file.Decls {
			if types, ok := d.(*ast.GenDecl); ok {
				readTypes(types, found, derived)
			}
		}
	}
	for name, from := range derived {
		if texts, ok := found[from]; ok {
			found[name] = texts
		}
	}
	return found, nil
}

// readTypes adds the fields of structs to found, and to derived the types that are declared by another's name, which
// have its fields.
func readTypes(d *ast.GenDecl, found map[string]map[string]string, derived map[string]string) {
	for _, spec := range d.Specs {
		t, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		switch declared := t.Type.(type) {
		case *ast.StructType:
			found[t.Name.Name] = readFields(declared)
		case *ast.Ident:
			derived[t.Name.Name] = declared.Name
		}
	}
}

func readFields(structure *ast.StructType) map[string]string {
	texts := map[string]string{}
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			texts[name.Name] = unwrap(field.Doc.Text())
		}
	}
	return texts
}

// listItem matches the beginning of an item of a Markdown list.
var listItem = regexp.MustCompile(`^ *([-*]|\d+\.) `)

// unwrap joins the lines of each paragraph and of each list item.
func unwrap(comment string) string {
	var b strings.Builder
	before := ""
	for line := range strings.Lines(comment) {
		line = strings.TrimRight(line, " \n")
		switch {
		case b.Len() == 0:
		case line == "" || before == "" || listItem.MatchString(line):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
			line = strings.TrimLeft(line, " ")
		}
		b.WriteString(line)
		before = line
	}
	return strings.TrimSpace(b.String())
}
