package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sallyport/internal/platform/suggest"
)

// entry is one setting in the file, as it is written.
type entry struct {
	raw    string
	origin settingOrigin
}

// readYAML returns the settings of a file and all errors of its form: unknown keys, duplicate keys, keys that do not
// belong in a file, and values that are neither a scalar nor a list of scalars.
func readYAML(path string, text []byte) (map[string]entry, []problem) {
	whole := settingOrigin{Source: sourceFile, Name: path}
	doc, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		// The parser's own text quotes the file, which may hold a password.
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
			whole.Line = at.GetToken().Position.Line
		}
		return nil, []problem{{Origin: whole, Message: "is not YAML"}}
	}
	var mapping *ast.MappingNode
	for _, d := range doc.Docs {
		if d.Body == nil || isComment(d.Body) {
			continue
		}
		m, ok := d.Body.(*ast.MappingNode)
		if !ok || mapping != nil {
			return nil, []problem{{Origin: whole, Message: "is not one mapping of keys to values"}}
		}
		mapping = m
	}
	if mapping == nil {
		return nil, nil
	}
	return readMapping(path, mapping)
}

func readMapping(path string, mapping *ast.MappingNode) (map[string]entry, []problem) {
	known := map[string]setting{}
	for _, s := range settings() {
		known[s.name] = s
	}
	entries := map[string]entry{}
	var problems []problem
	for _, v := range mapping.Values {
		token := v.Key.GetToken()
		key, origin := token.Value, settingOrigin{Source: sourceFile, Name: path, Line: token.Position.Line}
		report := func(message string) { problems = append(problems, problem{Key: key, Origin: origin, Message: message}) }
		s, ok := known[key]
		if !ok {
			report("is not a setting" + suggestion(key))
			continue
		}
		if !s.file {
			report(s.describeSource())
			continue
		}
		if first, twice := entries[key]; twice {
			report(fmt.Sprintf("is set twice, first in line %d", first.origin.Line))
			continue
		}
		raw, err := written(v.Value)
		if err != nil {
			report(err.Error())
			continue
		}
		entries[key] = entry{raw: raw, origin: origin}
	}
	return entries, problems
}

// suggestion asks for the setting that an unknown key of a file probably means.
func suggestion(key string) string {
	var names []string
	for _, s := range settings() {
		if s.file {
			names = append(names, s.name)
		}
	}
	if name, ok := suggest.Name(key, names); ok {
		return ", did you mean " + name + "?"
	}
	return ""
}

// written returns a value as its text, lists joined by commas: the types are the settings', not YAML's.
func written(n ast.Node) (string, error) {
	if list, ok := n.(*ast.SequenceNode); ok {
		parts := make([]string, 0, len(list.Values))
		for _, item := range list.Values {
			s, err := scalar(item)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ","), nil
	}
	return scalar(n)
}

func scalar(n ast.Node) (string, error) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("has no value; remove the key or write an empty string")
	default:
		return "", errors.New("is neither a single value nor a list of values")
	}
}

func isComment(n ast.Node) bool {
	_, ok := n.(*ast.CommentGroupNode)
	return ok
}
