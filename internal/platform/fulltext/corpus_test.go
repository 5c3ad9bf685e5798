package fulltext_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// action is a line of the corpus.
type action struct {
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
func (a *action) String() string { return a.Provider + " " + a.Name + " " + a.Method + " " + a.Path }

// readCorpus reads the actions of the tests.
func readCorpus(t testing.TB) []action {
	t.Helper()
	list, err := loadCorpus()
	require.NoError(t, err)
	return list
}

func loadCorpus() (list []action, err error) {
	file, err := os.ReadFile("testdata/corpus.jsonl.gz")
	if err != nil {
		return nil, err
	}
	text, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		var a action
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, lines.Err()
}
