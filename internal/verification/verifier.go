package verification

import (
	"crypto/hmac"
	"hash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Verifier verifies one connection's deliveries. It is safe for concurrent use.
type Verifier struct {
	plan *plan
	keys []key
	// workspaces holds *workspace; a keyed hash is made once and reset, which saves hashing the key again.
	workspaces sync.Pool
}

// workspace is what one verification works in.
type workspace struct {
	hashes  []hash.Hash // by key
	mac     []byte
	parts   []byte // signed bytes before and after the body
	offered candidates
}

func newVerifier(p *plan, keys []key) *Verifier {
	v := &Verifier{plan: p, keys: keys}
	v.workspaces.New = func() any {
		s := &workspace{hashes: make([]hash.Hash, len(keys)), mac: make([]byte, 0, maxMAC), parts: make([]byte, 0, 512)}
		for i, k := range keys {
			s.hashes[i] = hmac.New(p.newHash, k.bytes)
		}
		return s
	}
	return v
}

// Request is one delivery.
type Request struct {
	Method string
	// Header has canonical keys, as net/http delivers them; others are not seen.
	Header http.Header
	// Body is the raw body, byte for byte.
	Body []byte
	// Now is when the delivery arrived.
	Now time.Time
}

// Result is how a delivery was proved.
type Result struct {
	// Scheme is the declaration's scheme.
	Scheme string
	// KeyID is the ID of the secret that matched.
	KeyID string
	// Verified is true when the sender was proved.
	Verified bool
}

// Precheck refuses, before the body is read, a delivery to a connection without secrets or one without a signature. What
// passes it is not verified.
func (v *Verifier) Precheck(h http.Header) *Refusal {
	if len(v.keys) == 0 {
		return refuseNoSecret()
	}
	found := false
	for i := range v.plan.signatures {
		header := v.plan.signatures[i].header
		switch _, state := single(h, header); state {
		case unfit:
			return refuseUnfit(ReasonSignatureMalformed, header)
		case present:
			found = true
		case absent:
		}
	}
	if !found {
		return v.plan.refuseNoSignature()
	}
	return nil
}

// Verify proves the delivery, or says why not; the Result counts only when the Refusal is nil. Every secret is tried with
// every signature. The timestamp's age is looked at after the signature, so that a refusal for its age says that the secret
// is right.
func (v *Verifier) Verify(r *Request) (Result, *Refusal) {
	if len(v.keys) == 0 {
		return Result{}, refuseNoSecret()
	}
	s, ok := v.workspaces.Get().(*workspace)
	if !ok {
		return Result{}, refuseNoSecret()
	}
	defer v.workspaces.Put(s)
	s.offered.reset()
	if refusal := v.plan.collect(r.Header, &s.offered); refusal != nil {
		return Result{}, refusal
	}
	timestamp, refusal := v.plan.headerTimestamp(r.Header, &s.offered)
	if refusal != nil {
		return Result{}, refusal
	}
	if refusal := v.plan.checkIDHeaders(r.Header); refusal != nil {
		return Result{}, refusal
	}
	bodyAt, refusal := v.plan.signedBytes(r.Header, timestamp.text, s)
	if refusal != nil {
		return Result{}, refusal
	}
	matched := v.match(s, bodyAt, r.Body)
	if matched < 0 {
		return Result{}, refuse(ReasonSignatureMismatch, "No signature matches the body and a secret of this connection. "+
			"Check that the secret at the provider is the one stored here, and that nothing on the way rewrites the body.")
	}
	if refusal := v.plan.checkAge(timestamp, r); refusal != nil {
		return Result{}, refusal
	}
	return Result{Scheme: v.plan.scheme, KeyID: v.keys[matched].id, Verified: true}, nil
}

// match returns the index of the key under which one of the offered signatures is right, or -1.
func (v *Verifier) match(s *workspace, bodyAt int, body []byte) int {
	for i, h := range s.hashes {
		h.Reset()
		// A hash.Hash never returns an error.
		_, _ = h.Write(s.parts[:bodyAt])
		_, _ = h.Write(body)
		_, _ = h.Write(s.parts[bodyAt:])
		s.mac = h.Sum(s.mac[:0])
		for n := range s.offered.count {
			if hmac.Equal(s.mac, s.offered.macs[n][:len(s.mac)]) {
				return i
			}
		}
	}
	return -1
}

// stamp is a delivery's timestamp as text and, once read, as time.
type stamp struct {
	text string
	at   time.Time
}

// headerTimestamp reads a timestamp that stands in the headers; one in the body is read by checkAge.
func (p *plan) headerTimestamp(h http.Header, offered *candidates) (stamp, *Refusal) {
	if p.ts == nil || p.ts.src.kind == sourceJSON {
		return stamp{}, nil
	}
	if p.ts.src.kind == sourceSignature {
		where := "signature header's " + p.ts.src.name
		if offered.timestamps > 1 {
			return stamp{}, refuse(ReasonTimestampMalformed, "The "+where+" must stand once.")
		}
		return p.ts.read(offered.timestamp, where)
	}
	text, found := single(h, p.ts.src.name)
	if found == unfit {
		return stamp{}, refuseUnfit(ReasonTimestampMalformed, p.ts.src.name)
	}
	return p.ts.read(text, "header "+p.ts.src.name)
}

func (t *timestampRule) read(text, where string) (stamp, *Refusal) {
	if text == "" {
		return stamp{}, refuse(ReasonTimestampMissing, "The "+where+", which holds the timestamp, is missing.")
	}
	at, ok := t.parse(text)
	if !ok {
		return stamp{}, refuse(ReasonTimestampMalformed, "The "+where+" is not a timestamp in the form "+string(t.format)+".")
	}
	return stamp{text: text, at: at}, nil
}

// checkAge compares the timestamp, which may stand in the body, with the time of arrival.
func (p *plan) checkAge(s stamp, r *Request) *Refusal {
	if p.ts == nil {
		return nil
	}
	if p.ts.src.kind == sourceJSON {
		text, _ := p.jsonText(&view{plan: p, request: r}, p.ts.src)
		var refusal *Refusal
		if s, refusal = p.ts.read(text, "body's "+p.ts.src.text); refusal != nil {
			return refusal
		}
	}
	return p.ts.check(s.at, r.Now)
}

// checkIDHeaders refuses a delivery that carries two ids: which of them deduplicates it must not depend on who reads it.
func (p *plan) checkIDHeaders(h http.Header) *Refusal {
	for i := range p.ids {
		for _, src := range p.ids[i].sources {
			if src.kind != sourceHeader {
				continue
			}
			value, state := single(h, src.name)
			if state == unfit || p.ids[i].signed && state == present && !validID(value) {
				return refuseUnfit(ReasonHeaderMalformed, src.name)
			}
		}
	}
	return nil
}

// signedBytes puts together what the signature covers, apart from the body, and says where the body belongs.
func (p *plan) signedBytes(h http.Header, timestamp string, s *workspace) (bodyAt int, refusal *Refusal) {
	s.parts = s.parts[:0]
	if s.parts, refusal = appendParts(s.parts, p.before, h, timestamp); refusal != nil {
		return 0, refusal
	}
	bodyAt = len(s.parts)
	s.parts, refusal = appendParts(s.parts, p.after, h, timestamp)
	return bodyAt, refusal
}

func appendParts(dst []byte, parts []signedPart, h http.Header, timestamp string) ([]byte, *Refusal) {
	for i := range parts {
		switch part := &parts[i]; part.kind {
		case segmentLiteral:
			dst = append(dst, part.literal...)
		case segmentTimestamp:
			dst = append(dst, timestamp...)
		case segmentID, segmentSource:
			value, state := single(h, part.header)
			if state == absent {
				return dst, refuse(ReasonHeaderMissing, "The header "+part.header+", which the signature covers, is missing.")
			}
			if state == unfit || part.border != 0 && strings.IndexByte(value, part.border) >= 0 {
				return dst, refuseUnfit(ReasonHeaderMalformed, part.header)
			}
			dst = append(dst, value...)
		case segmentBody:
		}
	}
	return dst, nil
}

// validID reports whether an id can be kept: at most maxIDBytes of UTF-8 without NUL.
func validID(id string) bool {
	return id != "" && len(id) <= maxIDBytes && utf8.ValidString(id) && strings.IndexByte(id, 0) < 0
}

// RedactHeaders returns the lower-case names of the headers whose values must not be stored, sorted: those that carry
// signatures, and those that the declaration adds.
func (v *Verifier) RedactHeaders() []string { return slices.Clone(v.plan.redact) }
