package verification

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Only to report that the sender uses it; no signature with it is accepted.
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"hash"
	"net/http"
	"slices"
	"strings"
)

// Cause is the likely reason of a rejection. The set is closed.
type Cause string

// The causes.
const (
	// CauseSecretWrong: no variant makes the signature valid, so most likely the secret is wrong.
	CauseSecretWrong Cause = "secret_wrong"
	// CauseSecretForm: the signature is valid if the secret is decoded in another way.
	CauseSecretForm Cause = "secret_form"
	// CauseBodyRewritten: the signature is valid for a body that a proxy or framework could have turned into this one.
	CauseBodyRewritten Cause = "body_rewritten"
	// CauseURLRewritten: the signature is right for another form of the URL.
	CauseURLRewritten Cause = "url_rewritten"
	// CauseSignatureForm: the signature is valid, but encoded in another way than the definition says.
	CauseSignatureForm Cause = "signature_form"
	// CauseContentOther: the signature is valid for other content or another hash than the definition says.
	CauseContentOther Cause = "content_other"
	// CauseHeaderOther: the expected header is missing, but other headers look like one of a signature.
	CauseHeaderOther Cause = "header_other"
	// CauseClock: the clocks differ, or the webhook was delayed or replayed.
	CauseClock Cause = "clock"
)

// Diagnosis describes the problem of a rejected webhook. Like a Refusal it contains no secrets, signatures or values
// from the request, but it may contain names of headers.
type Diagnosis struct {
	// Cause is empty if nothing is known beyond the rejection.
	Cause   Cause
	Message string
}

const (
	// maxDiagnosed limits the body variants.
	maxDiagnosed = 64 << 10
	// maxDiagnosedSecrets bounds the secrets that are read in other ways.
	maxDiagnosedSecrets = 4
)

// Diagnose looks for the problem of a webhook that Verify rejected. It costs a few dozen verifications, so it must not
// run on the request's path, or for every rejection. It fetches no keys, and accepts nothing.
func (v *Verifier) Diagnose(ctx context.Context, r *Request, refusal *Refusal) Diagnosis {
	if refusal == nil || len(r.Body) > maxDiagnosed {
		return Diagnosis{}
	}
	switch refusal.Reason {
	case ReasonTimestampOutOfRange:
		return Diagnosis{CauseClock, "The signature is valid. Compare the clock of this host with the sender's. If both " +
			"are correct, the webhook was delayed or replayed."}
	case ReasonSignatureMissing:
		return v.otherHeaders(r.Header)
	case ReasonSignatureMismatch, ReasonSignatureMalformed, ReasonBodyMalformed, ReasonURLUnknown, ReasonURLMalformed:
	default:
		return Diagnosis{}
	}
	var keyed []*proof
	for _, p := range v.plan.proofs {
		if len(p.keys) == 0 || p.source != nil {
			continue
		}
		keyed = append(keyed, p)
		for _, try := range []func(context.Context, *proof, *Request) Diagnosis{
			v.tryBodies, v.tryHash, v.tryURLs, v.trySignatures, v.trySecrets, v.tryContents,
		} {
			if d := try(ctx, p, r); d.Cause != "" {
				return d
			}
		}
	}
	if len(keyed) == 0 || refusal.Reason != ReasonSignatureMismatch {
		return Diagnosis{}
	}
	return diagnoseWrongSecret(keyed)
}

// diagnoseWrongSecret is the result if no variant makes any of the proofs pass.
func diagnoseWrongSecret(tried []*proof) Diagnosis {
	signs := func(p *proof) bool { return p.scheme != schemeToken && p.scheme != schemeBasic }
	message := "The webhook's token is not one of the stored secrets. Compare them with the one at the provider."
	if slices.ContainsFunc(tried, signs) {
		message = "No usual change of the body, URL, secret or signature makes the signature valid. Most likely the " +
			"stored secret is not the one at the provider."
	}
	if slices.ContainsFunc(tried, func(p *proof) bool { return p.content.url }) {
		message += " Or the provider calls another URL than the connection's webhook_url. The signature covers it, so " +
			"compare the two, and set url_base of the connection if the hosts differ."
	}
	return Diagnosis{CauseSecretWrong, message}
}

// passes reports whether the signature of a proof is valid for a request, regardless of its age.
func (v *Verifier) passes(ctx context.Context, p *proof, r *Request) bool {
	s := &workspace{hashes: make([][]hash.Hash, p.index+1)}
	s.hashes[p.index] = p.newHashes()
	s.view.reset(r, v.plan.formField)
	var refusal *Refusal
	if p.content.each != nil {
		_, refusal = p.verifyItems(ctx, s)
	} else {
		_, refusal = p.verifyOne(ctx, s)
	}
	return refusal == nil && p.checkBodyHash(s) == nil
}

func (v *Verifier) tryBodies(ctx context.Context, p *proof, r *Request) Diagnosis {
	for variant := range bodyVariants(r.Body) {
		changed := *r
		changed.Body = variant.body
		if !bytes.Equal(variant.body, r.Body) && v.passes(ctx, p, &changed) {
			return Diagnosis{CauseBodyRewritten,
				"The secret is right, but something between the provider and the gateway rewrites the body: it was signed " +
					variant.name + ". Forward it byte for byte."}
		}
	}
	return Diagnosis{}
}

