package deliveries

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/egress"
	"sallyport/internal/webhooks/subscriptions"
)

// The record of an attempt, which is stored in clear, has nothing that a receiver quotes of the subscription's own
// headers and of secrets in its URL. Short values, which are words of any text, stay.
func TestRecordsHaveNoSecretsOfTheSubscription(t *testing.T) {
	t.Parallel()
	u, err := url.Parse("https://hooks.example.com/services/T0/B5yF8kQ2mX9nR7vL3z?token=kJ4hG7fD2sA9pO%2F1uY&env=" +
		"production")
	require.NoError(t, err)
	target := &subscriptions.Target{URL: u, Headers: []subscriptions.Header{
		{Name: "Authorization", Value: "Bearer w8E3rT6yU1"}, {Name: "X-Env", Value: "test"}}}
	a := Attempt{}
	fillAttempt(&a, target, egress.Response{Status: http.StatusOK, Truncated: true,
		Header: http.Header{"X-Debug": {"Bearer w8E3rT6yU1"}, "Location": {"/services/T0/B5yF8kQ2mX9nR7vL3z"}},
		Body: []byte(`{"path":"/services/T0/B5yF8kQ2mX9nR7vL3z","q":"kJ4hG7fD2sA9pO/1uY","raw":"kJ4hG7fD2sA9pO%2f1uY",` +
			`"env":"test production","t":"w8E3rT`)}, nil)
	require.Equal(t, `{"path":"/services/T0/[redacted]","q":"[redacted]","raw":"[redacted]","env":"test production",`+
		`"t":"[redacted]`, string(a.ResponseBody))
	require.JSONEq(t, `{"x-debug":"[redacted]","location":"/services/T0/[redacted]"}`, a.ResponseHeaders)
}
