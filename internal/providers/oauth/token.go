package oauth

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// TokenSpec is where the parts of a token are in a response. Paths are names with dots between them, or JSON pointers.
// An empty path is the name of RFC 6749, section 5.1.
type TokenSpec struct {
	Access, Refresh, ExpiresIn, Scope, Type string
	// Unit is that of the number at ExpiresIn, a second if it is 0.
	Unit time.Duration
	// ExpiresAt is where the end of the token's life is, if the response has that instead: seconds since 1970, or
	// milliseconds if the number is over 100,000,000,000. A date and time (RFC 3339) is read at both places.
	ExpiresAt string
	// DefaultTTL is how long a token lives whose response does not say so. If it is 0, such a token has no known end.
	DefaultTTL time.Duration
	// Alternate is where the access token is if it is not at Access, such as authed_user.access_token. The other parts
	// are then next to it.
	Alternate string
	// SuccessWhen must hold for a response that counts as a success, beyond its status.
	SuccessWhen Test
	// DeadWhen are values that say that the grant is dead, beyond invalid_grant.
	DeadWhen []Test
	// DeadStatuses and ClientStatuses are statuses that say the same, and that the client is refused, for endpoints
	// without error codes. A 429 or 5xx never does.
	DeadStatuses, ClientStatuses []int
	// Metadata are further values to take from the response: name and path.
	Metadata map[string]string
	// Sent are the secrets of the request. No error contains one, also if the provider quotes it.
	Sent []secretbox.Secret
}

// Token is what a provider granted.
type Token struct {
	Access secretbox.Secret
	// Refresh is empty if the response has none; a refresh token that a connection has stays valid then.
	Refresh secretbox.Secret
	// Type is the token_type, such as "bearer", or empty.
	Type string
	// ExpiresAt is zero for a token without a known end.
	ExpiresAt time.Time
	// Scopes are the granted ones, sorted. They are nil if the response does not name any: then they are those that were
	// asked for (RFC 6749, section 5.1).
	Scopes []string
	// Metadata has the values of TokenSpec.Metadata that the response has: at most 1,024 bytes, without control
	// characters. They are foreign input.
	Metadata map[string]string
}

// ParseToken reads the response of a token endpoint. Its errors are all *TokenError.
func ParseToken(spec TokenSpec, status int, header http.Header, body []byte, now time.Time) (Token, error) {
	c := classifier{status: status, header: header, body: body, now: now, sent: spec.Sent, dead: spec.DeadWhen,
		deadStatuses: spec.DeadStatuses, clientStatuses: spec.ClientStatuses}
	if len(body) > maxResponse {
		return Token{}, c.unreadable("the response is larger than a mebibyte")
	}
	if !isSuccess(status) && status < 400 {
		return Token{}, c.unreadable(redirects)
	}
	doc, err := parseDocument(body)
	switch {
	case err != nil:
		return Token{}, c.unreadable(err.Error())
	case !isSuccess(status), c.any(spec.DeadWhen):
		return Token{}, c.of(doc)
	case spec.SuccessWhen != nil && !spec.SuccessWhen(status, header, body):
		return Token{}, c.of(doc)
	case spec.SuccessWhen == nil && hasError(doc):
		// Some send errors with 200, GitHub among them.
		return Token{}, c.of(doc)
	}
	return spec.read(doc, c)
}

// read takes the token from a response without an error.
func (spec TokenSpec) read(doc document, c classifier) (Token, error) {
	spec = spec.filled()
	access := doc.at(spec.Access)
	if access == nil && spec.Alternate != "" {
		spec = spec.alternate()
		access = doc.at(spec.Access)
	}
	text, ok := access.(string)
	if !ok || !isVisible(text, maxToken) {
		return Token{}, c.unreadable("the response has no usable access token")
	}
	token := Token{Access: secretbox.Secret(text), ExpiresAt: spec.expiry(doc, c.now), Scopes: scopes(doc.at(spec.Scope)),
		Metadata: metadata(doc, spec.Metadata)}
	if kind := doc.str(spec.Type); isVisible(kind, maxCode) {
		token.Type = clean(kind, maxCode, nil)
		if needsProof(token.Type) {
			return Token{}, c.unreadable("the token is of the type " + token.Type +
				", with which requests need a proof of a key")
		}
	}
	switch refresh := doc.at(spec.Refresh).(type) {
	case nil:
	case string:
		if refresh != "" && !isVisible(refresh, maxToken) {
			return Token{}, c.unreadable("the response has no usable refresh token")
		}
		token.Refresh = secretbox.Secret(refresh)
	default:
		return Token{}, c.unreadable("the response has no usable refresh token")
	}
	return token, nil
}

// needsProof reports whether a token of the type is of no use alone (RFC 6749 §7.1). Other types are taken for bearer
// tokens, because providers have names of their own for them.
func needsProof(kind string) bool {
	return slices.ContainsFunc([]string{"mac", "dpop", "pop"}, func(t string) bool { return strings.EqualFold(kind, t) })
}

// filled returns the spec with the names of RFC 6749 where it has none.
func (spec TokenSpec) filled() TokenSpec {
	for path, name := range map[*string]string{&spec.Access: "access_token", &spec.Refresh: "refresh_token",
		&spec.ExpiresIn: "expires_in", &spec.Scope: "scope", &spec.Type: "token_type"} {
		if *path == "" {
			*path = name
		}
	}
	return spec
}

// alternate returns the spec of the object in which the alternate access token is.
func (spec TokenSpec) alternate() TokenSpec {
	spec.Access = spec.Alternate
	separator := "."
	if strings.HasPrefix(spec.Alternate, "/") {
		separator = "/"
	}
	parent := spec.Alternate[:strings.LastIndex(spec.Alternate, separator)+1]
	for _, path := range []*string{&spec.Refresh, &spec.ExpiresIn, &spec.ExpiresAt, &spec.Scope, &spec.Type} {
		if name := (*path)[strings.LastIndexAny(*path, "./")+1:]; name != "" {
			*path = parent + name
		}
	}
	return spec
}

// scopes reads granted scopes: a text with spaces or commas between them, or an array. Anything else in them is left
// out.
func scopes(value any) []string {
	var names []string
	switch v := value.(type) {
	case string:
		names = strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' })
	case []any:
		for _, item := range v {
			if name, ok := item.(string); ok {
				names = append(names, name)
			}
		}
	default:
		return nil
	}
	if names = slices.DeleteFunc(names, func(name string) bool { return !isScope(name) }); len(names) == 0 {
		return nil // no grant is for nothing
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxScopes)]
}

// metadata takes named values. One that is not there, or is no text that could be stored, is left out.
func metadata(doc document, paths map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		text, ok := doc.text(paths[name])
		if ok && isPlain(text) {
			out[name] = text
		}
	}
	return out
}
