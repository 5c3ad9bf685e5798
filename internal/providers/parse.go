package providers

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sallyport/internal/verification"
)

// Fault is one thing wrong with a definition file.
type Fault struct {
	File string
	// Line counts from 1; 0 when the fault has no place in the file.
	Line int
	// Field is the path of the field at fault, such as "webhooks.signature[0].from"; empty for YAML that is not well formed.
	Field   string
	Message string
}

// String returns "file:line: field message".
func (f Fault) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Field == "" {
		return place + ": " + f.Message
	}
	return place + ": " + f.Field + " " + f.Message
}

// LoadError carries the faults of all definition files.
type LoadError struct{ Faults []Fault }

// Error lists the faults, one a line.
func (e *LoadError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return "provider definitions: " + strings.Join(lines, "\n")
}

// parse reads and checks one file.
func parse(name string, data []byte) (*Provider, []Fault) {
	var faults []Fault
	var file *ast.File
	wrong := func(field, message string) {
		faults = append(faults, Fault{File: name, Line: lineOf(file, field), Field: field, Message: message})
	}
	if !utf8.Valid(data) {
		wrong("", "is not UTF-8")
		return nil, faults
	}
	if line, message := refuseTokens(string(data)); message != "" {
		return nil, []Fault{{File: name, Line: line, Message: message}}
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, []Fault{yamlFault(name, err)}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, []Fault{{File: name, Message: "must hold exactly one YAML document"}}
	}
	d := Definition{}
	if err := yaml.NodeToValue(file.Docs[0].Body, &d, yaml.Strict()); err != nil {
		return nil, []Fault{yamlFault(name, err)}
	}
	d.check(strings.TrimSuffix(name, ".yaml"), wrong)
	p := &Provider{Definition: d}
	if d.Webhooks != nil {
		p.Webhooks, err = verification.Compile(*d.Webhooks)
		var config *verification.ConfigError
		switch {
		case errors.As(err, &config):
			for _, f := range config.Faults {
				wrong("webhooks."+f.Field, f.Message)
			}
		case err != nil:
			wrong("webhooks", err.Error())
		}
	}
	return p, faults
}

const (
	maxFlowDepth   = 8  // of [ and {
	maxEntryColumn = 64 // of the - of a list entry: lists can nest on one line
)

// refuseTokens refuses what a definition has no use for and what makes reading YAML expensive or surprising: anchors,
// aliases, merge keys, tags, directives, ? keys and deep nesting.
func refuseTokens(text string) (line int, message string) {
	depth := 0
	for _, t := range lexer.Tokenize(text) {
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

func yamlFault(name string, err error) Fault {
	f := Fault{File: name, Message: "is not a provider definition"}
	var detail yaml.Error
	if errors.As(err, &detail) {
		f.Message = detail.GetMessage()
		if t := detail.GetToken(); t != nil && t.Position != nil {
			f.Line = t.Position.Line
		}
	}
	return f
}

// lineOf returns the line of a field, or of the nearest field around it that the file has.
func lineOf(file *ast.File, field string) int {
	for file != nil && field != "" {
		if path, err := yaml.PathString("$." + field); err == nil {
			if node, err := path.FilterFile(file); err == nil && node != nil && node.GetToken() != nil {
				return node.GetToken().Position.Line
			}
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return 0
}
