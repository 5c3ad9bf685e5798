package verification

import (
	"net/netip"
	"slices"
	"strings"

	"sallyport/internal/platform/clientaddr"
)

// checkSource refuses a sender outside the provider's networks.
func (p *plan) checkSource(ip netip.Addr) *Refusal {
	if p.networks == nil {
		return nil
	}
	if clientaddr.In(ip, p.networks) {
		return nil
	}
	return reject(ReasonSourceRefused,
		"The webhook comes from an address that is not one of the provider's. If there is a proxy in front of the "+
			"gateway, name it as a trusted one.")
}

// Networks returns the networks that the provider sends from, or nil if the definition names none.
func (v *Verifier) Networks() []netip.Prefix { return slices.Clone(v.plan.networks) }

// checkAccount refuses a webhook for another account.
func (p *plan) checkAccount(w *view) *Refusal {
	for i := range p.account {
		if !p.account[i].holds(w) {
			return reject(ReasonAccountMismatch, "The webhook comes from the provider, but the "+p.account[i].src.place()+
				" is not this connection's. Compare it with the connection's parameters.")
		}
	}
	return nil
}

// checkBinding makes sure that a webhook is bound to the connection: by its own key, or by a required parameter that
// the proof or the account compares. Keys that the definition names prove only the platform, and anyone with an account
// there could send webhooks to every connection.
func (e *Engine) checkBinding() problems {
	var fs problems
	d := &e.decl
	for i := range d.Account {
		if slices.ContainsFunc(d.Account[i].Equals, e.mentionsRequired) {
			return nil
		}
	}
	if !e.binds(&d.Proof) {
		fs.add("account", ruleRequired,
			"is missing: the keys prove the provider's platform and not the account. Compare a required parameter here, "+
				"in jwt.aud or jwt.claims, or sign it as {conn:name}")
	}
	return fs
}

// binds reports whether a proof binds a webhook to the connection.
func (e *Engine) binds(d *Proof) bool {
	switch {
	case d.AnyOf != nil:
		return !slices.ContainsFunc(d.AnyOf, func(inner Proof) bool { return !e.binds(&inner) })
	case d.AllOf != nil:
		return slices.ContainsFunc(d.AllOf, func(inner Proof) bool { return e.binds(&inner) })
	case d.Keys == nil:
		return true // secrets of the connection, or nothing that is proved at all
	}
	k := d.Keys
	texts := []string{d.Signed}
	switch {
	case k.ByKid != nil:
		if strings.Contains(k.ByKid.Body, secretToken) {
			return true
		}
		texts = append(texts, k.ByKid.URL, k.ByKid.Body)
	case k.JWKS != nil:
		texts = append(texts, k.JWKS.URL)
	case k.Static != nil && !slices.ContainsFunc(k.Static, func(s string) bool { return !e.mentionsRequired(s) }):
		return true
	}
	if d.JWT != nil {
		texts = append(texts, d.JWT.Aud...)
		for i := range d.JWT.Claims {
			texts = append(texts, d.JWT.Claims[i].Equals...)
		}
	}
	return slices.ContainsFunc(texts, e.mentionsRequired)
}

// mentionsRequired reports whether a text contains a parameter that every connection has to set.
func (e *Engine) mentionsRequired(text string) bool {
	return slices.ContainsFunc(e.params, func(p param) bool {
		return p.Required && (strings.Contains(text, paramOpen+p.Name+"}") || strings.Contains(text, connOpen+p.Name+"}"))
	})
}
