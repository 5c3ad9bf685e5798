package subscriptions

import (
	"slices"
	"strings"
	"unicode"

	"sallyport/internal/platform/suggest"
	"sallyport/internal/providers/eventtypes"
)

// maxSuggestions bounds the warnings of one request that look for what was meant, each among all known types.
const maxSuggestions = 10

// suggesting returns the warning with the known type or pattern that is probably meant, if there is one.
func (w Warning) suggesting(nearest string) Warning {
	if nearest != "" {
		w.Message += ". Did you mean " + nearest + "?"
	}
	return w
}

// nearestType returns the known type or family that is probably meant by a pattern that fits none, as the provider
// writes it; empty if none is near enough.
func nearestType(providers []*eventtypes.Provider, text string) string {
	if all := text + ".*"; len(providers) > 0 && !strings.HasSuffix(text, "*") && mayFit(providers, all) {
		return all // the name of an event whose types have an action
	}
	for _, p := range providers {
		if name := otherSpelling(p, text); name != "" {
			return name
		}
	}
	for _, p := range providers {
		if name := ofFamily(p, text); name != "" {
			return name
		}
	}
	var names []string
	for _, p := range providers {
		names = append(names, alike(p, text)...)
	}
	name, _ := suggest.Name(text, slices.DeleteFunc(names, func(name string) bool { return !isSlip(text, name) }))
	return name
}

// isSlip reports whether a text can be a slip of the pen for a name: each of its words is nearly that of the name.
// user.created is nothing that anyone writes for star.created.
func isSlip(text, name string) bool {
	words, others := strings.Split(text, "."), strings.Split(name, ".")
	if len(words) != len(others) {
		return true
	}
	for i, word := range words {
		if _, near := suggest.Name(word, []string{others[i]}); !near && word != others[i] {
			return false
		}
	}
	return true
}

// otherSpelling returns the known type that differs from text in its separators and capitals alone, as ORDERS_CREATE of
// Shopify's GraphQL does from orders/create.
func otherSpelling(p *eventtypes.Provider, text string) string {
	word := letters(text)
	for _, k := range p.Known {
		if word != "" && letters(k.Written) == word && !strings.HasSuffix(text, "*") {
			return k.Written
		}
	}
	return ""
}

// ofFamily returns text within the provider's only family, if it does not begin as types do: /deploy is a command of
// Slack's.
func ofFamily(p *eventtypes.Provider, text string) string {
	if strings.HasSuffix(text, "*") || strings.HasPrefix(text, ".") ||
		strings.IndexFunc(text, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) == 0 {
		return ""
	}
	family := ""
	for _, k := range p.Known {
		if before, is := strings.CutSuffix(k.Written, "*"); is {
			if family != "" {
				return ""
			}
			family = before
		}
	}
	if family == "" {
		return ""
	}
	return family + text
}

// alike returns the names that a mistyped text may mean: types for a type, and for a pattern of a family all families,
// of which each begins types that are known.
func alike(p *eventtypes.Provider, text string) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, k := range p.Known {
		if !strings.HasSuffix(text, "*") {
			add(k.Written)
			continue
		}
		for i, c := range k.Written {
			if c == '.' || strings.ContainsRune(p.Rules.Separators(), c) {
				add(k.Written[:i+1] + "*")
			}
		}
	}
	return names
}

// letters returns the letters and digits of a text in lower case.
func letters(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, text)
}
