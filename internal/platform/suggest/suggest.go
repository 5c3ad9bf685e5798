// Package suggest finds the name that a mistyped one probably means.
package suggest

import (
	"maps"
	"slices"
	"strings"
)

const (
	// maxWord bounds the names that are compared, in bytes.
	maxWord = 128
	// maxEdits is how many edits a long name may need. A short one may need one for each three bytes.
	maxEdits = 3
)

// Name returns the known name that is nearest to word, and whether one is near enough to be meant. Case and the
// separators - and _ do not count. Of several names the first is returned.
func Name(word string, known []string) (nearest string, ok bool) {
	if word == "" || len(word) > maxWord {
		return "", false
	}
	word = plain(word)
	best := min(maxEdits, max(1, len(word)/3)) + 1
	for _, name := range known {
		if n := distance(word, plain(name), best); n < best && !isAnother(word, plain(name)) {
			nearest, best, ok = name, n, true
		}
	}
	return nearest, ok
}

// Question returns ". Did you mean …?" with the nearest name, to end a sentence with, and nothing without one.
// aliases are known names by other names for them.
func Question(word string, known []string, aliases map[string]string) string {
	names := slices.Concat(known, slices.Sorted(maps.Keys(aliases)))
	name, ok := Name(word, names)
	for alias := range aliases {
		if plain(alias) == plain(word) {
			name, ok = alias, true
		}
	}
	if !ok {
		return ""
	}
	if of, ok := aliases[name]; ok {
		name = of
	}
	return ". Did you mean " + name + "?"
}

// minReplaced is how long a name is, in bytes, in which a replaced byte is a slip. A shorter one is another word.
const minReplaced = 5

// isAnother reports whether a short name is of other letters than a word of the same length.
func isAnother(word, name string) bool {
	if len(word) != len(name) || len(name) >= minReplaced {
		return false
	}
	return !slices.Equal(slices.Sorted(slices.Values([]byte(word))), slices.Sorted(slices.Values([]byte(name))))
}

func plain(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }

// distance returns how many bytes have to be inserted, deleted, replaced or exchanged with their neighbour to turn a
// into b (the distance of Damerau and Levenshtein, optimal string alignment); limit if they are that many or more.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return min(previous[len(b)], limit)
}
