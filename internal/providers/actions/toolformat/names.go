package toolformat

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// propertyForm is what Anthropic accepts as the name of a property; OpenAI gets the same. plainForm is what Gemini
// accepts.
var (
	propertyForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	plainForm    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// rename gives each property whose name a format does not accept another one, by the old name: the same everywhere in
// the schema, and the name of no other property in it.
func rename(root jsonindex.Value, form *regexp.Regexp) map[string]string {
	names := map[string]bool{}
	var order []string
	collect(root, names, &order)
	var out map[string]string
	for _, name := range order {
		if form.MatchString(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		short := plain(name, form)
		if names[short] || !form.MatchString(short) {
			sum := sha256.Sum256([]byte(name))
			short = cutName(short, 48) + "_" + hex.EncodeToString(sum[:])[:8]
			for names[short] { // two names with one hash: it stays a name of its own
				short += "_"
			}
		}
		names[short] = true
		out[name] = short
	}
	return out
}

// collect finds the names of all properties of a schema.
func collect(v jsonindex.Value, names map[string]bool, order *[]string) {
	add := func(name string) {
		if !names[name] {
			names[name] = true
			*order = append(*order, name)
		}
	}
	for item := range v.Items() {
		collect(item, names, order)
	}
	for member, value := range v.Members() {
		switch member {
		case "properties":
			for name := range value.Members() {
				add(name)
			}
		case "required":
			for item := range value.Items() {
				if name, ok := item.Text(); ok {
					add(name)
				}
			}
		}
		collect(value, names, order)
	}
}

// plain makes a name of letters, digits and underscores, and of what else the form allows.
func plain(name string, form *regexp.Regexp) string {
	var out strings.Builder
	for _, r := range name {
		switch {
		case out.Len() >= 64:
		case r < 0x7f && form.MatchString("_"+string(r)):
			out.WriteRune(r)
		case out.Len() > 0 && !strings.HasSuffix(out.String(), "_"):
			out.WriteByte('_')
		}
	}
	short := strings.TrimRight(out.String(), "_")
	if short != "" && !form.MatchString(short) {
		short = "_" + short
	}
	if short == "" || len(name) > 64 {
		return cutName(short, 48) + "_" // which is not yet a name of its own
	}
	return short
}

func cutName(name string, limit int) string {
	if len(name) > limit {
		name = name[:limit]
	}
	return strings.TrimRight(name, "_")
}

// invert returns the old names by the new ones.
func invert(names map[string]string) map[string]string {
	if names == nil {
		return nil
	}
	out := make(map[string]string, len(names))
	for name, short := range names {
		out[short] = name
	}
	return out
}

// named returns the name of a property in the definition.
func (r *reader) named(name string) string {
	if other, ok := r.names[name]; ok {
		return other
	}
	return name
}
