package fulltext

import "bytes"

// stem returns the stem of an English word, which it may change in place: plurals, the endings -ing and -ed, and an e
// or a y at the end. A stem is no word; it is the same for the forms of one. Words with digits or letters outside a–z
// are returned as they are.
func stem(w []byte) []byte {
	if len(w) < 4 {
		return w
	}
	for _, c := range w {
		if c < 'a' || c > 'z' {
			return w
		}
	}
	w = singular(w)
	switch {
	case ends(w, "ied") && len(w) > 4:
		w = w[:len(w)-2]
	case ends(w, "ing") && hasVowel(w[:len(w)-3]) && len(w) > 5:
		w = base(w[:len(w)-3])
	case ends(w, "ed") && !ends(w, "eed") && hasVowel(w[:len(w)-2]) && len(w) > 4:
		w = base(w[:len(w)-2])
	}
	if len(w) > 4 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	if n := len(w); n > 3 && w[n-1] == 'y' && !vowel(w[n-2]) {
		w[n-1] = 'i'
	}
	if len(w) > 5 && ends(w, "ll") {
		w = w[:len(w)-1]
	}
	return w
}

func singular(w []byte) []byte {
	switch string(w) {
	case "alias", "atlas", "canvas", "kubernetes", "news":
		return w
	}
	switch n := len(w); {
	case !ends(w, "s") || ends(w, "ss") || ends(w, "us") || ends(w, "is"):
		return w
	case ends(w, "ies") && n > 4:
		return w[:n-2]
	case ends(w, "xes") || ends(w, "zzes"):
		return w[:n-2]
	default:
		return w[:n-1]
	}
}

// base returns a word of which an ending was removed: without the second of two equal consonants, as in planned, and
// with the e that short words end in, as in rated. The word has room for it.
func base(w []byte) []byte {
	n := len(w)
	last := w[n-1]
	switch {
	case vowel(last) || last == 'w' || last == 'x' || last == 'y':
	case n > 3 && last == w[n-2] && last != 's' && last != 'l' && last != 'z':
		return w[:n-1]
	case n == 3 && !vowel(w[0]) && (vowel(w[1]) || w[1] == 'y'):
		return append(w, 'e')
	}
	return w
}

func ends(w []byte, suffix string) bool { return bytes.HasSuffix(w, []byte(suffix)) }

func hasVowel(w []byte) bool {
	for _, c := range w {
		if vowel(c) || c == 'y' {
			return true
		}
	}
	return false
}

func vowel(c byte) bool { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' }

// stopWord reports words that say nothing about a document. They are in no segment.
func stopWord(w []byte) bool {
	switch string(w) {
	case "a", "an", "the", "of", "to", "in", "into", "for", "on", "at", "by", "with", "from", "and", "or", "as", "is",
		"are", "was", "be", "been", "it", "its", "this", "that", "these", "those", "which", "who", "whom", "i", "me", "my",
		"mine", "we", "our", "us", "you", "your", "he", "she", "they", "their", "them", "please", "can", "could", "should",
		"would", "will", "may", "must", "do", "does", "how", "what", "want", "need", "if", "then", "so", "also", "there",
		"has", "have", "some", "any", "all", "s", "t":
		return true
	}
	return false
}
