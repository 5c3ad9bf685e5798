package executions

import (
	"encoding/json"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/rendering"
)

// shownInput returns an input as it is stored and shown: without texts whose names say that they are secret, and
// without the content of files. It returns nil for one that is too large.
func shownInput(in rendering.Input) json.RawMessage {
	if len(in.Raw()) > maxStoredInput {
		return nil
	}
	return appendShown(nil, in.Value(), false)
}

// appendShown appends a value; one that is secret has no texts.
func appendShown(out []byte, v jsonindex.Value, secret bool) []byte {
	switch v.Kind() {
	case jsonindex.Object:
		out = append(out, '{')
		first := true
		for name, member := range v.Members() {
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(append(out, quote(name)...), ':')
			out = appendShown(out, member, secret || isSecretName(name) || name == "base64")
		}
		return append(out, '}')
	case jsonindex.Array:
		out = append(out, '[')
		first := true
		for item := range v.Items() {
			if !first {
				out = append(out, ',')
			}
			first = false
			out = appendShown(out, item, secret)
		}
		return append(out, ']')
	case jsonindex.String:
		if secret {
			return append(out, quote(secretbox.Redacted)...)
		}
		return append(out, v.Raw()...)
	default:
		return append(out, v.Raw()...)
	}
}

func quote(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return []byte(`""`) // a string is always encoded
	}
	return quoted
}

// wholeView is the view of all connections of the call's environment: a key belongs to its principal, also
// when that sees other connections by now.
func wholeView(c *gateway.Call) access.View { return access.Whole(c.Environment()) }
