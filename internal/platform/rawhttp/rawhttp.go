// Package rawhttp reads HTTP/1.1 requests that somebody saved to a file: from a proxy, a terminal or a dump of
// net/http.
package rawhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// maxHeadBytes bounds request line and headers.
const maxHeadBytes = 1 << 20

// Request is a request as a server would have seen it.
type Request struct {
	// Method is empty where the file has no request line.
	Method string
	// Path is the path as it was sent, escapes included, and RawQuery what followed the question mark.
	Path, RawQuery string
	// Host is the host that the request names; empty where it names none, or several.
	Host string
	// Header has canonical keys, without Host and Transfer-Encoding, as net/http gives it to handlers.
	Header http.Header
	// Body is what stood behind the empty line, byte for byte but for what Notes say.
	Body []byte
	// Notes say, each in a sentence, what was made of the file and what about it is doubtful.
	Notes []string
}

// Parse reads a whole request: a request line, headers, an empty line and the body. Lines of the head end in LF or
// CRLF. Errors name the line and repeat nothing of the file.
func Parse(data []byte) (*Request, error) {
	head, body, ended := split(data)
	r, err := parseHead(head, true)
	if err != nil {
		return nil, err
	}
	if !ended && len(r.Header) > 0 {
		r.note("The file has no empty line behind the headers, so the request is taken to have no body.")
	}
	r.setBody(body, true)
	return r, nil
}

// ParseParts reads a request whose headers and body were saved apart. A request line before the headers may be missing.
func ParseParts(headers, body []byte) (*Request, error) {
	head, rest, _ := split(headers)
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("the file of the headers goes on behind an empty line: a body stands in a file of its own")
	}
	r, err := parseHead(head, false)
	if err != nil {
		return nil, err
	}
	r.setBody(body, false)
	return r, nil
}

func (r *Request) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// split cuts a message at its first empty line. Empty lines before the request line do not count (RFC 9112 section
// 2.2).
func split(data []byte) (head, body []byte, ended bool) {
	data = bytes.TrimLeft(data, "\r\n")
	for at := 0; ; {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			return data, nil, false
		}
		line := data[at : at+end]
		if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
			return data[:at], data[at+end+1:], true
		}
		at += end + 1
	}
}

func parseHead(head []byte, whole bool) (*Request, error) {
	if len(head) > maxHeadBytes {
		return nil, fmt.Errorf("the headers are larger than %d bytes", maxHeadBytes)
	}
	r := &Request{Header: http.Header{}}
	lines := strings.Split(strings.TrimSuffix(string(head), "\n"), "\n")
	if len(head) == 0 {
		lines = nil
	}
	number := 0
	if len(lines) > 0 && r.requestLine(strings.TrimSuffix(lines[0], "\r")) {
		lines, number = lines[1:], 1
	} else if whole {
		return nil, errors.New(`line 1 is no request line, such as "POST /hook HTTP/1.1"`)
	}
	last := ""
	for _, line := range lines {
		number++
		line = strings.TrimSuffix(line, "\r")
		if folded := strings.TrimLeft(line, " \t"); folded != line && last != "" {
			values := r.Header[last]
			values[len(values)-1] = strings.TrimRight(values[len(values)-1]+" "+strings.TrimRight(folded, " \t"), " ")
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !found || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return nil, fmt.Errorf(`line %d is no header, such as "Content-Type: application/json"`, number)
		}
		last = textproto.CanonicalMIMEHeaderKey(name)
		r.Header[last] = append(r.Header[last], value)
	}
	if hosts := r.Header["Host"]; len(hosts) == 1 {
		r.Host = hosts[0]
	}
	r.Header.Del("Host")
	return r, nil
}

// requestLine reads a request line; it is false for what is none.
func (r *Request) requestLine(line string) bool {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "HTTP/") || !isToken(parts[0]) {
		return false
	}
	u, err := url.ParseRequestURI(parts[1])
	if err != nil || u.Opaque != "" {
		return false
	}
	r.Method, r.Host, r.Path, r.RawQuery = parts[0], u.Host, u.EscapedPath(), u.RawQuery
	if r.Path == "" {
		r.Path = "/"
	}
	return true
}

// setBody takes the body, which comes in chunks where the headers say so and it has their form. In a whole message the
// body may be followed by the line end that an editor adds.
func (r *Request) setBody(body []byte, whole bool) {
	r.Body = body
	coding := r.Header.Get("Transfer-Encoding")
	r.Header.Del("Transfer-Encoding")
	if strings.EqualFold(coding, "chunked") {
		if decoded, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body))); err == nil && len(body) > 0 {
			r.Body = decoded
			r.note("The body was saved in chunks and has been put together.")
			return
		}
		r.note("The headers say that the body comes in chunks, and it was saved without them.")
		return
	}
	announced, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil || announced < 0 || announced == int64(len(body)) {
		return
	}
	if extra := int64(len(body)) - announced; whole && extra > 0 && extra <= 2 &&
		len(bytes.Trim(body[announced:], "\r\n")) == 0 {
		r.Body = body[:announced]
		r.note("The file has a line end behind the %d bytes that Content-Length announces; it was left out.", announced)
		return
	}
	r.note("Content-Length announces %d bytes and the body has %d: it was changed or cut when it was saved, and then "+
		"no signature over it is right.", announced, len(body))
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2, as methods and header names are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// isControl reports whether a character cannot stand in a header's value (RFC 9110 section 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
