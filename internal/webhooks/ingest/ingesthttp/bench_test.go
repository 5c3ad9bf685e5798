package ingesthttp_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/obs"
	"sallyport/internal/webhooks/ingest"
	"sallyport/internal/webhooks/ingest/ingesthttp"
)

// BenchmarkRequest measures what a request costs around ingest: routing, its id, the response, and its line in the log.
func BenchmarkRequest(b *testing.B) {
	lines := obs.NewWriter(sink{})
	b.Cleanup(lines.Close)
	log := slog.New(obs.NewOutages(obs.NewLogger(lines, "json", "info").Handler(), clock.System()))
	api := httpapi.New(httpapi.Config{Version: "test", Logger: log, Clock: clock.System()})
	ingesthttp.Mount(api, &receiver{receipt: ingest.Receipt{EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"}}, nil, nil)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/api/v1/webhook/acme", http.NoBody)
	r.RemoteAddr = "192.0.2.1:5"
	b.ReportAllocs()
	for b.Loop() {
		api.ServeHTTP(sink{header: http.Header{}}, r)
	}
}

// sink is a ResponseWriter that keeps only headers.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}
