package egress

import (
	"net/http"
	"net/url"
	"time"
)

// Unlimited as Bounds.MaxResponseBytes accepts a response of any size.
const Unlimited = -1

// defaultMaxResponseBytes is the limit of Bounds.MaxResponseBytes where it is 0.
const defaultMaxResponseBytes = 10 << 20

// Bounds limit an exchange. The zero value is ready to use.
type Bounds struct {
	// Timeout limits the whole exchange, from name resolution to the last byte of the response body; 0 means 15 s.
	Timeout time.Duration
	// IdleTimeout is for responses that may go on for ever, such as a stream of events. Where it is set, Timeout ends
	// with the headers of the response, and each read of the body may wait this long.
	IdleTimeout time.Duration
	// MaxResponseBytes limits the response body: reading more returns an *Error with CodeResponseTooLarge. 0 means
	// 10 MiB.
	MaxResponseBytes int64
	// Permit is Request.Permit.
	Permit func() bool
	// head is Request.Head, and begun Request.Begun.
	head  []byte
	begun func(interrupt func())
}

func (b Bounds) timeout() time.Duration {
	if b.Timeout <= 0 {
		return defaultTimeout
	}
	return b.Timeout
}

func (b Bounds) maxResponseBytes() int64 {
	if b.MaxResponseBytes == 0 {
		return defaultMaxResponseBytes
	}
	return b.MaxResponseBytes
}

// RoundTripper returns the Client as an http.RoundTripper whose exchanges stay within b. All round-trippers of a Client
// share its connections, so making one for a single request costs nothing.
//
// Bodies are streamed in both directions, at the same time if the peer takes part. Errors are of type *Error, from
// RoundTrip as well as from reading the response body. A request is refused when its Host differs from the URL's.
// Compared with http.Transport:
//   - the request body is never sent twice; Request.GetBody serves only to replace an idle connection that had ended;
//   - a Read of the request body that blocks does not delay the end of the exchange: the body is closed, and a late
//     result of its Read is ignored;
//   - Request.Cancel is ignored, and 101 Switching Protocols and CONNECT are refused.
func (c *Client) RoundTripper(b Bounds) http.RoundTripper { return &roundTripper{c, b} }

// HTTPClient returns an http.Client over RoundTripper, for libraries that take one. It returns redirects instead of
// following them. It wraps each *Error in a *url.Error, whose text contains the URL: use errors.As.
func (c *Client) HTTPClient(b Bounds) *http.Client {
	return &http.Client{
		Transport:     c.RoundTripper(b),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type roundTripper struct {
	client *Client
	bounds Bounds
}

// RoundTrip sends the request and returns when the headers of the response have arrived.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	u := newUpload(req)
	if err := t.client.checkForeign(req); err != nil {
		u.close()
		return nil, err
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	template := http.Request{Method: req.Method, URL: req.URL, Host: host, Header: req.Header,
		ContentLength: req.ContentLength, TransferEncoding: req.TransferEncoding, Trailer: req.Trailer, Close: req.Close}
	resp, _, err := t.client.start(req.Context(), &template, nil, u, t.bounds)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	return resp, nil
}

// checkRequest refuses what can never be sent. It runs for every request.
func (c *Client) checkRequest(q *http.Request, hasBody bool) *Error {
	if q.URL == nil || q.Method == http.MethodConnect || q.ContentLength > 0 && !hasBody {
		return refuse(CodeRequestInvalid, message(CodeRequestInvalid))
	}
	if err := c.checkParts(q.URL); err != nil {
		return refuse(err.Code, err.Message)
	}
	return nil
}

// checkForeign refuses what ParseTarget and Do exclude, because a library may have built the request.
func (c *Client) checkForeign(q *http.Request) *Error {
	if q.URL == nil || q.URL.Host == "" {
		return refuse(CodeRequestInvalid, message(CodeRequestInvalid))
	}
	if err := c.checkHost(q.URL.Hostname()); err != nil {
		return refuse(err.Code, err.Message)
	}
	otherHost := q.Host != "" && q.Host != q.URL.Host &&
		HostKey(&url.URL{Scheme: q.URL.Scheme, Host: q.Host}) != HostKey(q.URL)
	encodings := q.TransferEncoding
	if otherHost || len(encodings) > 1 || len(encodings) == 1 && encodings[0] != "chunked" {
		return refuse(CodeRequestInvalid, message(CodeRequestInvalid))
	}
	return nil
}

// refuse returns the error of a request of which nothing was sent.
func refuse(code, message string) *Error {
	return &Error{Code: code, Message: message, Permanent: true}
}
