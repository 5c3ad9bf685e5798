// Package apiclient calls the API of a server for commands: with one key and address, timeouts, pages, and the error
// envelope as an error.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
)

// Media types of responses; an error is always JSON.
const (
	mediaJSON  = "application/json"
	mediaBytes = "application/octet-stream"
)

// Prefix is the path under which the API is mounted.
const Prefix = "/api/v1"

const (
	// maxResponse limits a response: a page of events with their bodies has up to 16 MiB, and one large body more.
	maxResponse = 96 << 20
	// maxPage is the maximum of rows in a response.
	maxPage = 250
	// maxKey is longer than any API key.
	maxKey = 512
)

// Options configure a Client.
type Options struct {
	// Server is the scheme, host and port of the server, optionally with the path /api/v1.
	Server string
	// Key is the API key; empty sends none.
	Key secretbox.Secret
	// AllowHTTP accepts http:// for servers that are not on loopback. The key then crosses the network unencrypted.
	AllowHTTP bool
	// Timeout limits each request with its response; 0 means 45 s, longer than the longest test of a subscription.
	Timeout time.Duration
	// UserAgent names the program.
	UserAgent string
	// Clock measures the exchange; nil means the system clock.
	Clock clock.Clock
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	egress  *egress.Client
	streams http.RoundTripper
	base    *url.URL
	key     secretbox.Secret
	timeout time.Duration
	agent   string
	clock   clock.Clock
}

// Errors of Options.
var (
	// ErrServer: the address is not that of a server.
	ErrServer = errors.New("the server must be given as a URL such as https://gateway.example.com, without a path")
	// ErrPlainHTTP: the key would cross a network unencrypted.
	ErrPlainHTTP = errors.New("the server is not on this machine, and its URL is not https://: the API key would cross " +
		"the network unencrypted")
	// ErrKey: the key cannot be an API key.
	ErrKey = errors.New("the API key contains a character that no key has, or is too long")
)

// New returns a Client. It reaches private addresses too, because the user of a command chooses the server. The errors
// are ErrServer, ErrPlainHTTP and ErrKey.
func New(o Options) (*Client, error) {
	base, err := parseServer(o.Server)
	if err != nil {
		return nil, err
	}
	if base.Scheme == "http" && !o.AllowHTTP && !Loopback(base.Hostname()) {
		return nil, ErrPlainHTTP
	}
	if len(o.Key) > maxKey || strings.ContainsFunc(o.Key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, ErrKey
	}
	everywhere := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(),
		0)}
	c := &Client{base: base, key: o.Key, timeout: o.Timeout, agent: o.UserAgent, clock: o.Clock,
		egress: egress.New(egress.Policy{AllowCIDRs: everywhere, AllowHTTP: true}, egress.Options{Clock: o.Clock})}
	if c.clock == nil {
		c.clock = clock.System()
	}
	if c.timeout <= 0 {
		c.timeout = 45 * time.Second
	}
	c.streams = c.egress.RoundTripper(egress.Bounds{Timeout: c.timeout, IdleTimeout: maxQuiet,
		MaxResponseBytes: egress.Unlimited})
	if _, terr := c.egress.ParseTarget(base.String()); terr != nil {
		return nil, fmt.Errorf("%w: %w", ErrServer, terr)
	}
	return c, nil
}

// parseServer reads the URL of a server: scheme, host and port, with or without the path of the API.
func parseServer(text string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimRight(text, "/"), Prefix))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || base.User != nil ||
		base.Path != "" || strings.ContainsAny(text, "?#") || base.Port() == "0" {
		return nil, ErrServer
	}
	return base, nil
}

