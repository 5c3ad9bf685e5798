package verification

import (
	"context"
	"net/http"
	"slices"
)

// node is a proof, or several of which any one or all have to pass.
type node struct {
	proof *proof
	any   []*node
	all   []*node
}

// compileNode checks a proof or a group of proofs; path is that of its fields' parent, with a dot behind it.
func (c *compiler) compileNode(path string, d *Proof, depth int) *node {
	if d.AnyOf == nil && d.AllOf == nil {
		if len(c.proofs) == maxProofs {
			c.problems.add(path+"scheme", ruleLimit, "exceeds the %d proofs that a declaration can have", maxProofs)
			return &node{}
		}
		return &node{proof: c.compileProof(path, d)}
	}
	name, entries := "any_of", d.AnyOf
	if d.AnyOf == nil {
		name, entries = "all_of", d.AllOf
	}
	field := path + name
	if d.AnyOf != nil && d.AllOf != nil || d.Scheme != "" || len(d.given()) > 0 {
		c.problems.add(field, ruleCoherent, "must be the only field: its entries define the proof of a webhook")
	}
	n := &node{}
	switch {
	case depth >= maxProofDepth:
		c.problems.add(field, ruleLimit, "nests deeper than %d groups", maxProofDepth-1)
		return n
	case len(entries) < 2 || len(entries) > maxProofs:
		c.problems.add(field, ruleRequired, "needs 2 to %d entries", maxProofs)
		return n
	}
	for i := range entries {
		inner := c.compileNode(at(field, i)+".", &entries[i], depth+1)
		if inner.proof != nil && inner.proof.scheme == schemeNone {
			c.problems.add(at(field, i)+".scheme", ruleCoherent, "cannot be none together with other proofs")
		}
		if d.AnyOf != nil {
			n.any = append(n.any, inner)
		} else {
			n.all = append(n.all, inner)
		}
	}
	return n
}

// covers returns the parts that every way to pass the node covers.
func (n *node) covers() coverage {
	if n.proof != nil {
		return n.proof.covers
	}
	var covers coverage
	for i, inner := range n.any {
		if covers = covers.either(inner.covers()); i == 0 {
			covers = inner.covers()
		}
	}
	for i, inner := range n.all {
		if covers = covers.together(inner.covers()); i == 0 {
			covers = inner.covers()
		}
	}
	return covers
}

// needsSecret reports whether every way to pass the node uses a secret of the connection.
func (n *node) needsSecret() bool {
	without := func(inner *node) bool { return !inner.needsSecret() }
	switch {
	case n.proof != nil:
		return n.proof.usesSecrets()
	case n.any != nil:
		return !slices.ContainsFunc(n.any, without)
	default:
		return slices.ContainsFunc(n.all, (*node).needsSecret)
	}
}

// verify proves the webhook by the node.
func (n *node) verify(ctx context.Context, s *workspace) (Result, *Refusal) {
	switch {
	case n.proof != nil:
		return n.proof.verify(ctx, s)
	case n.any != nil:
		var furthest *Refusal
		for _, inner := range n.any {
			result, refusal := inner.verify(ctx, s)
			if refusal == nil {
				return result, nil
			}
			furthest = further(furthest, refusal)
		}
		return Result{}, furthest
	case n.all == nil:
		return Result{}, refuseMismatch()
	default:
		var all Result
		for i, inner := range n.all {
			result, refusal := inner.verify(ctx, s)
			if refusal != nil {
				return Result{}, refusal
			}
			if all = all.and(result); i == 0 {
				all = result
			}
		}
		return all, nil
	}
}

// and is the result of two proofs that both passed.
func (r Result) and(other Result) Result {
	r.Scheme += "+" + other.Scheme
	if r.KeyID == "" {
		r.KeyID = other.KeyID
	}
	r.Verified = r.Verified && other.Verified
	if r.SingleUse == "" {
		r.SingleUse, r.SingleUseUntil = other.SingleUse, other.SingleUseUntil
	}
	return r
}

// further returns the more specific rejection.
func further(a, b *Refusal) *Refusal {
	if a == nil || b.Reason.rank() > a.Reason.rank() {
		return b
	}
	return a
}

// precheck refuses what has no signature where one has to be. It sees the headers only.
func (n *node) precheck(h http.Header) *Refusal {
	if n.proof != nil {
		return n.proof.precheck(h)
	}
	var furthest *Refusal
	for _, inner := range n.any {
		refusal := inner.precheck(h)
		if refusal == nil {
			return nil
		}
		furthest = further(furthest, refusal)
	}
	for _, inner := range n.all {
		if refusal := inner.precheck(h); refusal != nil {
			return refusal
		}
	}
	return furthest
}
