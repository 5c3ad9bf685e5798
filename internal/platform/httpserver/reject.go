package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// rejection is the response to a request that reaches no handler.
type rejection struct {
	status int
	header [][2]string
	body   []byte
}

// reject returns the response to a request from an address, as net/http writes addresses, and logs it as requests are
// logged. reason may be empty.
func (s *Server) reject(ctx context.Context, from string, status int, reason string) rejection {
	message := rejectionMessage(status)
	if reason != "" {
		message += ": " + reason
	}
	requestID := id.NewUUID()
	ip, _, _ := net.SplitHostPort(from)
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("request_id", requestID),
		slog.String("route", "unknown"), slog.Int("status", status), slog.String("ip", ip), slog.String("error", message))
	body := []byte(message + "\n")
	contentType := "text/plain; charset=utf-8"
	if s.cfg.ErrorBody != nil {
		body, contentType = s.cfg.ErrorBody(status, message), "application/json"
	}
	return rejection{status, [][2]string{
		{"Cache-Control", "no-store"}, {"Connection", "close"}, {"Content-Length", strconv.Itoa(len(body))},
		{"Content-Type", contentType}, {"Date", clock.System().Now().UTC().Format(http.TimeFormat)},
		{"X-Content-Type-Options", "nosniff"}, {"X-Request-Id", requestID},
	}, body}
}

// text returns the whole response of HTTP/1.1.
func (r rejection) text() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", r.status, http.StatusText(r.status))
	for _, h := range r.header {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	return append([]byte(b.String()), r.body...)
}

// writeTo sends the response to a request. Other requests of the same connection of HTTP/2 go on.
func (r rejection) writeTo(w http.ResponseWriter, req *http.Request) {
	for _, h := range r.header {
		if h[0] != "Connection" || !req.ProtoAtLeast(2, 0) {
			w.Header().Set(h[0], h[1])
		}
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // to a client that may be gone
}

// rejectionMessage explains a status code of net/http.
func rejectionMessage(status int) string {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("The request line and headers are larger than %d KiB", maxHeaderBytes>>10)
	case http.StatusNotImplemented:
		return "The only supported transfer encoding is chunked"
	case http.StatusExpectationFailed:
		return "The only supported expectation is 100-continue"
	case http.StatusHTTPVersionNotSupported:
		return "The version of HTTP is not supported"
	case http.StatusBadRequest:
		return "The request is malformed"
	default:
		return http.StatusText(status)
	}
}
