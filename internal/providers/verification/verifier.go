package verification

import (
	"context"
	"hash"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Verifier verifies one connection's webhooks. It is safe for concurrent use.
type Verifier struct {
	plan *plan
	// workspaces pools *workspace values.
	workspaces sync.Pool
}

// workspace is what one verification works in.
type workspace struct {
	view      view
	hashes    [][]hash.Hash // by proof, by key
	mac       []byte
	parts     []byte // signed bytes apart from the body
	timestamp stamp
	variant   urlVariant
	offered   candidates
	macs      macs
}

// maxPooledParts bounds the buffer that a workspace keeps.
const maxPooledParts = 64 << 10

func newVerifier(p *plan) *Verifier {
	v := &Verifier{plan: p}
	v.workspaces.New = func() any {
		s := &workspace{hashes: make([][]hash.Hash, len(p.proofs)), mac: make([]byte, 0, maxMAC), parts: make([]byte, 0, 512)}
		for i, proof := range p.proofs {
			s.hashes[i] = proof.newHashes()
		}
		return s
	}
	return v
}

// work takes a workspace for a webhook. It is given back with rest.
func (v *Verifier) work(r *Request) *workspace {
	s, _ := v.workspaces.Get().(*workspace)
	s.view.request, s.view.formField = r, v.plan.formField
	return s
}

// rest gives a workspace back without anything of the webhook in it.
func (v *Verifier) rest(s *workspace) {
	s.view.request, s.timestamp.text = nil, ""
	if s.view.found || s.view.claims != nil {
		s.view = view{}
	}
	s.offered.clear()
	if cap(s.parts) > maxPooledParts {
		s.parts = make([]byte, 0, 512)
	}
	v.workspaces.Put(s)
}

// Request is one webhook.
type Request struct {
	Method string
	// PublicURL is scheme and host, and the path prefix if there is one, under which providers reach this server, without
	// a slash at its end. A connection's url_base takes precedence. Only schemes that sign the URL need it.
	PublicURL string
	// Host is the host that the request names, with its port if it has one. The sender chooses it, so nothing depends on
	// it except Diagnose. Empty if it is not known.
	Host string
	// Path is the path as it was sent, including escapes, and RawQuery the part after the question mark.
	Path, RawQuery string
	// Header has canonical keys, as net/http delivers them; others are not seen.
	Header http.Header
	// Body is the raw body, byte for byte.
	Body []byte
	// RemoteIP is the sender's address. Only definitions that name the provider's networks need it.
	RemoteIP netip.Addr
	// Now is when the webhook arrived.
	Now time.Time
}

// Result is how a webhook was proved.
type Result struct {
	// Scheme is the declaration's scheme. If several proofs had to pass, it is their schemes joined by +.
	Scheme string
	// KeyID is the ID of the secret that matched.
	KeyID string
	// Verified is true if the sender was proved. It is false for the scheme none.
	Verified bool
	// SingleUse is a value that the provider uses only once, and SingleUseUntil the last moment at which its signature is
	// accepted. A webhook with a value that was used before is a duplicate. Empty if the proof has no such value.
	SingleUse      string
	SingleUseUntil time.Time
}

// Precheck rejects, before the body is read, a webhook to a connection without secrets, or one without a signature. A
// webhook that passes is not verified yet.
//
// A request that may be a handshake without a signature passes.
func (v *Verifier) Precheck(h http.Header) *Refusal {
	refusal := v.plan.root.precheck(h)
	if refusal != nil && v.plan.mayBeHandshake(h) {
		return nil
	}
	return refusal
}

// Verify proves the webhook, or returns the reason why not; the Result is valid only if the Refusal is nil. Every
// secret is checked with every signature. The timestamp's age is checked after the signature, so a rejection for its
// age means that the secret is correct. The context limits the wait for a provider's public keys if the scheme needs
// them; other schemes ignore it.
func (v *Verifier) Verify(ctx context.Context, r *Request) (Result, *Refusal) {
	if refusal := v.plan.checkSource(r.RemoteIP); refusal != nil {
		return Result{}, refusal
	}
	s := v.work(r)
	defer v.rest(s)
	result, refusal := v.plan.root.verify(ctx, s)
	if refusal == nil {
		refusal = v.plan.checkIDHeaders(r.Header)
	}
	if refusal == nil {
		refusal = v.plan.checkAccount(&s.view)
	}
	if refusal != nil {
		return Result{}, refusal
	}
	return result, nil
}

// checkIDHeaders refuses a webhook that carries two ids: which of them deduplicates it must not depend on who reads
// it.
func (p *plan) checkIDHeaders(h http.Header) *Refusal {
	for i := range p.ids {
		rule := &p.ids[i]
		for n := range rule.sources {
			src := &rule.sources[n]
			if src.kind != sourceHeader {
				continue
			}
			value, state := src.header(h)
			if state == unfit || rule.signed && state == present && !validID(value) {
				return refuseUnfit(ReasonHeaderMalformed, src.place())
			}
		}
	}
	return nil
}

// validID reports whether an id can be kept: at most maxIDBytes of UTF-8 without NUL.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDBytes && utf8.ValidString(id) && strings.IndexByte(id, 0) < 0
}

