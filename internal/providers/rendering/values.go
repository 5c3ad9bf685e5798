package rendering

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
)

// The styles of parameters, as OpenAPI 3 names them.
const (
	styleLabel  = "label"
	styleMatrix = "matrix"
	styleSpace  = "spaceDelimited"
	stylePipe   = "pipeDelimited"
	styleDeep   = "deepObject"
)

// scalar returns a value as text: a string as it is, anything else as JSON.
func scalar(p *actions.Parameter, v jsonindex.Value) (string, error) {
	switch v.Kind() {
	case jsonindex.String:
		text, ok := v.Text()
		if !ok {
			return "", &InputError{p.Property, "is not valid text"}
		}
		return text, nil
	case jsonindex.Null:
		return "", nil
	default:
		return string(v.Raw()), nil
	}
}

// joined returns a value as one text: the items of an array, and the names and values of an object, with a separator.
// An exploded object has name=value.
func joined(p *actions.Parameter, v jsonindex.Value, separator string, explode bool) (string, error) {
	if p.JSON {
		return string(v.Raw()), nil
	}
	var parts []string
	add := func(one jsonindex.Value, prefix string) error {
		text, err := scalar(p, one)
		parts = append(parts, prefix+text)
		return err
	}
	var err error
	switch v.Kind() {
	case jsonindex.Array:
		for item := range v.Items() {
			if err = add(item, ""); err != nil {
				return "", err
			}
		}
	case jsonindex.Object:
		for name, one := range v.Members() {
			switch {
			case explode:
				err = add(one, name+"=")
			default:
				parts = append(parts, name)
				err = add(one, "")
			}
			if err != nil {
				return "", err
			}
		}
	default:
		return scalar(p, v)
	}
	return strings.Join(parts, separator), nil
}

// pathText returns a value as it stands in a path, escaped.
func pathText(p *actions.Parameter, v jsonindex.Value) (string, error) {
	switch {
	case v.Kind() == jsonindex.Null:
		return "", &InputError{p.Property, "must not be null, because it is in the path"}
	case p.Style == styleLabel, p.Style == styleMatrix:
		return prefixed(p, v)
	case p.Reserved:
		return reservedText(p, v)
	}
	text, err := joined(p, v, ",", p.Explode)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", &InputError{p.Property, "must not be empty, because it is in the path"}
	case text == "." || text == "..":
		return "", &InputError{p.Property, "must not be . or .., because it is a segment of the path"}
	}
	return escapeSegment(text), nil
}

// escapeSegment escapes a text for one segment of a path.
func escapeSegment(text string) string {
	// Commas separate the items of a list, and a semicolon would begin parameters of the segment.
	return strings.ReplaceAll(url.PathEscape(text), "%2C", ",")
}

// reservedText returns a value that is several segments. Its slashes stay.
func reservedText(p *actions.Parameter, v jsonindex.Value) (string, error) {
	text, err := scalar(p, v)
	if err != nil {
		return "", err
	}
	segments := strings.Split(text, "/")
	for i, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return "", &InputError{p.Property, "must consist of segments of which none is empty, . or .."}
		}
		segments[i] = escapeSegment(segment)
	}
	return strings.Join(segments, "/"), nil
}

// prefixed returns a value in the styles label and matrix (RFC 6570, sections 3.2.5 and 3.2.7).
func prefixed(p *actions.Parameter, v jsonindex.Value) (string, error) {
	lead, named := ".", false
	if p.Style == styleMatrix {
		lead, named = ";", true
	}
	var out strings.Builder
	add := func(name string, v jsonindex.Value) error {
		text, err := scalar(p, v)
		if err != nil {
			return err
		}
		out.WriteString(lead)
		if name != "" {
			out.WriteString(url.PathEscape(name) + "=")
		}
		out.WriteString(url.PathEscape(text))
		return nil
	}
	own := ""
	if named {
		own = p.Name
	}
	compound := v.Kind() == jsonindex.Array || v.Kind() == jsonindex.Object
	if compound && p.Explode {
		for item := range v.Items() {
			if err := add(own, item); err != nil {
				return "", err
			}
		}
		for name, one := range v.Members() {
			if err := add(name, one); err != nil {
				return "", err
			}
		}
		return out.String(), nil
	}
	text, err := joined(p, v, ",", false)
	if err != nil {
		return "", err
	}
	out.WriteString(lead)
	if own != "" {
		out.WriteString(url.PathEscape(own) + "=")
	}
	out.WriteString(escapeSegment(text))
	return out.String(), nil
}

// addPairs adds a value of a query or a form as names with values. A value that is null is left out.
func addPairs(p *actions.Parameter, v jsonindex.Value, add func(name, value string)) error {
	if v.Kind() == jsonindex.Null {
		return nil
	}
	compound := v.Kind() == jsonindex.Array || v.Kind() == jsonindex.Object
	separator := ","
	switch p.Style {
	case styleSpace:
		separator = " "
	case stylePipe:
		separator = "|"
	}
	switch {
	case p.JSON:
		add(p.Name, string(v.Raw()))
		return nil
	case !compound, !p.Explode:
		text, err := joined(p, v, separator, false)
		if err == nil {
			add(p.Name, text)
		}
		return err
	case p.Style == styleDeep:
		return addDeep(p, p.Name, v, add)
	}
	for item := range v.Items() {
		text, err := scalar(p, item)
		if err != nil {
			return err
		}
		add(p.Name, text)
	}
	for name, one := range v.Members() {
		if one.Kind() == jsonindex.Array { // a parameter that occurs several times
			for item := range one.Items() {
				text, err := scalar(p, item)
				if err != nil {
					return err
				}
				add(name, text)
			}
			continue
		}
		text, err := scalar(p, one)
		if err != nil {
			return err
		}
		add(name, text)
	}
	return nil
}

// addDeep adds a value with the names of its members, and the places of its items, in brackets.
func addDeep(p *actions.Parameter, name string, v jsonindex.Value, add func(name, value string)) error {
	switch v.Kind() {
	case jsonindex.Array:
		n := 0
		for item := range v.Items() {
			if err := addDeep(p, name+"["+strconv.Itoa(n)+"]", item, add); err != nil {
				return err
			}
			n++
		}
	case jsonindex.Object:
		for key, one := range v.Members() {
			if err := addDeep(p, fmt.Sprintf("%s[%s]", name, key), one, add); err != nil {
				return err
			}
		}
	default:
		text, err := scalar(p, v)
		if err != nil {
			return err
		}
		add(name, text)
	}
	return nil
}
