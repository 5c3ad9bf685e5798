package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// indented returns JSON with one member a line, and a short list on one line.
func indented(body json.RawMessage, indent string) string {
	return literal(body, indent, func(token json.Token) string {
		switch v := token.(type) {
		case nil:
			return "null"
		case string:
			return quoted(v)
		default:
			return fmt.Sprint(v)
		}
	})
}

// pythonLiteral returns JSON as an expression in Python.
func pythonLiteral(body json.RawMessage) string {
	return literal(body, "    ", func(token json.Token) string {
		switch v := token.(type) {
		case nil:
			return "None"
		case bool:
			return map[bool]string{true: "True", false: "False"}[v]
		case string:
			return quoted(v)
		default:
			return fmt.Sprint(v)
		}
	})
}

// quoted returns a text in double quotes with the escapes of JSON, which Go, TypeScript and Python share for all that
// is in a request.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// literal formats JSON. Members of objects keep their order, and scalars are as write returns them.
func literal(body json.RawMessage, indent string, write func(json.Token) string) string {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	l := literals{d, indent, write}
	text, err := l.value(0)
	if err != nil {
		panic(fmt.Sprintf("the body of a sample is not JSON: %v", err))
	}
	return text
}

type literals struct {
	decoder *json.Decoder
	indent  string
	write   func(json.Token) string
}

// value returns the next value, for a line that is indented by depth.
func (l *literals) value(depth int) (string, error) {
	token, err := l.decoder.Token()
	if err != nil {
		return "", err //nolint:wrapcheck // literal says what it is about
	}
	opening, composite := token.(json.Delim)
	if !composite {
		return l.write(token), nil
	}
	object := opening == '{'
	var items []string
	scalars := true
	for l.decoder.More() {
		name := ""
		if object {
			key, err := l.decoder.Token()
			if err != nil {
				return "", err //nolint:wrapcheck // literal says what it is about
			}
			text, _ := key.(string)
			name = quoted(text) + ": "
		}
		item, err := l.value(depth + 1)
		if err != nil {
			return "", err
		}
		scalars = scalars && !strings.HasPrefix(item, "{") && !strings.HasPrefix(item, "[")
		items = append(items, name+item)
	}
	if _, err := l.decoder.Token(); err != nil {
		return "", err //nolint:wrapcheck // literal says what it is about
	}
	closing := map[json.Delim]string{'{': "}", '[': "]"}[opening]
	if line := strings.Join(items, ", "); len(items) == 0 || !object && scalars && len(line) < 60 {
		return opening.String() + line + closing, nil
	}
	inner, outer := "\n"+strings.Repeat(l.indent, depth+1), "\n"+strings.Repeat(l.indent, depth)
	return opening.String() + inner + strings.Join(items, ","+inner) + outer + closing, nil
}
