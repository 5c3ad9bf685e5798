package verification

import (
	"fmt"
	"slices"
)

// checker checks values of a declaration and collects what is wrong with them.
type checker struct{ problems problems }

// limit checks the length of a list.
func (c *checker) limit(field string, n int) {
	if n > maxEntries {
		c.problems.add(field, ruleLimit, "has more than %d entries", maxEntries)
	}
}

// compilePredicates checks a list of predicates, whose sources are of the given kinds.
func (c *checker) compilePredicates(field string, list []Predicate, kinds sourceKind) []predicate {
	c.limit(field, len(list))
	var out []predicate
	for i, p := range list {
		src, wrong := parseSource(p.From, kinds)
		if wrong != "" {
			c.problems.add(at(field, i)+".from", ruleFormat, "%s", wrong)
		}
		switch {
		case p.Present && p.Equals != nil, p.Empty && (p.Present || p.Equals != nil):
			c.problems.add(at(field, i), ruleCoherent, "can have one of equals, present and empty")
		case p.Empty && src.kind != sourceJSON && wrong == "":
			c.problems.add(at(field, i)+".empty", ruleCoherent, "is for json:<pointer>")
		case !p.Present && !p.Empty && (len(p.Equals) == 0 || len(p.Equals) > maxEntries):
			c.problems.add(at(field, i)+".equals", ruleRequired, "needs 1 to %d values", maxEntries)
		}
		if slices.Contains(p.Equals, "") {
			c.problems.add(at(field, i)+".equals", ruleFormat, "must not contain an empty value: absence is no mark")
		}
		out = append(out, predicate{src: src, equals: slices.Clone(p.Equals), empty: p.Empty})
	}
	return out
}

// at names an entry of a list.
func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// compiler builds the plan of a declaration.
type compiler struct {
	plan
	*checker
	values map[string]string // of the parameters
	// batchWhen is the batch's when.
	batchWhen []predicate
}

// proofCompiler builds one proof of a declaration.
type proofCompiler struct {
	*checker
	// path is that of the proof's fields' parent, with a dot behind it.
	path  string
	decl  *Proof
	proof *proof
	// values are those of the parameters, and ids those of the declaration.
	values map[string]string
	ids    []idRule
}

// compilePlan checks a bound declaration.
func compilePlan(d *Declaration, values map[string]string) (*plan, problems) {
	c := &compiler{checker: new(checker), values: values}
	c.compileIDs(d)
	c.root = c.compileNode("", &d.Proof, 1)
	c.covers = c.root.covers()
	c.compileBatchWhen(d.Event.Batch)
	c.finishIDs()
	if d.Body != nil {
		c.formField = d.Body.FormField
		if !printable(c.formField, 128) {
			c.problems.add("body.form_field", ruleFormat, "must be the name of a form field")
		}
	}
	c.compileEvent(d)
	c.control = c.compilePredicates("control", d.Control, controlSources)
	c.account = c.compilePredicates("account", d.Account, controlSources)
	c.compileHandshakes(d.Handshake)
	c.compileResponses(d)
	c.compileRedact(d)
	c.reads = c.readHeaders()
	c.compileSamples(d.Samples)
	return &c.plan, c.problems
}
