package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
)

// deadlined is a ResponseWriter that records the deadline of writes.
type deadlined struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

// SetWriteDeadline is what http.ResponseController calls.
func (d *deadlined) SetWriteDeadline(t time.Time) error {
	d.deadline = t
	return nil
}

// A client that reads a large response slowly is cut off, so that a few such clients do not keep the places of large
// responses from everyone else. Other responses have the server's own, longer time.
func TestSlowClientsOfLargeResponses(t *testing.T) {
	t.Parallel()
	for _, large := range []bool{true, false} {
		s := newServer(t, func(ctx context.Context) error {
			if large {
				require.NoError(t, httpapi.TakeLarge(ctx))
			}
			return apperr.NotFound("thing")
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, httpapi.Prefix+"/fail", http.NoBody)
		r.Header.Set("API-Key", "key")
		w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
		before := clock.System().Now()
		s.api.ServeHTTP(w, r)
		after := clock.System().Now()
		require.Equal(t, http.StatusNotFound, w.Code)
		if !large {
			require.Zero(t, w.deadline)
			continue
		}
		require.False(t, w.deadline.Before(before.Add(10*time.Second)), w.deadline)
		require.False(t, w.deadline.After(after.Add(11*time.Second)), w.deadline)
	}
}
