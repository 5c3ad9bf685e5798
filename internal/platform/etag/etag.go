// Package etag makes changes of a resource conditional on its version: entity tags, and the request headers If-Match
// and If-None-Match (RFC 9110 sections 8.8.3 and 13.1). The HTTP layer parses If-Match into the context of a request,
// and the service that makes the change compares it with the stored version in the transaction of the change, where no
// other change can come between.
package etag

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
)

// Tag is an entity tag in the form of the header ETag, with its quotes. All tags that the service gives out are strong.
type Tag string

// tagBytes is the length of the digest in a tag.
const tagBytes = 15

// Of returns the tag of a version, which the parts identify among all versions of one resource. They are anything that
// has a JSON form: a number that grows with every change, or what the resource shows.
func Of(parts ...any) Tag {
	text, err := json.Marshal(parts)
	if err != nil {
		// Only a programmer can cause it: parts are numbers, texts and structs of them.
		panic("etag: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return Tag(`"` + base64.RawURLEncoding.EncodeToString(sum[:tagBytes]) + `"`)
}

// Condition is the value of If-Match or If-None-Match. The zero Condition has no tags, so it matches nothing.
type Condition struct {
	// any is the condition "*", which every version meets.
	any bool
	// strong and weak hold the tags that were sent, without W/.
	strong, weak []Tag
}

// ErrSyntax reports a header that is neither "*" nor a list of entity tags.
var ErrSyntax = errors.New(`must be * or a list of entity tags in double quotes`)

// Parse reads the values of the header, which are one list (RFC 9110 section 5.3). Errors: ErrSyntax.
func Parse(values []string) (Condition, error) {
	rest := strings.Trim(strings.Join(values, ","), " \t")
	if rest == "*" {
		return Condition{any: true}, nil
	}
	var c Condition
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			break
		}
		if rest[0] == ',' { // empty elements of a list are ignored (RFC 9110 section 5.6.1.2)
			rest = rest[1:]
			continue
		}
		list := &c.strong
		if after, weak := strings.CutPrefix(rest, "W/"); weak {
			rest, list = after, &c.weak
		}
		end := tagEnd(rest)
		if end < 0 {
			return Condition{}, ErrSyntax
		}
		*list = append(*list, Tag(rest[:end]))
		rest = strings.TrimLeft(rest[end:], " \t")
		if rest != "" && rest[0] != ',' {
			return Condition{}, ErrSyntax
		}
	}
	if len(c.strong)+len(c.weak) == 0 {
		return Condition{}, ErrSyntax
	}
	return c, nil
}

// tagEnd returns the length of the opaque tag with which s begins, with its quotes; negative if there is none.
func tagEnd(s string) int {
	if s == "" || s[0] != '"' {
		return -1
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1
		case s[i] <= ' ' || s[i] == 0x7f:
			return -1
		}
	}
	return -1
}

// Matches reports whether If-Match holds for a version: by the strong comparison, under which a weak tag equals none.
func (c Condition) Matches(t Tag) bool { return c.any || slices.Contains(c.strong, t) }

// MatchesWeakly reports whether If-None-Match names a version: by the weak comparison.
func (c Condition) MatchesWeakly(t Tag) bool { return c.Matches(t) || slices.Contains(c.weak, t) }

type conditionKey struct{}

// WithIfMatch returns a context under which Check requires the condition.
func WithIfMatch(ctx context.Context, c Condition) context.Context {
	return context.WithValue(ctx, conditionKey{}, c)
}

// Check returns precondition_failed if the request has an If-Match that the stored version does not meet. A change
// calls it as soon as the resource is locked, before anything that depends on its state.
func Check(ctx context.Context, stored Tag) error {
	c, conditional := ctx.Value(conditionKey{}).(Condition)
	if !conditional || c.Matches(stored) {
		return nil
	}
	return apperr.New(apperr.CodePreconditionFailed,
		"The resource has changed since the version that If-Match names; read it again")
}
