package outbound

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// renderer renders templates for one request. Its time and its UUID are the same wherever they occur.
type renderer struct {
	engine *Engine
	values *Values
	mode   *Mode
	// aws replaces the scope of the mode's signatures; nil for the mode's own.
	aws *awsTemplate
	// request has the values of ${request.…}.
	request map[string]string
	// blame is the field of problems that are about no single value.
	blame string
	uuid  string
}

// config returns the value of a field of connection_config; empty without one.
func (r *renderer) config(key string) string { return r.values.Config[key].Reveal() }

// value returns what a name stands for. Optional values may be empty; others are an error without a value.
func (r *renderer) value(n name) (string, error) {
	var value, field string
	optional := false
	switch n.space {
	case spaceConfig:
		value, field = r.config(n.key), "connection_config."+n.key
		f := r.engine.field(n.key)
		optional = f != nil && f.Optional && !f.requiredFor(r.mode)
	case spaceCred:
		value, field = r.values.Credentials[n.key].Reveal(), "credentials."+n.key
		for i := range r.mode.Fields {
			f := &r.mode.Fields[i]
			optional = optional || f.Name == n.key && f.Optional && n.key != AccessToken
		}
	case spaceClient:
		field = "client." + n.key
		value = map[string]secretbox.Secret{"id": secretbox.Secret(r.values.Client.ID), "secret": r.values.Client.Secret,
			"private_key": r.values.Client.PrivateKey}[n.key].Reveal()
	default:
		return r.request[n.key], nil
	}
	if value == "" && !optional {
		return "", refuse(field, "is missing")
	}
	return value, nil
}

// eval returns the value of an expression.
func (r *renderer) eval(e *expression) (string, error) {
	switch e.fn {
	case fnUUID:
		if r.uuid == "" {
			r.uuid = id.NewUUID()
		}
		return r.uuid, nil
	case fnNow:
		return formatTime(r.values.Now, e.form), nil
	default:
	}
	args := make([]string, len(e.args))
	for i, arg := range e.args {
		for _, o := range arg {
			if o.name.space == "" {
				args[i] += o.literal
				continue
			}
			value, err := r.value(o.name)
			if err != nil {
				return "", err
			}
			args[i] += value
		}
	}
	switch e.fn {
	case fnBase64:
		return base64.StdEncoding.EncodeToString([]byte(args[0])), nil
	case fnBasic:
		if strings.Contains(args[0], ":") { // RFC 7617 section 2: the receiver would cut it there
			return "", refuse("credentials", "must not have a colon in a user name")
		}
		return base64.StdEncoding.EncodeToString([]byte(args[0] + ":" + args[1])), nil
	default:
		return args[0], nil
	}
}

func formatTime(t time.Time, form string) string {
	switch form {
	case "unix_ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "rfc3339":
		return t.UTC().Format(time.RFC3339)
	default:
		return strconv.FormatInt(t.Unix(), 10)
	}
}

// each renders a template; encode makes the text of each expression from its value.
func (r *renderer) each(t *template, encode func(p part, value string) (string, error)) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			out.WriteString(p.literal)
			continue
		}
		value, err := r.eval(p.expr)
		if err == nil {
			value, err = encode(p, value)
		}
		if err != nil {
			return "", err
		}
		out.WriteString(value)
	}
	return out.String(), nil
}

// text renders a template where nothing has a meaning of its own, such as in a value that is encoded later.
func (r *renderer) text(t *template) (string, error) {
	return r.each(t, func(_ part, value string) (string, error) { return value, nil })
}

// host renders a part of a host: each value is one label, or several where its field says so.
func (r *renderer) host(t *template) (string, error) {
	return r.each(t, func(p part, value string) (string, error) {
		n, ok := p.plain()
		field := r.engine.field(n.key)
		if !ok || n.space != spaceConfig || field == nil {
			return "", refuse(r.blame, "has a value in its host that is not of connection_config")
		}
		if !hostValue(field, value) {
			return "", refuse("connection_config."+n.key, "must be a part of a host name: letters, digits and hyphens")
		}
		return value, nil
	})
}

// hostValue reports whether a value may be a part of a host.
func hostValue(f *Field, value string) bool {
	labels := strings.Split(value, ".")
	if len(labels) > 1 && f.Pattern == "" && f.Type != TypeEnum {
		return false
	}
	for _, label := range labels {
		if !validLabel(label) {
			return false
		}
	}
	return !internationalized(value)
}

// path renders a path: each value is one escaped segment or a part of one.
func (r *renderer) path(t *template) (string, error) {
	return r.each(t, func(p part, value string) (string, error) {
		if value == "" || value == "." || value == ".." || hasControl(value) || strings.Contains(value, "\\") {
			return "", refuse(r.fieldOf(p), "cannot be a segment of a path")
		}
		return url.PathEscape(value), nil
	})
}

// query renders the query of a URL.
func (r *renderer) query(t *template) (string, error) {
	return r.each(t, func(_ part, value string) (string, error) { return url.QueryEscape(value), nil })
}

// entry renders the value of a header, of a parameter or of a member of a body. It is left out, as empty, if it has
// values and all of them are: a text around an optional value means nothing without it.
func (r *renderer) entry(t *template, header bool) (string, error) {
	empty := len(t.names()) > 0
	value, err := r.each(t, func(p part, value string) (string, error) {
		if header && hasControl(value) {
			return "", refuse(r.fieldOf(p), "has a line break or another control character, which no header can have")
		}
		empty = empty && value == ""
		return value, nil
	})
	switch {
	case err != nil || empty:
		return "", err
	case header && (len(value) > maxHeaderValue || hasControl(value)):
		return "", refuse(r.blame, "makes a header that is longer than 8 KiB, or that has a line break")
	}
	return value, nil
}

// fieldOf names the value that a problem is about.
func (r *renderer) fieldOf(p part) string {
	for _, arg := range p.expr.args {
		for _, o := range arg {
			switch o.name.space {
			case spaceConfig:
				return "connection_config." + o.name.key
			case spaceCred:
				return "credentials." + o.name.key
			case spaceClient:
				return "client." + o.name.key
			default:
			}
		}
	}
	return r.blame
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
