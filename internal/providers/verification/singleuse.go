package verification

// compileSingleUse checks the source of a value that is used once.
func (c *proofCompiler) compileSingleUse() {
	d, p := c.decl, c.proof
	if d.SingleUse == "" {
		return
	}
	field := c.path + "single_use"
	src, wrong := parseSource(d.SingleUse, sourceJSON|sourceForm)
	switch {
	case wrong != "":
		c.problems.add(field, ruleFormat, "%s", wrong)
	case p.content.each != nil || p.covers.body || !p.covers.has(&src):
		c.problems.add(field, ruleCoherent, "must be a required value under a signature that does not cover the body")
	case p.ts == nil || !d.Timestamp.Signed || p.ts.maxAge == 0 || p.ts.maxSkew == 0:
		c.problems.add(field, ruleCoherent,
			"needs a signed timestamp with max_age_s and max_skew_s, so that no value must be remembered forever")
	default:
		p.singleUse = &src
	}
}
