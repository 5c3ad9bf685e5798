package risk

import "strings"

// WordTable returns every class of words as rows of a table.
func WordTable() string {
	var b strings.Builder
	b.WriteString("| Class | Effect | Words |\n|---|---|---|\n")
	for _, c := range classes() {
		b.WriteString("| " + c.title + " | " + c.effect + " | `" + strings.Join(c.words, " ") + "` |\n")
	}
	return b.String()
}

// WordsTwice returns words that a class has twice, and classes without words.
func WordsTwice() (twice []string) {
	for _, c := range classes() {
		seen := map[string]bool{}
		for _, w := range c.words {
			if seen[w] {
				twice = append(twice, c.title+": "+w)
			}
			seen[w] = true
		}
		if len(c.words) == 0 {
			twice = append(twice, c.title)
		}
	}
	return twice
}
