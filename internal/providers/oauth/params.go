package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// BodyFormat is how a request's body is written.
type BodyFormat string

// The formats of bodies. The empty one is FormatForm.
const (
	FormatForm BodyFormat = "form"
	FormatJSON BodyFormat = "json"
)

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 256 << 10

// params are the parameters of a request, by name. Each occurs once (RFC 6749, section 3.2).
type params map[string]string

// set adds a parameter that has a value.
func (p params) set(name, value string) {
	if value != "" {
		p[name] = value
	}
}

// renamed returns the parameters under the names of the provider. One that is renamed to nothing is left out.
func (p params) renamed(names map[string]string) (params, error) {
	out := params{}
	for name, value := range p {
		if to, found := names[name]; found {
			name = to
		}
		if name == "" {
			continue
		}
		if _, taken := out[name]; taken {
			return nil, unusable("two parameters have the name %q", name)
		}
		out[name] = value
	}
	return out, nil
}

// add adds parameters of the definition. They may replace only what is no credential.
func (p params) add(extra map[string]string) error {
	for name, value := range extra {
		_, taken := p[name]
		if name == "" || taken && name != "grant_type" && name != "scope" {
			return unusable("the parameter %q is one of the protocol", name)
		}
		p[name] = value
	}
	return nil
}

// form encodes the parameters in the order of their names, with spaces as %20, which every reader understands.
func (p params) form() string {
	values := url.Values{}
	for name, value := range p {
		values.Set(name, value)
	}
	return strings.ReplaceAll(values.Encode(), "+", "%20")
}

// parseURL reads the URL of an endpoint. Errors do not contain it.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "" {
		return nil, unusable("an endpoint is not an absolute URL")
	}
	if u.User != nil || u.Fragment != "" || strings.Contains(raw, "#") {
		return nil, unusable("the URL of an endpoint has a user or a fragment")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, unusable("the query of an endpoint is malformed")
	}
	return u, nil
}

// newRequest makes a request with a body that can be sent twice. Body is nil for none.
func newRequest(ctx context.Context, method, endpoint, contentType string, body []byte) (*http.Request, error) {
	u, err := parseURL(endpoint)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRequest {
		return nil, unusable("the request is larger than %d bytes", maxRequest)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, unusable("the request cannot be made")
	}
	// GitHub, among others, responds with a form to those who do not ask for JSON.
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req, nil
}

// setHeaders sets headers of the definition, which come after the package's own.
func setHeaders(header http.Header, values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !isToken(name) || strings.EqualFold(name, "Host") || !isFieldValue(values[name]) {
			return unusable("the header %q cannot be sent", clean(name, maxCode, nil))
		}
		header.Set(name, values[name])
	}
	return nil
}

// encodeJSON writes a value without escapes for HTML.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, unusable("the body is not JSON")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

const (
	typeForm = "application/x-www-form-urlencoded"
	typeJSON = "application/json"
)

// encode writes parameters in a format.
func (p params) encode(format BodyFormat) (contentType string, body []byte, err error) {
	switch format {
	case "", FormatForm:
		return typeForm, []byte(p.form()), nil
	case FormatJSON:
		body, err = encodeJSON(p)
		return typeJSON, body, err
	default:
		return "", nil, unusable("the body format is unknown")
	}
}

// revealed returns the values of secrets, right before they are written into a request.
func revealed(secrets map[string]secretbox.Secret) map[string]string {
	out := make(map[string]string, len(secrets))
	for name, secret := range secrets {
		out[name] = secret.Reveal()
	}
	return out
}
