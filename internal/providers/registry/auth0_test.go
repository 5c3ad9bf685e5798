package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by Auth0's documentation ("Create Custom Log Streams Using Webhooks": the stream's authorization
// token is the value of the header) is accepted by the whole header, which covers nothing else.
func TestAuth0(t *testing.T) {
	t.Parallel()
	const body = `[{"log_id":"90020240101000000000000000000000000000000000000000000000","data":{"date":"2026-03-04T05:06:07.123Z","type":"s"}},` +
		`{"log_id":"90020240101000000000000000000000000000000000000000000001","data":{"date":"2026-03-04T05:06:08.123Z","type":"fp"}}]`
	at := time.Unix(1772600767, 0)
	for _, token := range []string{"mF9B5f41JqMwT0kQ7xZr2LdN8sVhYc3e", "Bearer mF9B5f41JqMwT0kQ7xZr2LdN8sVhYc3e"} {
		vector{
			slug: "auth0", secret: token, scheme: "token", request: deliver(at, body, "Authorization", token),
			at: "header:Authorization", text: token, outside: []string{"body"},
		}.check(t)
	}
	v := connect(t, "auth0", nil, "mF9B5f41JqMwT0kQ7xZr2LdN8sVhYc3e")
	event := describe(t, v, deliver(at, body))
	require.Equal(t, []string{"s", "fp"}, event.Types)
	require.Len(t, event.ID, 64)
	require.False(t, event.TypeSigned || event.IDSigned)
	one := `{"log_id":"90020240101","data":{"date":"2026-03-04T05:06:07.123Z","type":"sapi"}}`
	requireDescribed(t, v, deliver(at, one), verification.Event{Type: "sapi", ID: "90020240101",
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 123_000_000, time.UTC)})
	require.Equal(t, "fp", describe(t, v, deliver(at, `{"log_id":"90020240101","type":"fp"}`)).Type)
	require.Equal(t, []string{"fp"}, describe(t, v, deliver(at, `[{"log_id":"90020240101","type":"fp"}]`)).Types)
	require.Equal(t, "unknown", describe(t, v, deliver(at, one+"\n"+one)).Type)
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
	require.Nil(t, v.SignatureHeaders(), "the token must not be forwarded")
}
