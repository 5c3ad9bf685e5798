package outbound

import (
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/providers/verification"
)

// firstItem is the segment of a pointer that stands for the index in a list.
const firstItem = "/0/"

// maxChoices is how many accounts of a list are read.
const maxChoices = 100

// Choice is one of several accounts that credentials can be used for. ID is the value of the field. Its texts are
// foreign, printable and bounded.
type Choice struct{ ID, Label string }

// ChoiceProbe returns the probe of a mode whose response lists the accounts of which a person chooses one, and the
// field of connection_config that has the choice; nil without one.
func (e *Engine) ChoiceProbe(mode string) (probe *HealthProbe, field string) {
	for _, p := range e.Probes(mode) {
		if p.choice != nil {
			return p, p.choice.Config
		}
	}
	return nil, ""
}

// Choices returns the accounts that the response to a ChoiceProbe lists, each once, in their order. Those with an id
// that the field does not accept are left out.
func (p *HealthProbe) Choices(e *Engine, r Response) []Choice {
	f := e.field(p.choice.Config)
	if f == nil || !p.ok.has(r.Status) {
		return nil
	}
	read := func(pointer string, i int) string {
		item, err := verification.ParsePointer(strings.Replace(pointer, firstItem, "/"+strconv.Itoa(i)+"/", 1))
		if err != nil {
			return ""
		}
		text, _ := r.text(&item)
		return text
	}
	var out []Choice
	for i := range maxChoices {
		id := read(p.Config[p.choice.Config], i)
		if id == "" {
			break
		}
		if f.check(id) != "" || slices.ContainsFunc(out, func(c Choice) bool { return c.ID == id }) {
			continue
		}
		c := Choice{ID: id, Label: clean(read(p.choice.Label, i), maxAccount)}
		if c.Label == "" {
			c.Label = id
		}
		out = append(out, c)
	}
	return out
}
