package actioncorpus

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
)

// Query is what a person or a model types, and which actions are right.
type Query struct {
	Text string `json:"text"`
	// Expression is a regular expression, without regard to case, for the text of an action; see Action.String.
	Expression string `json:"right"`
}

// Right returns the expression that matches the right actions.
func (q Query) Right() *regexp.Regexp { return regexp.MustCompile("(?i)" + q.Expression) }

//go:embed testdata/queries.json
var queries []byte

// Queries returns queries that were written before the ranking was tuned. Do not change one so that it passes.
func Queries() []Query { return parse(queries) }

//go:embed testdata/heldout.json
var heldOut []byte

// HeldOut returns queries that were written after the ranking was tuned. It is not tuned to them: what they find says
// what it is worth for others.
func HeldOut() []Query { return parse(heldOut) }

func parse(text []byte) (list []Query) {
	if err := json.Unmarshal(text, &list); err != nil {
		panic(fmt.Sprintf("the queries of the corpus: %v", err))
	}
	return list
}
