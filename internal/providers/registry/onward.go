package registry

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/providers/verification"
)

// onward is what limits the use of a provider's signatures behind a gateway that passes them on.
type onward struct {
	// maxAge is the shortest time for which one of them is valid; 0 for no limit.
	maxAge time.Duration
	// replaced reports that they come in the headers of Standard Webhooks, which the gateway needs for its own.
	replaced bool
	// svix reports that they can come in the headers of Svix instead, which Svix's own library reads first.
	svix bool
	// removed reports that one is a part of the body, from which the gateway removes it: it would prove other bodies too.
	removed bool
}

// onwardOf returns it for a definition's webhooks, and the values that are removed from their bodies. Parameters have
// their defaults.
func onwardOf(d *verification.Declaration, redacted []string) (o onward) {
	defaults := make([]string, 0, 2*len(d.Params))
	for i := range d.Params {
		defaults = append(defaults, "{param:"+d.Params[i].Name+"}", d.Params[i].Default)
	}
	values := strings.NewReplacer(defaults...)
	var walk func(p *verification.Proof)
	walk = func(p *verification.Proof) {
		for i := range p.AnyOf {
			walk(&p.AnyOf[i])
		}
		for i := range p.AllOf {
			walk(&p.AllOf[i])
		}
		if t := p.Timestamp; t != nil {
			if n, err := strconv.Atoi(values.Replace(t.MaxAgeS)); err == nil && n > 0 {
				if age := time.Duration(n) * time.Second; o.maxAge == 0 || age < o.maxAge {
					o.maxAge = age
				}
			}
		}
		comesIn := func(name string) bool {
			return slices.ContainsFunc(p.Signature, func(s verification.SignatureSource) bool {
				_, names, ok := strings.Cut(s.From, "header:")
				return ok && slices.Contains(strings.Split(strings.ToLower(names), ","), name)
			})
		}
		o.replaced = o.replaced || comesIn("webhook-signature")
		o.svix = o.svix || comesIn("svix-signature")
		o.removed = o.removed || len(redacted) > 0 && slices.ContainsFunc(p.Signature, inBody)
	}
	walk(&d.Proof)
	return o
}

// inBody reports whether a signature is a part of the body.
func inBody(s verification.SignatureSource) bool {
	return strings.HasPrefix(s.From, "json:") || strings.HasPrefix(s.From, "form:")
}
