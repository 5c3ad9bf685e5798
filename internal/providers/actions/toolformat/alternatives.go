package toolformat

// alternative is one way in which a value can fit a schema: of one type, and without further alternatives.
type alternative struct {
	node *node
	kind types
	// text is the description of this alternative alone.
	text string
	key  string
}

// choice is a schema as its alternatives.
type choice struct {
	list []alternative
	// null is true if null fits.
	null bool
	// any is true if a value of every type may fit, and nothing is said about it.
	any bool
	// lost is true if there are more alternatives than are listed.
	lost bool
	// seen are the schemas that were looked at.
	seen map[string]bool
}

// never reports whether no value fits.
func (c *choice) never() bool { return len(c.list) == 0 && !c.null && !c.any }

// alternatives returns the ways in which a value can fit a schema.
func (r *reader) alternatives(s schema) *choice {
	key := s.key()
	if c, known := r.choices[key]; known {
		return c
	}
	c := &choice{seen: map[string]bool{}}
	r.choices[key] = c
	r.choose(c, s, "", 0)
	c.seen = nil
	c.any = c.any || c.lost && len(c.list) == 0 && !c.null
	return c
}

func (r *reader) choose(c *choice, s schema, text string, depth int) {
	if depth > maxWithin || len(c.list) >= maxBranches || len(c.seen) >= 4*maxBranches {
		c.lost = true
		return
	}
	key := s.key()
	if c.seen[key] {
		return
	}
	c.seen[key] = true
	n := r.expand(s)
	if len(n.groups) == 0 {
		r.split(c, s, n, text)
		return
	}
	// The parts without their alternatives, and one alternative of each group.
	base := schema{}
	for _, p := range n.parts {
		base = append(base, part{v: p.v, alone: true})
	}
	combinations := []schema{base}
	branch := []string{""}
	for _, g := range n.groups {
		var next []schema
		var texts []string
		for i, combination := range combinations {
			for _, b := range g.branches {
				if len(next) >= maxBranches {
					c.lost = true
					break
				}
				next = append(next, combination.with(part{v: b}))
				own := r.expand(schema{{v: b}}).description
				if own == "" {
					own = branch[i]
				}
				texts = append(texts, own)
			}
		}
		combinations, branch = next, texts
	}
	for i, combination := range combinations {
		own := branch[i]
		if own == "" {
			own = text
		}
		r.choose(c, combination, own, depth+1)
	}
}

// split adds the types of a value as alternatives.
func (*reader) split(c *choice, s schema, n *node, text string) {
	if n.any() {
		c.any = true
		return
	}
	c.null = c.null || n.types&tNull != 0 && n.fits(tNull)
	for _, kind := range kinds() {
		set := n.types & kind
		if set == 0 || !n.fits(set) {
			continue
		}
		a := alternative{node: n, kind: set, text: text, key: s.key() + set.name()}
		same := false
		for _, b := range c.list {
			same = same || a.key == b.key
		}
		if !same {
			c.list = append(c.list, a)
		}
	}
}

// fits reports whether the values of an enum have one of the types.
func (n *node) fits(set types) bool {
	if n.enum == nil {
		return true
	}
	for _, v := range n.enum {
		if typesOfValue(v)&set != 0 {
			return true
		}
	}
	return false
}
