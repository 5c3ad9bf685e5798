package verification

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// render puts together in s.parts what the signature covers, apart from {body}, and says where in it the body belongs;
// -1 where the content does not contain it.
func (p *proof) render(s *workspace, secret []byte) (bodyAt int, refusal *Refusal) {
	s.parts = s.parts[:0]
	bodyAt = -1
	for i := range p.content.parts {
		part := &p.content.parts[i]
		switch part.kind {
		case segmentLiteral:
			s.parts = append(s.parts, part.text...)
		case segmentBody:
			bodyAt = len(s.parts)
		case segmentTimestamp:
			s.parts = append(s.parts, s.timestamp.text...)
		case segmentID, segmentSource:
			value, state := s.view.text(&part.src)
			if state == absent && !part.optional {
				return 0, refuseAbsent(&part.src)
			}
			if state == unfit || part.border != 0 && strings.IndexByte(value, part.border) >= 0 {
				return 0, refuseUnfit(ReasonHeaderMalformed, part.src.place())
			}
			s.parts = append(s.parts, value...)
		case segmentSecret:
			s.parts = append(s.parts, secret...)
		default:
			if refusal := p.renderRare(s, part); refusal != nil {
				return 0, refusal
			}
		}
	}
	return bodyAt, nil
}

// renderRare renders what few schemes sign.
func (p *proof) renderRare(s *workspace, part *signedPart) *Refusal {
	r := s.view.request
	switch part.kind {
	case segmentMethod:
		s.parts = append(s.parts, r.Method...)
	case segmentPath, segmentQuery:
		value := r.Path
		if part.kind == segmentQuery {
			value = r.RawQuery
		}
		if part.border != 0 && strings.IndexByte(value, part.border) >= 0 {
			return refuseURL()
		}
		s.parts = append(s.parts, value...)
	case segmentURL, segmentURLDecoded:
		return p.renderURL(s, part)
	case segmentForm:
		return renderForm(s)
	case segmentBodyHex:
		sum := sha256.Sum256(r.Body)
		s.parts = hex.AppendEncode(s.parts, sum[:])
	case segmentBodyBase64:
		sum := sha256.Sum256(r.Body)
		s.parts = base64.StdEncoding.AppendEncode(s.parts, sum[:])
	case segmentBodyCRC:
		s.parts = strconv.AppendUint(s.parts, uint64(crc32.ChecksumIEEE(r.Body)), 10)
	case segmentLines:
		return renderLines(s, part.lines)
	default:
	}
	return nil
}

// renderLines renders the members that the body's object has, each as "name\nvalue\n". Only the first listed may
// contain line ends: with them in two values the lines could be cut in several ways.
func renderLines(s *workspace, lines []line) *Refusal {
	start := len(s.parts)
	for i := range lines {
		value, state := s.view.text(&lines[i].src)
		if state == absent {
			continue
		}
		if i > 0 && strings.ContainsAny(value, "\r\n") {
			return reject(ReasonBodyMalformed, "A signed member of the body contains a line end: "+lines[i].name+".")
		}
		s.parts = append(append(append(append(s.parts, lines[i].name...), '\n'), value...), '\n')
	}
	if len(s.parts) == start {
		return reject(ReasonBodyMalformed, "The body has none of the members that the signature covers.")
	}
	return nil
}

