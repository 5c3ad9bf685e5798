package actionindex

import (
	"strings"
	"unicode"
)

const (
	// named is what the scores of a provider's actions are multiplied by if a query names the provider.
	named = 2
	// maxQuery is how much of a query is read, in bytes: as much as counts in a search.
	maxQuery = 1 << 10
)

// Boosts returns what the scores of each provider's actions are multiplied by in a search for a text: more if the text
// has one of the provider's names as whole words. names are those of each provider, as slugs or as people write them.
func Boosts(text string, names [][]string) []float32 {
	words := " " + spaced(text[:min(len(text), maxQuery)]) + " "
	out := make([]float32, len(names))
	for i, list := range names {
		out[i] = 1
		for _, name := range list {
			if name = spaced(name); name != "" && (strings.Contains(words, " "+name+" ") ||
				strings.Contains(words, " "+strings.ReplaceAll(name, " ", "")+" ")) {
				out[i] = named
			}
		}
	}
	return out
}

// spaced returns the words of a text in lower case, with one blank between them.
func spaced(text string) string {
	return strings.ToLower(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}), " "))
}
