package oauth

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// Template is a request that a definition declares: a login that returns a session, or a revocation. Its values are
// rendered.
type Template struct {
	// Method is POST if it is empty.
	Method string
	URL    string
	// User and Password are sent by HTTP Basic (RFC 7617), if User is not empty.
	User     string
	Password secretbox.Secret
	// Header and Query are further headers and parameters of the query.
	Header, Query map[string]secretbox.Secret
	// Fields are those of the body: of a form by name, of JSON by path ("credentials.name", or "/credentials/name").
	Fields map[string]secretbox.Secret
	Format BodyFormat
}

// Request makes the request.
func (t Template) Request(ctx context.Context) (*http.Request, error) {
	method := t.Method
	if method == "" {
		method = http.MethodPost
	}
	if !isToken(method) || method != strings.ToUpper(method) {
		return nil, unusable("the method is malformed")
	}
	if len(t.Fields) > 0 && (method == http.MethodGet || method == http.MethodHead) {
		return nil, unusable("a %s has no body", method)
	}
	target, err := t.target()
	if err != nil {
		return nil, err
	}
	contentType, body, err := t.body()
	if err != nil {
		return nil, err
	}
	req, err := newRequest(ctx, method, target, contentType, body)
	if err != nil {
		return nil, err
	}
	if t.User != "" {
		if strings.Contains(t.User, ":") {
			return nil, unusable("a user name has a colon")
		}
		req.Header.Set("Authorization", basic(t.User, t.Password.Reveal()))
	}
	return req, setHeaders(req.Header, revealed(t.Header))
}

// target returns the URL with the query.
func (t Template) target() (string, error) {
	u, err := parseURL(t.URL)
	if err != nil || len(t.Query) == 0 {
		return t.URL, err
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+params(revealed(t.Query)).form(), "&")
	return u.String(), nil
}

// body returns the fields in the format.
func (t Template) body() (contentType string, body []byte, err error) {
	switch {
	case len(t.Fields) == 0:
		return "", nil, nil
	case t.Format != FormatJSON:
		return params(revealed(t.Fields)).encode(t.Format)
	}
	root := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		path := parsePath(name)
		object := root
		for _, member := range path[:len(path)-1] {
			inner, ok := object[member].(map[string]any)
			if _, taken := object[member]; taken && !ok {
				return "", nil, unusable("a field of the body is inside another")
			} else if !ok {
				inner = map[string]any{}
				object[member] = inner
			}
			object = inner
		}
		last := path[len(path)-1]
		if _, taken := object[last]; taken {
			return "", nil, unusable("a field of the body is inside another")
		}
		object[last] = t.Fields[name].Reveal()
	}
	body, err = encodeJSON(root)
	return typeJSON, body, err
}

// revealed returns the values of secrets, right before they are written into a request.
func revealed(secrets map[string]secretbox.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		out[name] = secret.Reveal()
	}
	return out
}

// parsePath reads a path into a document: a JSON pointer (RFC 6901) if it begins with a slash, else names with dots
// between them.
func parsePath(path string) []string {
	rest, pointer := strings.CutPrefix(path, "/")
	if !pointer {
		return strings.Split(path, ".")
	}
	members := strings.Split(rest, "/")
	for i, member := range members {
		members[i] = strings.ReplaceAll(strings.ReplaceAll(member, "~1", "/"), "~0", "~")
	}
	return members
}
