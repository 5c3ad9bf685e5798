package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/internal/providers/risk"
)

// stored is the stored form of an action. Its members are short because there are many.
type stored struct {
	Name        string          `json:"n"`
	Title       string          `json:"t,omitempty"`
	Description string          `json:"d,omitempty"`
	Tags        []string        `json:"g,omitempty"`
	Deprecated  bool            `json:"x,omitempty"`
	DocsURL     string          `json:"u,omitempty"`
	Method      string          `json:"m"`
	Path        string          `json:"p"`
	BaseURL     string          `json:"h,omitempty"`
	Input       json.RawMessage `json:"i,omitempty"`
	Output      json.RawMessage `json:"o,omitempty"`
	Parameters  []Parameter     `json:"a,omitempty"`
	Body        Body            `json:"b,omitzero"`
	Scopes      [][]string      `json:"s,omitempty"`
	Pagination  *Pagination     `json:"l,omitempty"`
	Idempotency *Idempotency    `json:"k,omitempty"`
	Call        risk.Call       `json:"c"`
}

// Encode returns an action as JSON on one line, for Decode.
func (a *Action) Encode() ([]byte, error) {
	text, err := json.Marshal(stored(*a))
	if err != nil {
		return nil, fmt.Errorf("encode action %s: %w", a.Name, err)
	}
	return text, nil
}

// Decode reads what Encode has returned.
func Decode(text []byte) (*Action, error) {
	var s stored // members that a later release has added are for that release
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("decode an action: %w", err)
	}
	a := Action(s)
	return &a, nil
}

// Summary is what lists show of an action.
type Summary struct {
	Name  string `json:"n"`
	Title string `json:"t,omitempty"`
	// Description is the beginning of the action's, on one line.
	Description string    `json:"d,omitempty"`
	Tags        []string  `json:"g,omitempty"`
	Deprecated  bool      `json:"x,omitempty"`
	Method      string    `json:"m"`
	Path        string    `json:"p"`
	Risk        risk.Risk `json:"r"`
	// Content is the same for two actions exactly if all of them is the same: 32 hexadecimal digits.
	Content string `json:"c"`
}

// maxBeginning is the length of the beginning of a description, in bytes.
const maxBeginning = 160

// Shorten returns the beginning of a description, on one line and up to the end of a word.
func Shorten(description string) string {
	const mark = "…"
	var b strings.Builder
	for word := range strings.FieldsSeq(description) {
		if b.Len()+len(" ")+len(word)+len(mark) > maxBeginning {
			if b.Len() > 0 {
				b.WriteString(mark)
			}
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// Summarize returns the summary of an action, with the text that Encode has returned for it.
func (a *Action) Summarize(encoded []byte) Summary {
	sum := sha256.Sum256(encoded)
	return Summary{Name: a.Name, Title: a.Title, Description: Shorten(a.Description), Tags: a.Tags,
		Deprecated: a.Deprecated, Method: a.Method, Path: a.Path,
		Risk: risk.Assess(&a.Call), Content: hex.EncodeToString(sum[:16])}
}
