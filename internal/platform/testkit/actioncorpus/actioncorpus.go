// Package actioncorpus has actions of published APIs for tests of search, and queries with the actions that are right
// for each. See testdata/README.md.
package actioncorpus

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed testdata/corpus.jsonl.gz
var corpus []byte

// Action is a line of the corpus.
type Action struct {
	// Provider is the slug of the provider, and Display its name.
	Provider    string   `json:"provider"`
	Display     string   `json:"display"`
	Name        string   `json:"name"`
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	Title       string   `json:"title"`
	Tags        []string `json:"tags"`
	Description string   `json:"description"`
	Deprecated  bool     `json:"deprecated"`
}

// String is what the expressions of queries are matched with.
func (a *Action) String() string { return a.Provider + " " + a.Name + " " + a.Method + " " + a.Path }

// Read returns the actions, those of a provider one after the other.
func Read() (list []Action, err error) {
	text, err := gzip.NewReader(bytes.NewReader(corpus))
	if err != nil {
		return nil, fmt.Errorf("read the corpus of actions: %w", err)
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		var a Action
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("read the corpus of actions: %w", err)
		}
		list = append(list, a)
	}
	return list, lines.Err()
}
