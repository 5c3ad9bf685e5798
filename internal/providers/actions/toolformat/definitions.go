package toolformat

import (
	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/risk"
)

// openAI makes a function tool of the Responses API, in strict mode if the input can be expressed in it.
func (d *Definition) openAI(t *Tool, root jsonindex.Value) {
	write := func(parameters []byte) []byte {
		w := &writer{}
		w.object(func(m *members) {
			m.text("type", "function")
			m.text("name", t.Name)
			m.text("description", text(t.Action, maxFunctionText))
			m.name("strict")
			w.out.WriteString(map[bool]string{true: "true", false: "false"}[d.Strict])
			m.raw("parameters", parameters)
		})
		return w.out.Bytes()
	}
	if parameters, ok := d.strictly(root); ok {
		d.Strict = true
		if d.JSON = write(parameters); len(Violations(OpenAI, d.JSON)) == 0 {
			return
		}
	}
	d.Strict, d.Notes = false, nil
	d.note("It cannot be expressed in strict mode.")
	d.JSON = write(d.inlined(root))
}

// anthropic makes a client tool of the Messages API.
func (d *Definition) anthropic(t *Tool, root jsonindex.Value) {
	schema := d.inlined(root)
	w := &writer{}
	w.object(func(m *members) {
		m.text("name", t.Name)
		m.text("description", text(t.Action, maxText))
		m.raw("input_schema", schema)
	})
	d.JSON = w.out.Bytes()
}

// mcp makes a tool of the Model Context Protocol. Its schemas are those of the action.
func (d *Definition) mcp(t *Tool, root jsonindex.Value) error {
	input, ok := d.objectSchema(root)
	if !ok {
		d.note(noteLarge)
		input = []byte(`{"type":"object"}`)
	}
	var output []byte
	if t.Action.Output != nil {
		value, err := parse(t.Action.Output)
		if err != nil {
			return err
		}
		if output, ok = d.objectSchema(value); !ok {
			output = nil
			d.note("Its output is no object, which is all that an output schema can describe.")
		}
	}
	d.JSON = mcpTool(t, input, output)
	if len(d.JSON) > maxDefinition && output != nil {
		d.note("It has no output schema, because it would be too large.")
		d.JSON = mcpTool(t, input, nil)
	}
	return nil
}

func mcpTool(t *Tool, input, output []byte) []byte {
	w := &writer{}
	w.object(func(m *members) {
		m.text("name", t.Name)
		m.text("title", t.Action.Title)
		m.text("description", text(t.Action, maxText))
		m.raw("inputSchema", input)
		m.raw("outputSchema", output)
		m.name("annotations")
		hints := HintsOf(&t.Risk)
		w.object(func(m *members) {
			m.text("title", t.Action.Title)
			for _, h := range []struct {
				name  string
				value bool
			}{{"readOnlyHint", hints.ReadOnly}, {"destructiveHint", hints.Destructive},
				{"idempotentHint", hints.Idempotent}, {"openWorldHint", hints.OpenWorld}} {
				m.name(h.name)
				w.out.WriteString(map[bool]string{true: "true", false: "false"}[h.value])
			}
		})
	})
	return w.out.Bytes()
}

// objectSchema returns a schema of objects with its type at the top, as the protocol requires; false for a schema of
// other values. The schemas of its properties are objects, never booleans.
func (d *Definition) objectSchema(root jsonindex.Value) ([]byte, bool) {
	r := newReader(root)
	c := r.alternatives(r.top())
	if root.Kind() != jsonindex.Object || c.any || c.null || len(c.list) == 0 {
		return nil, false
	}
	for _, a := range c.list {
		if a.kind != tObject {
			return nil, false
		}
	}
	w := &copier{}
	w.object(func(m *members) {
		m.text("type", "object")
		seen := map[string]bool{"type": true}
		for name := range root.Members() {
			if seen[name] {
				continue
			}
			seen[name] = true
			w.keyword(m, name, root.Get(name))
		}
	})
	if w.lost {
		d.note("Regular expressions that not all clients can compile are left out.")
	}
	return w.out.Bytes(), w.out.Len() <= maxDefinition-maxText-maxInlined/4
}

// Hints are what a tool of the Model Context Protocol says about its effect.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// HintsOf returns the hints of a risk. A call that is not understood is destructive.
func HintsOf(r *risk.Risk) Hints {
	has := func(flags ...risk.Flag) bool {
		for _, f := range flags {
			for _, own := range r.Flags {
				if f == own {
					return true
				}
			}
		}
		return false
	}
	harms := has(risk.Destructive, risk.MovesMoney, risk.ChangesAccess, risk.RunsCode)
	h := Hints{OpenWorld: true}
	h.ReadOnly = r.Operation == risk.Read && !harms && !has(risk.NotifiesPeople) && !r.Level.Above(risk.Medium)
	h.Idempotent = h.ReadOnly || has(risk.Idempotent)
	if !h.ReadOnly {
		h.Destructive = harms || r.Operation != risk.Create && r.Operation != risk.Update || r.Level == risk.Unknown ||
			r.Operation == risk.Update && r.Level.Above(risk.Medium)
	}
	return h
}