// RedactHeaders returns the lower-case names of the headers whose values must not be stored, sorted: those that carry
// signatures, tokens or a secret, and those that the declaration adds.
func (v *Verifier) RedactHeaders() []string { return slices.Clone(v.plan.redact) }

// SecretParameters returns the names of the parameters of the URL's query that carry signatures, tokens or a secret.
func (v *Verifier) SecretParameters() (names []string) {
	add := func(src *source) {
		if src.kind == sourceQuery {
			names = append(names, src.name)
		}
	}
	for _, p := range v.plan.proofs {
		for i := range p.signatures {
			add(&p.signatures[i].src)
		}
	}
	for i := range v.plan.handshakes {
		add(&v.plan.handshakes[i].captured)
	}
	return names
}

// SignatureHeaders returns the lower-case names of those of RedactHeaders that contain only a signature over the body,
// by which anyone with the secret can verify the webhook again, and from which no one can make another webhook.
func (v *Verifier) SignatureHeaders() []string { return slices.Clone(v.plan.signatures) }

// EventHeaders returns the lower-case names of the headers from which type, id and time of an event are read. A
// receiver that was written for the provider needs them first.
func (v *Verifier) EventHeaders() (names []string) {
	add := func(src *source) {
		for _, name := range src.headers() {
			names = append(names, strings.ToLower(name))
		}
	}
	for _, segments := range v.plan.types {
		for i := range segments {
			if segments[i].kind != segmentLiteral {
				add(&segments[i].src)
			}
		}
	}
	for i := range v.plan.ids {
		for n := range v.plan.ids[i].sources {
			add(&v.plan.ids[i].sources[n])
		}
	}
	if at := v.plan.occurred; at != nil {
		add(&at.src)
	}
	return names
}

// ReadsType reports whether the declaration says where a webhook has its type. Otherwise the type of all is unknown.
func (v *Verifier) ReadsType() bool { return len(v.plan.types) > 0 || v.plan.batch != nil }

// Ack returns the response to an accepted webhook, or nil for the gateway's own. It is shared: do not modify it.
func (v *Verifier) Ack() *Response { return v.plan.ack }

// RejectStatus returns the HTTP status code of rejections, 400 to 499.
func (v *Verifier) RejectStatus() int { return v.plan.reject }

// CarriesSecret reports whether a secret can come with the webhook itself, as a token or a password does, and not only
// a signature made with it.
func (v *Verifier) CarriesSecret() bool {
	return slices.ContainsFunc(v.plan.proofs, func(p *proof) bool {
		return p.scheme == schemeToken || p.scheme == schemeBasic
	})
}

// NeedsSecret reports whether no webhook passes without a secret of the connection.
func (v *Verifier) NeedsSecret() bool { return v.plan.root.needsSecret() }

// IDSource is a place of the provider's id of a webhook.
type IDSource struct {
	// Place is as Event.IDSource gives it.
	Place string
	// Signed is true if the signature covers the id.
	Signed bool
}

// IDSources returns the places in which an id is looked for, in the order of their use.
func (v *Verifier) IDSources() []IDSource {
	var list []IDSource
	if b := v.plan.batch; b != nil && b.idText != "" {
		list = append(list, IDSource{b.idText, v.plan.batchIDsSigned()})
	}
	for i := range v.plan.ids {
		list = append(list, IDSource{v.plan.ids[i].text, v.plan.ids[i].signed})
	}
	return list
}

// CanLeaveIDOut reports whether anyone who replays a webhook can make it one without an id: an id that the declaration
// names is outside the signature. Ids by convention do not count, because few providers that sign nothing send one.
func (v *Verifier) CanLeaveIDOut() bool {
	b := v.plan.batch
	return v.plan.looseID || b != nil && b.idText != "" && !v.plan.batchIDsSigned()
}

// SingleUses returns the places of values that the provider uses only once.
func (v *Verifier) SingleUses() []string {
	var list []string
	for _, p := range v.plan.proofs {
		if p.singleUse != nil {
			list = append(list, p.singleUse.text)
		}
	}
	return list
}

// BodiesUnique reports whether the provider's events never have equal bodies, so that a known body makes a duplicate.
func (v *Verifier) BodiesUnique() bool { return v.plan.bodiesUnique }

// MaxBody returns the most bytes of a body that the provider sends; 0 for no limit but the gateway's.
func (v *Verifier) MaxBody() int64 { return v.plan.maxBody }
