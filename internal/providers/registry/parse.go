package registry

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// Problem is one error of a definition file.
type Problem struct {
	File string `json:"file"`
	// Line counts from 1; 0 if the problem has no place in the file.
	Line int `json:"line,omitempty"`
	// Field is the path of the invalid field, such as "webhooks.signature[0].from"; empty for YAML that is not well
	// formed.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// String returns "file:line: field: message", without unknown parts.
func (f Problem) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Field == "" {
		return place + ": " + f.Message
	}
	return place + ": " + f.Field + ": " + f.Message
}

// LoadError lists the problems of all definition files.
type LoadError struct{ Problems []Problem }

// newLoadError sorts the problems by files and lines, with those of a whole file last.
func newLoadError(problems []Problem) *LoadError {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(uint(a.Line-1), uint(b.Line-1))) // line 0 wraps round
	})
	return &LoadError{Problems: problems}
}

// Error lists the problems, one a line.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, f := range e.Problems {
		lines[i] = f.String()
	}
	return "provider definitions: " + strings.Join(lines, "\n")
}

// maxProblems bounds what is said of one file.
const maxProblems = 50

// parse reads and checks one file, an operator's if builtin is given. The provider is nil if there are problems.
func parse(file definitionFile, builtin *Registry) (*Provider, []Problem) {
	name, data := file.name, file.data
	if !utf8.Valid(data) {
		return nil, []Problem{{File: name, Message: "is not UTF-8"}}
	}
	tokens := lexer.Tokenize(string(data))
	if line, message := refuseTokens(tokens); message != "" {
		return nil, []Problem{{File: name, Line: line, Message: message}}
	}
	document, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, []Problem{yamlFault(name, err)}
	}
	if len(document.Docs) != 1 || document.Docs[0].Body == nil {
		return nil, []Problem{{File: name, Message: "must contain exactly one YAML document"}}
	}
	var problems []Problem
	root := document.Docs[0].Body
	wrong := func(field, message string) {
		switch {
		case len(problems) < maxProblems:
			problems = append(problems, Problem{File: name, Line: lineOf(root, field), Field: clip(field), Message: message})
		case len(problems) == maxProblems:
			problems = append(problems, Problem{File: name, Message: "has more problems than these"})
		}
	}
	if newShapes(wrong).check(root, reflect.TypeFor[Definition](), ""); len(problems) > 0 {
		return nil, problems
	}
	d := Definition{}
	if err := yaml.NodeToValue(root, &d, yaml.Strict()); err != nil {
		return nil, []Problem{yamlFault(name, err)}
	}
	d.check(strings.TrimSuffix(name, ".yaml"), builtin, wrong)
	if !isHTTPS(d.DocsURL) && (d.DocsURL != "" || !file.imported) {
		wrong("docs_url", "must be an https URL")
	}
	p := &Provider{Definition: d, Source: SourceBuiltin, sum: sha256.Sum256(data)}
	if builtin != nil {
		p.Source = SourceFolder
	}
	if d.Webhooks != nil {
		p.Webhooks, err = verification.Compile(*d.Webhooks)
		var config *verification.ConfigError
		switch {
		case errors.As(err, &config):
			for _, f := range config.Problems {
				wrong("webhooks."+f.Field, f.Message)
			}
		case err != nil:
			wrong("webhooks", err.Error())
		}
	}
	if !d.Outbound.Empty() {
		p.Outbound, err = outbound.Compile(d.Outbound)
		var config *outbound.ConfigError
		switch {
		case errors.As(err, &config):
			for _, f := range config.Problems {
				wrong(f.Field, f.Message)
			}
		case err != nil:
			wrong("auth", err.Error())
		}
	}
	p.compileCalls(wrong, len(problems) == 0)
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

// compileCalls makes the actions of a definition. Without an outbound half because of problems, nothing can be said
// about them.
func (p *Provider) compileCalls(wrong report, good bool) {
	if !good && p.Outbound == nil {
		return
	}
	list, rules, problems := declared.Compile(&p.Definition.Calls, p.Outbound)
	for _, f := range problems {
		wrong(f.Field, f.Message)
	}
	p.Actions, p.Rules, p.Definition.Calls = list, rules, declared.Declaration{}
}

// clip cuts a field's path short where the file makes up its own names, and before the first character that no field's
// name has: what is no definition at all, such as a link to a file of passwords, must not end up in the log.
func clip(field string) string {
	const most = 200
	end := strings.IndexFunc(field, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-[] ", r)
	})
	if end < 0 {
		end = len(field)
	}
	if end = min(end, most); end == len(field) {
		return field
	}
	return field[:end] + "…"
}

const (
	maxFlowDepth   = 8  // of [ and {
	maxEntryColumn = 64 // of the - of a list entry: lists can nest on one line
	// maxEntries bounds keys, list entries and commas: the YAML parser's work grows with their square.
	maxEntries = 4096
)

// refuseTokens refuses what a definition has no use for and what makes reading YAML expensive or surprising: anchors,
// aliases, merge keys, tags, directives, ? keys and deep nesting.
func refuseTokens(tokens token.Tokens) (line int, message string) {
	depth, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingValueType, token.SequenceEntryType, token.CollectEntryType:
			if entries++; entries > maxEntries {
				return t.Position.Line, "has more entries than a definition can have"
			}
		default:
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			message = "anchors, aliases and merge keys are not allowed"
		case token.TagType, token.DirectiveType:
			message = "tags and directives are not allowed"
		case token.MappingKeyType:
			message = "keys with ? are not allowed"
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > maxFlowDepth {
				message = "nests too deep"
			}
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			if t.Position.Column > maxEntryColumn {
				message = "nests too deep"
			}
		default:
		}
		if message != "" {
			return t.Position.Line, message
		}
	}
	return 0, ""
}

func yamlFault(name string, err error) Problem {
	f := Problem{File: name, Message: "is not a provider definition"}
	var detail yaml.Error
	if errors.As(err, &detail) {
		f.Message = strings.Map(func(r rune) rune { // which may quote the file, and stands on one line
			if unicode.IsPrint(r) {
				return r
			}
			return unicode.ReplacementChar
		}, detail.GetMessage())
		if t := detail.GetToken(); t != nil && t.Position != nil {
			f.Line = t.Position.Line
		}
	}
	return f
}
