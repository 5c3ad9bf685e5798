package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

// MaxName is the length of the longest name of an action or a tool, in bytes. Names are lower-case ASCII letters,
// digits and underscores, and begin with a letter.
const MaxName = 48

// hashDigits is how many hexadecimal digits distinguish names that would be equal or too long.
const hashDigits = 6

// Name returns the name of an action by the id of its operation; by its method and path if there is none. It depends on
// these alone, so that it stays the same with any other operations in a document.
func Name(operationID, method, path string) string {
	name := snake(operationID)
	if name == "" {
		name = snake(strings.ToLower(method) + " " + pathName(path))
	}
	if name[0] < 'a' || name[0] > 'z' {
		name = strings.ToLower(method) + "_" + name
	}
	return short(name, method+path)
}

// Distinct returns a name for an action whose name another action of the same document has, too.
func Distinct(name, method, path string) string {
	return cut(name, MaxName-hashDigits-1) + "_" + hash(method+path)
}

// ToolName returns the name of an action among the actions of all providers.
func ToolName(provider, action, method, path string) string {
	return short(strings.ReplaceAll(provider, "-", "_")+"__"+action, method+path)
}

// short shortens a name that is too long: at a word, and with a hash so that it stays unique.
func short(name, of string) string {
	if len(name) <= MaxName {
		return name
	}
	return cut(name, MaxName-hashDigits-1) + "_" + hash(of)
}

// cut returns the beginning of a name, up to the end of a word.
func cut(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	if at := strings.LastIndexByte(name[:limit+1], '_'); at > limit/2 {
		return strings.TrimRight(name[:at], "_")
	}
	return strings.TrimRight(name[:limit], "_")
}

func hash(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])[:hashDigits]
}

// pathName names a path by its words and parameters.
func pathName(path string) string {
	return strings.NewReplacer("{", " by ", "}", " ").Replace(path)
}

// snake writes a text as lower-case ASCII words with underscores between them; empty if it has no such word.
func snake(text string) string {
	var out []byte
	runes := []rune(strings.ReplaceAll(text, "OAuth", "Oauth"))
	gap := false
	for i, r := range runes {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			gap = true
			continue
		}
		if unicode.IsUpper(r) && i > 0 && (isLower(runes[i-1]) || i+1 < len(runes) && unicode.IsUpper(runes[i-1]) &&
			isLower(runes[i+1])) {
			gap = true
		}
		if gap && len(out) > 0 {
			out = append(out, '_')
		}
		gap = false
		out = append(out, byte(unicode.ToLower(r))) //nolint:gosec // it is ASCII
	}
	return string(out)
}

func isLower(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
