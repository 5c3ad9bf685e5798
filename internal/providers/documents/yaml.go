package documents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits of documents in YAML.
const (
	// maxYAMLValues is how many values and keys the text has at most: each takes some 200 bytes while it is read.
	maxYAMLValues = 2_500_000
	// maxExpanded is how many there are at most where each alias is what it stands for.
	maxExpanded = 5_000_000
)

// OpenYAML reads a document in YAML, as FromYAML converts it. Its problems have the line of the YAML and no column.
// Errors are *Problem.
func OpenYAML(text []byte) (*Document, error) {
	converted, err := FromYAML(text)
	if err != nil {
		return nil, err
	}
	d, err := Open(converted)
	var problem *Problem
	if errors.As(err, &problem) {
		return nil, problem.withoutColumn()
	}
	if err != nil {
		return nil, err
	}
	d.isYAML = true
	return d, nil
}

// withoutColumn returns the problem without a column, which is that of the JSON.
func (p *Problem) withoutColumn() *Problem {
	if p == nil {
		return nil
	}
	return &Problem{Line: p.Line, Message: p.Message}
}

// FromYAML converts a document in YAML to JSON with the same lines, for Open: each key and each value is on the line on
// which it is in the YAML, and an alias brings no further lines. Plain scalars are those of the core schema of YAML
// 1.2; what JSON does not have is the text as it is written. See README.md. Errors are *Problem.
func FromYAML(text []byte) (converted []byte, err error) {
	// The text is foreign, and the library stops with a panic where it finds itself in a state that it does not know.
	defer func() {
		if r := recover(); r != nil {
			converted, err = nil, &Problem{Message: fmt.Sprintf("the YAML cannot be read: %v", r)}
		}
	}()
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if problem := checkYAML(text); problem != nil {
		return nil, problem
	}
	root, problem := parseYAML(text)
	if problem != nil {
		return nil, problem
	}
	w := newYAMLWriter(len(text))
	if problem := w.value(root, 0); problem != nil {
		return nil, problem
	}
	return w.out.Bytes(), nil
}

// checkYAML refuses a text that would take too much memory or time to parse. It counts the characters without which
// there is no further value.
func checkYAML(text []byte) *Problem {
	if len(text) > MaxBytes {
		return &Problem{Message: fmt.Sprintf("the document has more than %d MiB", MaxBytes>>20)}
	}
	if !utf8.Valid(text) {
		at := 0
		for at < len(text) {
			r, size := utf8.DecodeRune(text[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return yamlProblem(text, at, "the text is not UTF-8")
	}
	values := 0
	for i, c := range text {
		switch {
		case c == '-' && isBlankAt(text, i+1):
			values++
		case c == '?' && isBlankAt(text, i+1), c == ':', c == ',', c == '[', c == '{':
			values += 2
		case c == '%' && bytes.HasPrefix(text[i:], []byte("%TAG")) && beginsLine(text, i):
			// The time for these grows with the square of their number.
			return yamlProblem(text, i, "the directive %TAG is not supported")
		case c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f:
			return yamlProblem(text, i, "a control character")
		}
		if values > maxYAMLValues {
			return yamlProblem(text, i, fmt.Sprintf("the document has more than %d values, which are too many to read "+
				"from YAML: convert it to JSON", maxYAMLValues))
		}
	}
	return nil
}

func isBlankAt(text []byte, at int) bool {
	return at >= len(text) || text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'
}

// beginsLine reports whether a line begins at a place, for any line break that YAML has or had.
func beginsLine(text []byte, at int) bool {
	before := text[:at]
	for _, lineBreak := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasSuffix(before, []byte(lineBreak)) {
			return true
		}
	}
	return at == 0
}

func yamlProblem(text []byte, at int, message string) *Problem {
	before := text[:at]
	return &Problem{1 + bytes.Count(before, []byte{'\n'}), at - bytes.LastIndexByte(before, '\n'), message}
}

// yamlLimits bounds the depth. Aliases are not expanded by the library.
type yamlLimits struct{}

var errTooDeep = fmt.Errorf("more than %d arrays and objects within each other", maxDepth)

// CheckDepth implements yaml.LoaderLimitsPlugin.
func (yamlLimits) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return errTooDeep
	}
	return nil
}

// CheckAlias implements yaml.LoaderLimitsPlugin.
func (yamlLimits) CheckAlias(int, int) error { return nil }

// parseYAML returns the value that is the document.
func parseYAML(text []byte) (*yaml.Node, *Problem) {
	loader, err := yaml.NewLoader(withoutVersion(text), yaml.WithPlugin(yamlLimits{}))
	if err != nil {
		return nil, &Problem{Message: err.Error()}
	}
	var document, further yaml.Node
	err = loader.Load(&document)
	if errors.Is(err, io.EOF) {
		return nil, &Problem{1, 1, "the document is empty"}
	}
	if err != nil {
		return nil, libraryProblem(err)
	}
	err = loader.Load(&further)
	if err == nil {
		return nil, &Problem{further.Line, further.Column, "a second document begins here: expected one alone"}
	}
	if !errors.Is(err, io.EOF) {
		return nil, libraryProblem(err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, &Problem{Message: "the document is empty"}
	}
	return document.Content[0], nil
}

// withoutVersion reads a text in which a directive such as %YAML 1.2 at its beginning is a comment: the library refuses
// any version but 1.1, and it makes no difference.
func withoutVersion(text []byte) io.Reader {
	rest := text
	for {
		line, after, found := bytes.Cut(rest, []byte{'\n'})
		if bytes.HasPrefix(line, []byte("%YAML 1.")) {
			return io.MultiReader(bytes.NewReader(text[:len(text)-len(rest)]), strings.NewReader("#"),
				bytes.NewReader(rest[1:]))
		}
		if line = bytes.TrimSpace(line); !found || len(line) > 0 && line[0] != '#' {
			return bytes.NewReader(text)
		}
		rest = after
	}
}

// libraryProblem returns what the library found.
func libraryProblem(err error) *Problem {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return &Problem{Message: "the YAML cannot be read: " + short(printable(err.Error()), maxTitle)}
	}
	at := e.Mark
	if at.Line == 0 {
		at = e.ContextMark
	}
	message := e.Message
	if message != errTooDeep.Error() {
		message = "malformed YAML: " + strings.TrimSpace(e.ContextMsg+": "+message)
		message = strings.Replace(message, "malformed YAML: : ", "malformed YAML: ", 1)
	}
	return &Problem{at.Line, at.Column, short(printable(message), maxDescription)}
}
