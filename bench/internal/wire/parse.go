package wire

import (
	"bytes"
	"fmt"
)

// maxLengthDigits keeps a Content-Length inside an int; anything longer is over maxMessage in any case.
const maxLengthDigits = 9

func parseRequestLine(line []byte, m *Message) (bodyAllowed, lengthRequired bool, err error) {
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, version, found := bytes.Cut(rest, []byte(" "))
	if !ok || !found || len(method) == 0 || len(target) == 0 {
		return false, false, fmt.Errorf("%w: request line", ErrMalformed)
	}
	// A request without Content-Length has no body (RFC 9112, section 6.3).
	return true, false, parseVersion(version, m)
}

func parseStatusLine(line []byte, m *Message) (bodyAllowed, lengthRequired bool, err error) {
	version, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(rest) < 3 || (len(rest) > 3 && rest[3] != ' ') {
		return false, false, fmt.Errorf("%w: status line", ErrMalformed)
	}
	if err := parseVersion(version, m); err != nil {
		return false, false, err
	}
	status, ok := digits(rest[:3])
	if !ok || status < 100 {
		return false, false, fmt.Errorf("%w: status code", ErrMalformed)
	}
	m.Status = status
	bodyAllowed = status >= 200 && status != 204 && status != 304
	return bodyAllowed, bodyAllowed, nil
}

func parseVersion(version []byte, m *Message) error {
	switch string(version) {
	case "HTTP/1.1":
		return nil
	case "HTTP/1.0":
		m.Close = true
		return nil
	default:
		return fmt.Errorf("%w: version", ErrMalformed)
	}
}

// framing reads the fields that decide where the message and the connection end. It returns -1 without a
// Content-Length.
func framing(m *Message) (length int, err error) {
	length = -1
	for rest := m.fields; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t") || bytes.ContainsAny(line, "\r\n") {
			return 0, fmt.Errorf("%w: field line", ErrMalformed)
		}
		switch {
		case equalFold(name, "content-length"):
			n, ok := digits(bytes.Trim(value, " \t"))
			if !ok || (length >= 0 && n != length) {
				return 0, fmt.Errorf("%w: Content-Length", ErrMalformed)
			}
			length = n
		case equalFold(name, "transfer-encoding"):
			return 0, fmt.Errorf("%w: Transfer-Encoding", ErrUnsupported)
		case equalFold(name, "connection") && equalFold(bytes.Trim(value, " \t"), "close"):
			m.Close = true
		}
	}
	return length, nil
}

func digits(text []byte) (int, bool) {
	if len(text) == 0 || len(text) > maxLengthDigits {
		return 0, false
	}
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\r\n"))
	return line, rest
}

// equalFold compares with a lower-case ASCII name.
func equalFold(got []byte, lower string) bool {
	if len(got) != len(lower) {
		return false
	}
	for i, c := range got {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