// SameServer reports whether two URLs name the same server. All names of this machine are the same host. The error is
// ErrServer if one of them is no URL of a server.
func SameServer(a, b string) (same bool, err error) {
	var list [2]*url.URL
	for i, text := range []string{a, b} {
		if list[i], err = parseServer(text); err != nil {
			return false, err
		}
	}
	host := func(u *url.URL) string {
		if Loopback(u.Hostname()) {
			return "localhost"
		}
		return strings.ToLower(u.Hostname())
	}
	port := func(u *url.URL) string {
		if u.Port() == "" {
			return map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		return u.Port()
	}
	x, y := list[0], list[1]
	return x.Scheme == y.Scheme && host(x) == host(y) && port(x) == port(y), nil
}

// Loopback reports whether a URL's host is this machine: a loopback address or the name localhost.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

// Close closes the idle connections.
func (c *Client) Close() { c.egress.Close() }

// Server returns the scheme, host and port of the server.
func (c *Client) Server() string { return c.base.String() }

// Request is one call of an operation.
type Request struct {
	Method string
	// Path is relative to Prefix, with escaped variable segments (see Path).
	Path  string
	Query url.Values
	// Body is sent as JSON; nil sends none.
	Body any
	// Header is sent in addition to the client's own.
	Header http.Header
	// Timeout is how long the response may take where that is longer than for others.
	Timeout time.Duration
}

// Path joins segments that come from users and servers. It escapes each, so that it stays one segment.
func Path(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// Response is the response to a successful call.
type Response struct {
	Status int
	Header http.Header
	// Body is the JSON as received; empty if there is none.
	Body json.RawMessage
}

// Decode decodes the body into v.
func (r Response) Decode(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return nil
}

// Call calls an operation. Its errors are *Error for a status outside 2xx, *Unreachable and ErrForeign.
func (c *Client) Call(ctx context.Context, r Request) (Response, error) {
	resp, err := c.exchange(ctx, r, mediaJSON)
	if err != nil {
		return Response{}, err
	}
	// A proxy may respond with 200 and a page of its own.
	if resp.Status != http.StatusNoContent && !json.Valid(resp.Body) {
		return Response{}, ErrForeign
	}
	return Response{Status: resp.Status, Header: resp.Header, Body: resp.Body}, nil
}

// Download calls an operation with a response of application/octet-stream. Its errors are those of Call.
func (c *Client) Download(ctx context.Context, r Request) ([]byte, error) {
	resp, err := c.exchange(ctx, r, mediaBytes)
	if err != nil {
		return nil, err
	}
	// A proxy may respond with 200 and a page of its own.
	if resp.Status != http.StatusOK || resp.Header.Get("Content-Type") != mediaBytes {
		return nil, ErrForeign
	}
	return resp.Body, nil
}

// exchange sends the request and returns a response with a status of success.
func (c *Client) exchange(ctx context.Context, r Request, accept string) (egress.Response, error) {
	q, err := c.request(r, accept)
	if err != nil {
		return egress.Response{}, err
	}
	resp, eerr := c.egress.Do(ctx, q)
	switch {
	case eerr != nil && ctx.Err() != nil:
		return egress.Response{}, ctx.Err()
	case eerr != nil:
		return egress.Response{}, c.unreachable(eerr)
	case resp.Status < 200 || resp.Status > 299:
		return egress.Response{}, errorOf(resp.Status, resp.Header, resp.Body)
	case resp.Truncated:
		return egress.Response{}, ErrTooLarge
	}
	return resp, nil
}

func (c *Client) request(r Request, accept string) (egress.Request, error) {
	u, err := url.Parse(c.base.String() + Prefix + r.Path)
	if err != nil {
		return egress.Request{}, fmt.Errorf("build a request: %w", err)
	}
	u.RawQuery = r.Query.Encode()
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Accept", accept)
	h.Set("User-Agent", c.agent)
	if c.key != "" {
		h.Set("API-Key", c.key.Reveal())
	}
	q := egress.Request{Method: r.Method, URL: u, Header: h, Timeout: max(c.timeout, r.Timeout),
		MaxResponseBytes: maxResponse}
	if r.Body != nil {
		if q.Body, err = marshal(r.Body); err != nil {
			return egress.Request{}, err
		}
		h.Set("Content-Type", mediaJSON)
	}
	return q, nil
}

// marshal encodes JSON without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the body of a request: %w", err)
	}
	return b.Bytes(), nil
}

// Each calls fn for each row of a list, page by page, up to limit rows; 0 means no limit. more reports whether the list
// has more rows.
func (c *Client) Each(ctx context.Context, r Request, limit int,
	fn func(row json.RawMessage) error) (more bool, err error) {
	query := url.Values{}
	for name, values := range r.Query {
		query[name] = values
	}
	for n := 0; ; {
		size := maxPage
		if limit > 0 {
			size = min(size, limit-n)
		}
		query.Set("limit", strconv.Itoa(size))
		a, err := c.Call(ctx, Request{Method: http.MethodGet, Path: r.Path, Query: query})
		if err != nil {
			return false, err
		}
		var rows []json.RawMessage
		if err := a.Decode(&rows); err != nil {
			return false, err
		}
		for _, row := range rows {
			if err := fn(row); err != nil {
				return false, err
			}
		}
		n += len(rows)
		next := a.Header.Get("X-Next-Cursor")
		switch {
		case next == "":
			return false, nil
		case limit > 0 && n >= limit:
			return true, nil
		case next == query.Get("cursor"):
			return false, ErrForeign // a cursor that does not change would loop for ever
		}
		query.Set("cursor", next)
	}
}
