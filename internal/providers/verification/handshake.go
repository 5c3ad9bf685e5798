package verification

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// Response is a response to a provider.
type Response struct {
	Status int
	// Header has the content type if there is one, X-Content-Type-Options: nosniff, and the headers that the declaration
	// adds. It is shared: do not modify it.
	Header http.Header
	Body   []byte
	// Capture is a secret that the handshake contains; nil if there is none.
	Capture *Captured
}

// Captured is a secret that a provider sends in a handshake. Anyone can send one, so it may be stored only while the
// operator waits for it, and must never replace another. If it is not stored, the handshake must get no response.
type Captured struct {
	Value secretbox.Secret
	// Confirm is true if the secret may be used only after the operator has confirmed it at the provider.
	Confirm bool
}

// handshake is a checked Handshake.
type handshake struct {
	when        []predicate
	require     []predicate
	methods     []string
	verifyFirst bool
	capture     *Capture
	captured    source
	status      int
	contentType string
	json        bool
	headers     []responseHeader
	body        []responsePart
	signs       bool // contains an HMAC
}

type responseHeader struct {
	name  string
	value []responsePart
}

// responsePart is a piece of a response: a literal, an echo, or an HMAC.
type responsePart struct {
	literal string
	src     *source
	hmac    signatureEncoding // of an HMAC; empty for an echo
}

// Handshake responds to a request by which the provider makes sure that the URL is ours. Both results are nil if the
// request is no handshake; a POST is a webhook then. Call it before Verify, with an empty body for GET, HEAD and
// OPTIONS.
func (v *Verifier) Handshake(ctx context.Context, r *Request) (*Response, *Refusal) {
	if len(v.plan.handshakes) == 0 {
		return nil, nil
	}
	w := &view{}
	w.reset(r, v.plan.formField)
	for i := range v.plan.handshakes {
		h := &v.plan.handshakes[i]
		if slices.ContainsFunc(h.when, func(p predicate) bool { return !p.holds(w) }) {
			continue
		}
		keyID := ""
		if h.verifyFirst {
			result, refusal := v.Verify(ctx, r)
			if refusal != nil {
				return nil, refusal
			}
			keyID = result.KeyID
		} else if refusal := v.plan.checkSource(r.RemoteIP); refusal != nil {
			return nil, refusal
		}
		if slices.ContainsFunc(h.require, func(p predicate) bool { return !p.proves(w) }) {
			return nil, reject(ReasonHandshakeRefused, "A value of the handshake, such as the verify token, is missing or "+
				"differs from the connection's parameter. Enter the same value at the provider.")
		}
		return v.plan.response(h, w, keyID)
	}
	return nil, nil
}

// proves is holds for a value that only the provider knows: how long it takes shows nothing of the expected one.
func (p *predicate) proves(w *view) bool {
	if p.equals == nil {
		return p.holds(w)
	}
	value, state := w.text(&p.src)
	equal := 0
	for _, want := range p.equals {
		equal |= subtle.ConstantTimeCompare([]byte(value), []byte(want))
	}
	return state == present && equal == 1
}

// HandshakeMethods returns the methods by which handshakes come, sorted.
func (v *Verifier) HandshakeMethods() []string {
	var methods []string
	for i := range v.plan.handshakes {
		methods = append(methods, v.plan.handshakes[i].methods...)
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

// mayBeHandshake reports whether a POST may be a handshake that needs no signature, according to its headers.
func (p *plan) mayBeHandshake(h http.Header) bool {
	w := &view{request: &Request{Header: h, Method: http.MethodPost}}
	return slices.ContainsFunc(p.handshakes, func(hs handshake) bool {
		return !hs.verifyFirst && !slices.ContainsFunc(hs.when, func(p predicate) bool {
			return (p.src.kind == sourceHeader || p.src.kind == sourceMethod) && !p.holds(w)
		})
	})
}

func (p *plan) response(h *handshake, w *view, keyID string) (*Response, *Refusal) {
	var secret *key
	if h.signs {
		if secret = p.responseKey(keyID); secret == nil {
			return nil, refuseNoSecret()
		}
	}
	a := &Response{Status: h.status, Header: responseHeaders(h.contentType)}
	for _, header := range h.headers {
		value, ok := p.renderAnswer(header.value, w, secret, false)
		if !ok || !printable(strings.ReplaceAll(string(value), " ", "_"), maxResponse) {
			return nil, refuseHandshake()
		}
		a.Header[header.name] = []string{string(value)}
	}
	var ok bool
	if a.Body, ok = p.renderAnswer(h.body, w, secret, h.json); !ok {
		return nil, refuseHandshake()
	}
	if h.capture != nil {
		value, state := w.text(&h.captured)
		if state != present || len(value) > maxSecretBytes {
			return nil, refuseHandshake()
		}
		a.Capture = &Captured{Value: secretbox.Secret(value), Confirm: h.capture.Confirm}
	}
	return a, nil
}

func refuseHandshake() *Refusal {
	return reject(ReasonHandshakeMalformed,
		"A value that the response must contain is missing in the handshake, is too long, or is not allowed.")
}

// responseKey returns the key for the response to a handshake: the one that signed it, else the newest.
func (p *plan) responseKey(keyID string) *key {
	for _, proof := range p.proofs {
		if !proof.responds || len(proof.keys) == 0 {
			continue
		}
		for i := range proof.keys {
			if proof.keys[i].id == keyID {
				return &proof.keys[i]
			}
		}
		return &proof.keys[len(proof.keys)-1]
	}
	return nil
}

func (p *plan) renderAnswer(parts []responsePart, w *view, secret *key, escape bool) ([]byte, bool) {
	var out []byte
	for _, part := range parts {
		if part.src == nil {
			out = append(out, part.literal...)
			continue
		}
		value, state := w.text(part.src)
		if state != present {
			return nil, false
		}
		switch {
		case part.hmac != encodingNone:
			if !isChallenge([]byte(value)) {
				return nil, false
			}
			out = append(out, p.sum(secret, value, part.hmac)...)
		case escape:
			out = appendEscaped(out, value)
		default:
			out = append(out, value...)
		}
	}
	return out, len(out) <= maxResponse
}

func (p *plan) sum(secret *key, value string, encoding signatureEncoding) string {
	for _, proof := range p.proofs {
		if proof.responds {
			h := hmac.New(proof.newHash, secret.bytes)
			_, _ = h.Write([]byte(value)) // a hash.Hash never returns an error
			if encoding == encodingHex {
				return hex.EncodeToString(h.Sum(nil))
			}
			return base64.StdEncoding.EncodeToString(h.Sum(nil))
		}
	}
	return ""
}

// appendEscaped appends a value as it stands inside a JSON string.
func appendEscaped(out []byte, value string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return out // a string always encodes
	}
	quoted := bytes.TrimRight(b.Bytes(), "\n")
	return append(out, quoted[1:len(quoted)-1]...)
}

// isChallenge reports whether a response may contain the HMAC of a value.
func isChallenge(value []byte) bool {
	if len(value) == 0 || len(value) > maxChallenge {
		return false
	}
	for _, c := range value {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// isChallenge reports whether the content that was put together is one that a handshake would sign.
func (s *workspace) isChallenge(bodyAt int) bool {
	if bodyAt < 0 {
		return isChallenge(s.parts)
	}
	body := s.view.request.Body
	return len(s.parts)+len(body) <= maxChallenge && (len(s.parts) == 0 || isChallenge(s.parts)) &&
		(len(body) == 0 || isChallenge(body))
}