// tryHash detects a valid signature over the hash of another body.
func (v *Verifier) tryHash(ctx context.Context, p *proof, r *Request) Diagnosis {
	signature := *p
	signature.bodyHash = nil
	if p.bodyHash == nil || !v.passes(ctx, &signature, r) {
		return Diagnosis{}
	}
	return Diagnosis{CauseBodyRewritten,
		"The secret is correct, but the signature covers the hash of another body: something between the provider and the " +
			"gateway rewrites the body, or it was replaced. Forward it byte for byte."}
}

// trySignatures reads the signatures in every encoding, and as the whole value.
func (v *Verifier) trySignatures(ctx context.Context, p *proof, r *Request) Diagnosis {
	if p.scheme == schemeToken || p.scheme == schemeBasic || p.scheme == schemeJWT {
		return Diagnosis{}
	}
	for _, whole := range []bool{false, true} {
		for _, encoding := range []signatureEncoding{encodingHex, encodingBase64, encodingBase64URL} {
			other := *p
			other.signatures = slices.Clone(p.signatures)
			for i := range other.signatures {
				rule := &other.signatures[i]
				rule.encoding, rule.base64 = encoding, base64.StdEncoding.Strict()
				if encoding == encodingBase64URL {
					rule.base64 = base64.RawURLEncoding.Strict()
				}
				if whole {
					rule.prefix, rule.kv, rule.list, rule.path = "", nil, nil, nil
				}
			}
			if v.passes(ctx, &other, r) {
				where := "in its place"
				if whole {
					where = "as the whole value"
				}
				return Diagnosis{CauseSignatureForm, "The secret is correct, but the signature is " + where + " in " +
					string(encoding) + ", and the definition or the connection's parameters say otherwise."}
			}
		}
	}
	return Diagnosis{}
}

// trySecrets reads the secrets in every way in which a secret is written.
func (v *Verifier) trySecrets(ctx context.Context, p *proof, r *Request) Diagnosis {
	if p.secret == secretPublicKey || p.secret == secretNone {
		return Diagnosis{}
	}
	for _, k := range p.keys[max(0, len(p.keys)-maxDiagnosedSecrets):] {
		text := k.text.Reveal()
		for _, way := range []struct {
			name   string
			decode secretDecoding
			text   string
		}{
			{"without the spaces or line ends around it", p.secret, strings.TrimSpace(text)},
			{"as plain text", secretUTF8, text},
			{"without the prefix whsec_", secretUTF8, strings.TrimPrefix(text, "whsec_")},
			{"as hexadecimal", secretHex, text},
			{"as base64", secretBase64, text},
			{"as whsec_ and base64", secretWhsec, text},
			{"with a line end after it, which the sender's settings have", secretUTF8, text + "\n"},
		} {
			decoded, _, wrong := decodeSecret(way.decode, way.text)
			if wrong != "" || bytes.Equal(decoded, k.bytes) {
				continue
			}
			other := *p
			other.keys = []key{{id: k.id, bytes: decoded}}
			if v.passes(ctx, &other, r) {
				return Diagnosis{CauseSecretForm, "The secret is correct if it is read " + way.name +
					". Store it in the form that the provider shows, or choose the parameter for its form."}
			}
		}
	}
	return Diagnosis{}
}

// tryContents tests the body alone, and the other hashes.
func (v *Verifier) tryContents(ctx context.Context, p *proof, r *Request) Diagnosis {
	if p.scheme != schemeHMAC {
		return Diagnosis{}
	}
	alone := *p
	alone.content = content{parts: []signedPart{{segment: segment{kind: segmentBody}}}}
	if v.passes(ctx, &alone, r) {
		return Diagnosis{CauseContentOther,
			"The secret is correct, but the sender signs only the body, and the definition or the connection's parameters " +
				"say otherwise."}
	}
	for _, h := range []struct {
		name    string
		newHash func() hash.Hash
		size    int
	}{{"SHA-1", sha1.New, sha1.Size}, {"SHA-256", sha256.New, sha256.Size}, {"SHA-512", sha512.New, sha512.Size}} {
		other := *p
		other.newHash, other.macSize = h.newHash, h.size
		if h.size != p.macSize && v.passes(ctx, &other, r) {
			return Diagnosis{CauseContentOther, "The secret is correct, but the sender signs with HMAC-" + h.name +
				", and the definition or the connection's parameters say otherwise."}
		}
	}
	return Diagnosis{}
}

// otherHeaders names headers of the webhook that look like those of a signature.
func (v *Verifier) otherHeaders(h http.Header) Diagnosis {
	var names []string
	for name := range h {
		lower := strings.ToLower(name)
		looks := strings.Contains(lower, "signature") || strings.Contains(lower, "hmac") || strings.HasSuffix(lower, "-token")
		if looks && printable(name, 64) && validHeaderName(name) && !v.plan.expects(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return Diagnosis{}
	}
	slices.Sort(names)
	return Diagnosis{CauseHeaderOther, "The expected header is not there, but the webhook has " +
		strings.Join(names[:min(3, len(names))], ", ") +
		". Perhaps the connection's provider or parameters are not the sender's, or the provider sends an older signature."}
}

// expects reports whether signatures are looked for in a header, by its canonical name.
func (p *plan) expects(header string) bool {
	return slices.ContainsFunc(p.proofs, func(p *proof) bool {
		return slices.ContainsFunc(p.signatures, func(rule signatureRule) bool {
			return slices.Contains(rule.src.headers(), header)
		})
	})
}
