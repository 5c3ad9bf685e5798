package requestsigning

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// check refuses requests of which net/http would send something else than what the fields say: an opaque URL, a host in
// the header, a query that readers split in different ways.
func check(req *http.Request) error {
	switch {
	case req.URL == nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: its URL is not absolute", ErrRequest)
	case req.URL.Opaque != "" || req.URL.User != nil || req.URL.Fragment != "":
		return fmt.Errorf("%w: its URL has more than a host, a path and a query", ErrRequest)
	case req.URL.Path != "" && req.URL.Path[0] != '/':
		return fmt.Errorf("%w: its path does not begin with a slash", ErrRequest)
	case req.Header.Get("Host") != "":
		return fmt.Errorf("%w: the host is in the header", ErrRequest)
	case !isASCII(host(req)):
		return fmt.Errorf("%w: its host is not ASCII", ErrRequest)
	}
	// The error of the parser contains a part of the query.
	if _, err := url.ParseQuery(req.URL.RawQuery); err != nil {
		return fmt.Errorf("%w: its query is malformed", ErrRequest)
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	return nil
}

// host is the host that is sent.
func host(req *http.Request) string {
	if req.Host != "" {
		return req.Host
	}
	return req.URL.Host
}

// hostWithoutDefaultPort is the host that is sent, without the port that its scheme has anyway.
func hostWithoutDefaultPort(req *http.Request) string {
	h := host(req)
	name, port, err := net.SplitHostPort(h)
	if err != nil || port != map[string]string{"https": "443", "http": "80"}[req.URL.Scheme] {
		return h
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]"
	}
	return name
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// setBody makes the signed body the one that is sent, also after a redirect or on a second connection.
func setBody(req *http.Request, body []byte) {
	req.ContentLength = int64(len(body))
	req.TransferEncoding = nil
	if len(body) == 0 {
		req.Body = http.NoBody
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
		return
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body = io.NopCloser(bytes.NewReader(body))
}

// escape writes every byte but the unreserved ones of RFC 3986 as %XX, as both AWS and OAuth 1.0 prescribe.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
