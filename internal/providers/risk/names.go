package risk

import (
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// wordsOf splits a name into lower-case words: at changes of case, and at everything that is no letter.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

// phrase is a verb and its object, such as “delete access key”. Either can be missing.
type phrase struct {
	verb string
	rest []string
	bulk string
}

// phraseOf takes the first word that can be a verb, after words such as “bulk”.
func phraseOf(words []string) (p phrase) {
	for len(words) > 1 && manner.is(words[0]) {
		if bulks.is(words[0]) {
			p.bulk = words[0]
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return p
	}
	p.rest = words
	if isVerb(words[0]) {
		p.verb, p.rest = words[0], words[1:]
	}
	return p
}

// isVerb reports whether a word is in a class of verbs.
func isVerb(w string) bool {
	for _, c := range []*class{&reads, &maybeReads, &creates, &updates, &issues, &destroys, &overwrites, &disables, &runs,
		&sends, &pays} {
		if c.is(w) {
			return true
		}
	}
	return false
}

// route is what a path says.
type route struct {
	// phrase is its last part, if that begins with a verb.
	phrase
	// object are the words of the parts that name the thing: those after the last parameter or, if the path ends in one,
	// those before it. Of a path without parameters it is the last part.
	object []string
	// way are the words of all parts without parameters and verb, all those of the whole path, static those without
	// parameters.
	way, all, static []string
	// parameters says whether there are any, last whether the path ends in one, dotted whether its last part follows a
	// dot or a colon, as in /chat.postMessage.
	parameters, last, dotted bool
}

// routeOf reads a path without its fragment, which is not sent.
func routeOf(method, path string) (r route) {
	var parts [][]string // nil for a parameter
	way, _, _ := strings.Cut(path, "#")
	for segment := range strings.SplitSeq(way, "/") {
		if isVersion(segment) {
			continue
		}
		pieces := strings.FieldsFunc(segment, func(c rune) bool { return strings.ContainsRune(".:?=&;,()", c) })
		for i, piece := range pieces {
			r.all = append(r.all, wordsOf(piece)...)
			before, rest, templated := strings.Cut(piece, "{")
			words := wordsOf(before)
			if templated {
				_, after, _ := strings.Cut(rest, "}")
				words = append(words, wordsOf(after)...)
				parts, r.parameters = append(parts, nil), true
			}
			if len(words) > 0 && (i == 0 || !isExtension(words)) {
				parts, r.dotted = append(parts, words), i > 0
				r.static = append(r.static, words...)
			}
		}
	}
	if len(parts) == 0 {
		return r
	}
	if r.last = parts[len(parts)-1] == nil; r.last {
		r.dotted = false
		parts = parts[:len(parts)-1]
	} else if r.phrase = verbOf(method, parts[len(parts)-1]); r.verb != "" {
		parts = parts[:len(parts)-1]
		r.way = append(r.way, r.rest...)
	}
	if n := len(parts); n > 1 && r.verb == "" && r.dotted && len(parts[n-2]) == 1 && isVerb(parts[n-2][0]) {
		r.phrase = phrase{verb: parts[n-2][0], rest: parts[n-1]} // as in /search.messages
	}
	r.way = slices.Concat(append(parts, r.way)...)
	r.object = objectOf(parts, r.parameters)
	return r
}

// verbOf reads the last part of a path as a phrase; its verb is empty if it is none.
func verbOf(method string, words []string) phrase {
	// “transferInstruments” are instruments, and nothing is transferred.
	p := phraseOf(words)
	if p.verb != "" && (!alsoNouns.is(p.verb) || !isPlural(p.rest)) {
		return p
	}
	end := words[len(words)-1]
	if verb := nominal(end); verb != "" && method == http.MethodPost {
		return phrase{verb: verb}
	}
	if len(words) > 1 && isVerb(end) && !alsoNouns.is(end) {
		return phrase{verb: end, rest: words[:len(words)-1]}
	}
	return phrase{}
}

func objectOf(parts [][]string, parameters bool) (object []string) {
	for len(parts) > 0 && parts[len(parts)-1] == nil {
		parts = parts[:len(parts)-1]
	}
	for i := len(parts) - 1; i >= 0 && parts[i] != nil; i-- {
		object = append(slices.Clone(parts[i]), object...)
		if !parameters {
			break
		}
	}
	return object
}

// batch is the last word of a path that takes other calls, if nothing before it names a thing: a path such as
// /contacts/batch is about contacts.
const batch = "batch"

// wrapping returns the word with which a path ends that takes calls within the body.
func (r *route) wrapping() (word string, found bool) {
	if r.last || len(r.static) == 0 {
		return "", false
	}
	end := r.static[len(r.static)-1]
	for _, word := range []string{end, strings.Join(r.static[max(0, len(r.static)-2):], "")} { // also as in json-rpc
		if wrapping.is(word) {
			return word, true
		}
	}
	named := slices.DeleteFunc(slices.Clone(r.static), func(w string) bool {
		return slices.Contains([]string{"api", "rest", "services", "data", "composite"}, w)
	})
	return batch, !r.parameters && slices.Equal(named, []string{batch})
}

func isExtension(words []string) bool {
	return len(words) == 1 && slices.Contains([]string{"json", "xml", "csv", "php", "aspx"}, words[0])
}

func isVersion(segment string) bool {
	return len(segment) > 1 && segment[0] == 'v' && segment[1] >= '0' && segment[1] <= '9'
}

// nameOf reads the id of an operation: as a phrase, and its last word if that is a verb. Ids that only spell the path
// say nothing.
func nameOf(method, id string, r *route) (p phrase, last string, all []string) {
	id = strings.TrimPrefix(id, method+"_")
	id, _, _ = strings.Cut(id, "Using"+method) // as in deletePadUsingGET
	all = wordsOf(id)
	if len(all) > 1 && strings.EqualFold(all[0], method) &&
		(isVague(method) || method != http.MethodDelete && r.isSpelled(all[1:])) {
		all = all[1:]
	}
	isMethod := func(w string) bool { return singular(w) == strings.ToLower(method) }
	if isVague(method) && !slices.ContainsFunc(r.all, isMethod) {
		all = r.withoutMethod(all, strings.ToLower(method))
	}
	if len(all) == 0 || r.isSpelled(all) && method != http.MethodDelete {
		return phrase{}, "", nil
	}
	end := id[strings.LastIndexAny(id, "/.:#")+1:]
	if _, after, found := cutLast(end, "_"); found && slices.ContainsFunc([]rune(after), unicode.IsUpper) {
		end = after
	}
	words := wordsOf(end)
	if len(words) > 1 && strings.EqualFold(words[0], method) && isVague(method) {
		words = words[1:]
	}
	if p = phraseOf(words); p.verb == "" {
		p = phraseOf(all)
	}
	p.rest = before(p.rest)
	if end := all[len(all)-1]; isVerb(end) && len(all) > 1 && (p.verb == "" && !r.last || !alsoNouns.is(end)) {
		last = end
	}
	return p, last, all
}

// withoutMethod leaves out the method from the words of an id: before others, as in Contacts_PostContacts, and behind
// those of the path, as in contacts_post. One that follows a verb is what that is done to, as in create_post.
func (r *route) withoutMethod(words []string, method string) (out []string) {
	last := len(words) - 1
	if last > 0 && words[last] == method && r.isSpelled(words[:last]) {
		return words[:last]
	}
	for i, w := range words {
		if w != method || i == last || i > 0 && isVerb(words[i-1]) {
			out = append(out, w)
		}
	}
	return out
}

// isVague reports whether a method says as a verb less than the verb that may follow it, as in PostCreateUser.
func isVague(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func cutLast(s, sep string) (string, string, bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// before are the words before those that say where, such as “for” in “create reaction for comment”.
func before(words []string) []string {
	for i, w := range words {
		if slices.Contains([]string{"for", "in", "by", "with", "of", "on", "via", "as", "without"}, w) {
			return words[:i]
		}
	}
	return words
}

// isSpelled reports whether words are those of the path.
func (r *route) isSpelled(words []string) bool {
	return slices.Equal(words, r.all) || slices.Equal(words, r.static)
}
