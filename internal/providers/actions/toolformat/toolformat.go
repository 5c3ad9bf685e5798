// Package toolformat writes an action as the definition of a tool: for the Model Context Protocol, and for the APIs of
// OpenAI, Anthropic and Gemini. See README.md.
package toolformat

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// Format is who reads a definition.
type Format string

// The formats.
const (
	// MCP is a tool of the Model Context Protocol, revisions 2025-06-18 and 2025-11-25.
	MCP Format = "mcp"
	// OpenAI is a function tool of the Responses API.
	OpenAI Format = "openai"
	// Anthropic is a client tool of the Messages API.
	Anthropic Format = "anthropic"
	// Gemini is a function declaration of the Gemini API.
	Gemini Format = "gemini"
)

// Formats returns every format.
func Formats() []Format { return []Format{MCP, OpenAI, Anthropic, Gemini} }

// Schema returns the schema with the formats, for the API.
func (Format) Schema(oas.Registry) *oas.Schema { return oas.Enum(Formats()) }

// Limits of definitions, in bytes.
const (
	// maxDefinition is the size of the largest definition.
	maxDefinition = 128 << 10
	// maxInlined is the size of the largest schema whose references were replaced by what they refer to.
	maxInlined = 64 << 10
	// maxText is the length of the longest description of a tool, and maxFunctionText that of OpenAI.
	maxText, maxFunctionText = 4096, 1024
	// maxDepth is how many arrays and objects of a schema or of arguments may be within each other.
	maxDepth = 500
)

// Tool is an action under the name that a caller sees.
type Tool struct {
	// Name has at most 64 ASCII letters, digits, underscores and hyphens, and begins with a letter or an underscore: what
	// all formats accept.
	Name   string
	Action *actions.Action
	Risk   risk.Risk
}

// Definition is a tool in a format. It is safe for concurrent use.
type Definition struct {
	Format Format
	// JSON is the definition as the reader takes it. Equal tools give equal bytes.
	JSON json.RawMessage
	// Names are the properties of the input, at any depth, that have another name in the definition: by that name. It is
	// nil if there are none.
	Names map[string]string
	// Strict is true of a definition of OpenAI in strict mode, in which every property is sent: null stands for one that
	// is absent.
	Strict bool
	// Notes say in words what of the action the definition does not express.
	Notes []string
	// input is the schema of the action's input.
	input []byte
}

var errName = errors.New("the name of a tool must have 1 to 64 ASCII letters, digits, underscores and hyphens, and " +
	"begin with a letter or an underscore")

// nameForm is what every format takes as the name of a tool.
var nameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// Render writes a tool in a format. It fails for a name that not all formats accept, for another format, and for
// schemas that are not JSON.
func Render(f Format, t *Tool) (*Definition, error) {
	if !nameForm.MatchString(t.Name) {
		return nil, errName
	}
	input := []byte(t.Action.Input)
	if len(input) == 0 {
		input = []byte(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	root, err := parse(input)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the input: %w", err)
	}
	d := &Definition{Format: f, input: input}
	switch f {
	case MCP:
		err = d.mcp(t, root)
	case OpenAI:
		d.openAI(t, root)
	case Anthropic:
		d.anthropic(t, root)
	case Gemini:
		d.gemini(t, root)
	default:
		err = fmt.Errorf("there is no format %q; the formats are mcp, openai, anthropic and gemini", string(f))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func parse(schema []byte) (jsonindex.Value, error) {
	x, err := jsonindex.Parse(schema, maxDepth)
	if err != nil {
		return jsonindex.Value{}, err //nolint:wrapcheck // the caller says what was read
	}
	return x.Root(), nil
}

// note adds a sentence about what is lost.
func (d *Definition) note(text string) {
	if !slices.Contains(d.Notes, text) {
		d.Notes = append(d.Notes, text)
	}
}

// text returns the description of a tool for a model: the title, and what the source says.
func text(a *actions.Action, limit int) string {
	title, description := strings.TrimSpace(a.Title), strings.TrimSpace(a.Description)
	switch {
	case description == "" && title == "":
		description = a.Method + " " + a.Path
	case description == "":
		description = title
	case title != "" && !strings.HasPrefix(strings.ToLower(description), strings.ToLower(strings.TrimRight(title, "."))):
		description = strings.TrimRight(title, ".") + ".\n\n" + description
	}
	if a.Deprecated {
		description = "Deprecated. " + description
	}
	return cut(description, limit)
}

// cut returns a text of at most so many bytes, up to the end of a word, and shows that it was cut.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "")
	if len(text) <= limit {
		return text
	}
	end := max(0, limit-len("…"))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	if at := strings.LastIndexAny(text[:end], " \n\t"); at > end/2 {
		end = at
	}
	if end == 0 {
		return ""
	}
	return strings.TrimRight(text[:end], " \n\t.,;:") + "…"
}
