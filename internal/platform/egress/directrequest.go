package egress

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
)

// keptBuffer is the capacity up to which the buffer of a request is used again.
const keptBuffer = 8 << 10

// buffers holds the buffers of requests that were sent.
type buffers struct{ pool sync.Pool }

func (p *buffers) take() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, keptBuffer/2)
	return &b
}

func (p *buffers) put(b *[]byte) {
	if cap(*b) <= keptBuffer {
		*b = (*b)[:0]
		p.pool.Put(b)
	}
}

// appendRequest appends the request (RFC 9112 §3), its fields in the order of their names. It returns false for one
// that net/http would send in another way, or refuse: with a field about the connection or the message itself, or with
// a name or value that is not plain.
func appendRequest(b []byte, r *Request) (_ []byte, ok bool) {
	uri := r.URL.RequestURI()
	if r.Method == http.MethodConnect || !isToken(r.Method) || !isVisible(uri) || r.URL.Host == "" ||
		!isVisible(r.URL.Host) {
		return b, false
	}
	b = append(append(append(append(b, r.Method...), ' '), uri...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, r.URL.Host...), "\r\nUser-Agent: "...)
	agent := defaultUserAgent
	if own, has := r.Header["User-Agent"]; has {
		if len(own) != 1 || own[0] == "" || !isFieldValue(own[0]) {
			return b, false
		}
		agent = own[0]
	}
	b = append(append(b, textproto.TrimString(agent)...), "\r\nContent-Length: "...)
	b = append(strconv.AppendInt(b, int64(len(r.Head)+len(r.Body)), 10), "\r\n"...)
	var few [32]string // the headers of an ordinary webhook
	names := few[:0]
	for name := range r.Header {
		if isOfMessage(name) || !isToken(name) {
			return b, false
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "User-Agent" {
			continue
		}
		for _, v := range r.Header[name] {
			if !isFieldValue(v) {
				return b, false
			}
			b = append(append(append(b, name...), ": "...), textproto.TrimString(v)...)
			b = append(b, "\r\n"...)
		}
	}
	b = append(b, "\r\n"...)
	return append(append(b, r.Head...), r.Body...), true
}

// isOfMessage reports whether a field is about the connection or the message, so that net/http writes it itself, or
// acts by it.
func isOfMessage(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	case "User-Agent":
		return name != "User-Agent"
	default:
		return false
	}
}

// isToken reports whether s is a token (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false // other characters of a token are rare
		}
	}
	return s != ""
}

// isVisible reports whether s has only visible characters of ASCII.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isFieldValue reports whether s is the value of a field without control characters (RFC 9110 §5.5).
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
