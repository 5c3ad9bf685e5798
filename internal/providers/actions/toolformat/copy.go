package toolformat

import "sallyport/internal/platform/jsonindex"

// copier writes schemas as they are, without the regular expressions that not all readers know: a client that cannot
// compile one may refuse all tools of a server. lost is true if there were any.
type copier struct {
	writer
	lost bool
}

// schema writes a schema. Booleans become objects.
func (w *copier) schema(v jsonindex.Value) {
	switch {
	case v.Kind() == jsonindex.Bool && !v.Bool():
		w.out.WriteString(`{"not":{}}`)
	case v.Kind() != jsonindex.Object:
		w.out.WriteString("{}")
	default:
		w.object(func(m *members) {
			seen := map[string]bool{}
			for name := range v.Members() {
				if !seen[name] {
					seen[name] = true
					w.keyword(m, name, v.Get(name))
				}
			}
		})
	}
}

func (w *copier) keyword(m *members, name string, v jsonindex.Value) {
	switch name {
	case "pattern":
		if text, ok := v.Text(); ok && !simple(text) {
			w.lost = true
			return
		}
		m.raw(name, []byte(compact(v)))
	case "items", "not":
		m.name(name)
		w.schema(v)
	case "additionalProperties":
		m.name(name)
		if v.Kind() == jsonindex.Bool {
			w.out.Write(v.Raw())
			return
		}
		w.schema(v)
	case "anyOf", "oneOf", "allOf", "prefixItems":
		var list []jsonindex.Value
		for item := range v.Items() {
			list = append(list, item)
		}
		m.list(name, len(list), func(i int) { w.schema(list[i]) })
	case "properties", "$defs":
		m.name(name)
		w.object(func(m *members) {
			seen := map[string]bool{}
			for member := range v.Members() {
				if !seen[member] {
					seen[member] = true
					m.name(member)
					w.schema(v.Get(member))
				}
			}
		})
	default:
		m.raw(name, []byte(compact(v)))
	}
}
