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

// rejection returns the whole response to a request that reached no handler, and logs it as requests are logged. reason
// may be empty.
func (s *Server) rejection(from net.Addr, status int, reason string) []byte {
	message := rejectionMessage(status)
	if reason != "" {
		message += ": " + reason
	}
	requestID := id.NewUUID()
	ip, _, _ := net.SplitHostPort(from.String())
	s.cfg.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", slog.String("request_id", requestID),
		slog.String("route", "unknown"), slog.Int("status", status), slog.String("ip", ip), slog.String("error", message))
	body := []byte(message + "\n")
	contentType := "text/plain; charset=utf-8"
	if s.cfg.ErrorBody != nil {
		body, contentType = s.cfg.ErrorBody(status, message), "application/json"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	for _, h := range [][2]string{
		{"Cache-Control", "no-store"}, {"Connection", "close"}, {"Content-Length", strconv.Itoa(len(body))},
		{"Content-Type", contentType}, {"Date", clock.System().Now().UTC().Format(http.TimeFormat)},
		{"X-Content-Type-Options", "nosniff"}, {"X-Request-Id", requestID},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	return append([]byte(b.String()), body...)
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