// renderURL renders the URL that the provider called. Where the body is signed too, it must be such that the border
// between the two is certain: a JSON object or array begins with a bracket, which no URL before it contains, and no
// beginning of one is one, so that none can be cut off towards a URL behind it.
func (p *proof) renderURL(s *workspace, part *signedPart) *Refusal {
	r := s.view.request
	base := r.PublicURL
	if p.urlBase != "" {
		base = p.urlBase
	}
	if base == "" {
		return reject(ReasonURLUnknown,
			"The signature covers the URL that the provider calls, which is not known: set the server's public URL, or "+
				"url_base of the connection.")
	}
	start := len(s.parts)
	s.parts = append(s.parts, variantBase(base, s.variant)...)
	s.parts = append(s.parts, r.Path...)
	if r.RawQuery != "" && !s.variant.noQuery {
		s.parts = append(append(s.parts, '?'), r.RawQuery...)
	}
	if len(s.parts)-start > maxQueryBytes {
		return refuseURL()
	}
	if part.kind == segmentURLDecoded {
		s.parts = append(s.parts[:start], decodeURL(s.parts[start:])...)
	}
	if p.content.body < 0 {
		return nil
	}
	if strings.ContainsAny(r.RawQuery, "{[") {
		return refuseURL()
	}
	if body := bytes.TrimLeft(r.Body, " \t\r\n"); len(body) > 0 && (len(body) < len(r.Body) || !wholeJSON(body)) {
		return reject(ReasonBodyMalformed,
			"The signature covers the URL together with the body, so the body must be a JSON object or array.")
	}
	return nil
}

// wholeJSON reports whether a body is a JSON object or array and nothing else.
func wholeJSON(body []byte) bool {
	if body[0] != '{' && body[0] != '[' {
		return false
	}
	_, ok := pointer{}.lookup(body)
	return ok
}

// decodeURL decodes the escapes of the characters : / ? @ ! $ ' ( ) * , ; which is what HubSpot does to a URL before
// signing it; other escapes stay.
func decodeURL(u []byte) []byte {
	out := make([]byte, 0, len(u))
	for i := 0; i < len(u); i++ {
		if u[i] == '%' && i+2 < len(u) && isHex(u[i+1]) && isHex(u[i+2]) {
			var c [1]byte
			if _, err := hex.Decode(c[:], u[i+1:i+3]); err == nil && strings.IndexByte(":/?@!$'()*,;", c[0]) >= 0 {
				out = append(out, c[0])
				i += 2
				continue
			}
		}
		out = append(out, u[i])
	}
	return out
}

// renderForm renders the fields of a form sorted by name and then value, each as name and value with nothing between; a
// pair that stands twice counts once. It is how Twilio signs a form.
func renderForm(s *workspace) *Refusal {
	r := s.view.request
	if !isForm(r.Header.Get("Content-Type")) {
		return reject(ReasonBodyMalformed,
			"The signature covers the fields of a form, and the body's content type is another.")
	}
	type pair struct{ name, value string }
	var pairs []pair
	fields := 0
	for field := range strings.SplitSeq(string(r.Body), "&") {
		if fields++; fields > maxFormFields {
			return reject(ReasonBodyMalformed, "The body's form has too many fields.")
		}
		if field == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(field, "=")
		name, err1 := url.QueryUnescape(rawName)
		value, err2 := url.QueryUnescape(rawValue)
		if err1 != nil || err2 != nil {
			return reject(ReasonBodyMalformed, "The body's form has a field that cannot be decoded.")
		}
		pairs = append(pairs, pair{name, value})
	}
	start := len(s.parts)
	slices.SortFunc(pairs, func(a, b pair) int {
		if order := strings.Compare(a.name, b.name); order != 0 {
			return order
		}
		return strings.Compare(a.value, b.value)
	})
	for _, field := range slices.Compact(pairs) {
		s.parts = append(append(s.parts, field.name...), field.value...)
	}
	if len(s.parts) == start {
		// Without fields the content is the URL alone, which Twilio signs where a hash in the query stands for a body of
		// JSON.
		return reject(ReasonBodyMalformed, "The body's form has no fields.")
	}
	return nil
}

// extensible reports whether content could have been lengthened by someone who holds a plain hash over secret and
// content and not the secret. The padding that such an attack has to put behind the original begins with the byte 0x80,
// which is no UTF-8 after text that is.
func isExtensible(content []byte) bool { return !utf8.Valid(content) }
