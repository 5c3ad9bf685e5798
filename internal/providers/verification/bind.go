package verification

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	paramOpen = "{param:"
	connOpen  = "{conn:"
)

// binder replaces parameters by values throughout a declaration, and leaves out the entries that hang on an empty one.
// It walks the declaration's type, so that a field cannot be forgotten.
type binder struct {
	values map[string]string
	// uses lists the parameters that each field mentions, by the field's path as the author wrote it.
	uses map[string][]string
	// live are the parameters that some field that was kept mentions.
	live map[string]bool
	// offBy names, for a parameter in an entry that was left out, the empty parameter that turned the entry off.
	offBy map[string]string
	// kept lists, by the path of a list that lost entries, the original places of those that stayed.
	kept     map[string][]int
	problems problems
}

// bind replaces the parameters in a declaration by values. The declaration is not changed.
func bind(d Declaration, values map[string]string) (Declaration, *binder) {
	b := &binder{
		values: values, uses: map[string][]string{}, live: map[string]bool{}, offBy: map[string]string{},
		kept: map[string][]int{},
	}
	setup, params, samples := d.Setup, d.Params, d.Samples
	d.Setup, d.Params, d.Samples = "", nil, nil // none is a place for parameters
	d.Event.Known = nil                         // nor are the known types, which no connection needs
	b.structure(reflect.ValueOf(&d).Elem(), place{})
	d.Setup, d.Params, d.Samples = setup, params, samples
	return d, b
}

// place is where in the declaration the binder stands: as the author wrote it, and as the bound declaration counts.
type place struct{ written, bound string }

func (p place) field(name string) place {
	if p.written == "" {
		return place{name, name}
	}
	return place{p.written + "." + name, p.bound + "." + name}
}

func (p place) entry(written, bound int) place {
	return place{at(p.written, written), at(p.bound, bound)}
}

func (b *binder) structure(v reflect.Value, p place) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if field.Anonymous {
			b.structure(v.Field(i), p)
			continue
		}
		b.value(v.Field(i), p.field(name))
	}
}

func (b *binder) value(v reflect.Value, p place) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(b.text(p.written, v.String()))
	case reflect.Struct:
		b.structure(v, p)
	case reflect.Pointer:
		b.pointer(v, p)
	case reflect.Slice:
		b.list(v, p)
	default: // numbers and booleans take no parameters, nor do maps, whose compilers refuse them
	}
}

func (b *binder) pointer(v reflect.Value, p place) {
	if v.IsNil() {
		return
	}
	target := reflect.New(v.Type().Elem())
	target.Elem().Set(v.Elem())
	if b.entry(target.Elem(), p) {
		v.Set(target)
	} else {
		v.SetZero()
	}
}

func (b *binder) list(v reflect.Value, p place) {
	if v.IsNil() {
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, v.Len())
	var kept []int
	for i := range v.Len() {
		entry := reflect.New(v.Type().Elem()).Elem()
		entry.Set(v.Index(i))
		if b.entry(entry, p.entry(i, out.Len())) {
			out, kept = reflect.Append(out, entry), append(kept, i)
		}
	}
	if len(kept) < v.Len() {
		b.kept[p.bound] = kept
	}
	v.Set(out)
}

// entry binds one entry; it is false for one to leave out.
func (b *binder) entry(v reflect.Value, p place) (keep bool) {
	off := b.emptyParam(deciding(v))
	if off == "" {
		b.value(v, p)
		return true
	}
	live := b.live
	b.live = map[string]bool{}
	b.value(v, p)
	for name := range b.live {
		b.offBy[name] = off
	}
	b.live = live
	return false
}

// deciding returns the text on which an entry hangs: a text itself, or a structure's from.
func deciding(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	if v.Kind() == reflect.Struct {
		if from := v.FieldByName("From"); from.IsValid() && from.Kind() == reflect.String {
			return from.String()
		}
	}
	return ""
}

// text replaces the parameters in one field. Values are not looked at again, so they cannot bring in further
// parameters. {conn:name} stays for the template that it stands in, which takes the value as bytes and never as a
// template.
func (b *binder) text(field, s string) string {
	for rest := s; ; {
		_, name, after, found := cutToken(rest, connOpen)
		if !found {
			break
		}
		b.use(field, name)
		rest = after
	}
	var out strings.Builder
	for {
		before, name, after, found := cutToken(s, paramOpen)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(b.use(field, name))
		s = after
	}
}

func (b *binder) use(field, name string) string {
	value, known := b.values[name]
	if !known {
		b.problems.add(field, ruleUnknown, "mentions a parameter that is not declared: %q", name)
	}
	if !slices.Contains(b.uses[field], name) {
		b.uses[field] = append(b.uses[field], name)
	}
	b.live[name] = true
	return value
}

// emptyParam returns the first parameter that s mentions and that is empty.
func (b *binder) emptyParam(s string) string {
	for {
		_, name, after, found := cutToken(s, paramOpen)
		if !found {
			return ""
		}
		if value, known := b.values[name]; known && value == "" {
			return name
		}
		s = after
	}
}

// written turns the path of a field of the bound declaration into the one that the author wrote.
func (b *binder) written(field string) string {
	if len(b.kept) == 0 {
		return field
	}
	var out strings.Builder
	for start := 0; ; {
		open := strings.IndexByte(field[start:], '[')
		if open < 0 {
			out.WriteString(field[start:])
			return out.String()
		}
		open += start
		end := open + strings.IndexByte(field[open:], ']')
		out.WriteString(field[start : open+1])
		n, err := strconv.Atoi(field[open+1 : end])
		if kept, lost := b.kept[field[:open]]; lost && err == nil && n < len(kept) {
			n = kept[n]
		}
		out.WriteString(strconv.Itoa(n))
		start = end
	}
}

// restorePaths gives problems of the bound declaration the paths that the author wrote.
func (b *binder) restorePaths(fs problems) problems {
	for i := range fs {
		fs[i].Field = b.written(fs[i].Field)
	}
	return fs
}

// blameParams turns a problem of the bound declaration into problems of the parameters that its field, or the entry
// around it, mentions.
func (b *binder) blameParams(f Problem) []Problem {
	names := b.uses[f.Field]
	for entry := f.Field; len(names) == 0 && entry != ""; {
		entry = entry[:max(0, strings.LastIndexByte(entry, '.'))]
		names = b.uses[strings.TrimPrefix(entry+".from", ".")]
	}
	if len(names) == 0 {
		names = b.uses[f.Field+".from"]
	}
	if len(names) == 0 {
		return []Problem{{Field: "params", Rule: f.Rule, Message: f.Field + " " + f.Message}}
	}
	out := make([]Problem, len(names))
	for i, name := range names {
		out[i] = Problem{Field: "params." + name, Rule: f.Rule, Message: f.Message}
	}
	return out
}

// cutToken splits s around its first token that begins with open; without one, before is all of s.
func cutToken(s, open string) (before, name, after string, found bool) {
	before, rest, found := strings.Cut(s, open)
	if !found {
		return s, "", "", false
	}
	name, after, found = strings.Cut(rest, "}")
	if !found {
		return s, "", "", false
	}
	return before, name, after, true
}
