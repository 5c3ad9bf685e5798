// Package rawhttp parses HTTP/1.1 requests that were saved to a file, by a proxy, from a terminal or as a dump of
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

// maxHeadBytes limits the request line and headers.
const maxHeadBytes = 1 << 20

// Request is a request as a server would have seen it.
type Request struct {
	// Method is empty if the file has no request line.
	Method string
	// Path is the path as sent, with its escapes. RawQuery follows the question mark.
	Path, RawQuery string
	// Host is the request's host; empty if it names none or several.
	Host string
	// Header has canonical keys, without Host and Transfer-Encoding, as net/http gives it to handlers.
	Header http.Header
	// Body is the text after the empty line, byte for byte except as described in Notes.
	Body []byte
	// Notes are sentences about changes to the body and doubts about the file.
	Notes []string
}

// Parse parses a whole request: a request line, headers, an empty line and the body. Lines of the head end in LF or
// CRLF. Errors name the line and quote nothing from the file.
func Parse(data []byte) (*Request, error) {
	head, body, ended := split(data)
	r, err := parseHead(head, true)
	if err != nil {
		return nil, err
	}
	if !ended && len(r.Header) > 0 {
		r.note("The file has no empty line after the headers, so the request has no body.")
	}
	r.setBody(body, true)
	return r, nil
}

// ParseParts parses a request whose headers and body are in separate files. The request line may be missing.
func ParseParts(headers, body []byte) (*Request, error) {
	head, rest, _ := split(headers)
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("the file of the headers continues after an empty line: put the body into a file of its own")
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

// split cuts a message at its first empty line. It ignores empty lines before the request line (RFC 9112 section 2.2).
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
		return nil, errors.New(`line 1 is not a request line such as "POST /hook HTTP/1.1"`)
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
			return nil, fmt.Errorf(`line %d is not a header such as "Content-Type: application/json"`, number)
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

// requestLine parses a request line and reports whether it is one.
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

// setBody sets the body. It decodes chunks if the headers announce them and the body has their form. In a whole
// message, it removes the line break that an editor adds at the end.
func (r *Request) setBody(body []byte, whole bool) {
	r.Body = body
	coding := r.Header.Get("Transfer-Encoding")
	r.Header.Del("Transfer-Encoding")
	if strings.EqualFold(coding, "chunked") {
		if decoded, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body))); err == nil && len(body) > 0 {
			r.Body = decoded
			r.note("The body was saved in chunks and has been decoded.")
			return
		}
		r.note("The headers announce chunks, but the body was saved without them.")
		return
	}
	announced, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil || announced < 0 || announced == int64(len(body)) {
		return
	}
	if extra := int64(len(body)) - announced; whole && extra > 0 && extra <= 2 &&
		len(bytes.Trim(body[announced:], "\r\n")) == 0 {
		r.Body = body[:announced]
		r.note("The file has a line break after the %d bytes that Content-Length announces; it was removed.", announced)
		return
	}
	r.note("Content-Length announces %d bytes and the body has %d: it was changed or truncated when it was saved, so "+
		"no signature over it is valid.", announced, len(body))
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2, as methods and header names are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// isControl reports whether a header's value cannot contain the character (RFC 9110 section 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
