package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by Figma's documentation ("Security", and the payloads of its OpenAPI document) is accepted by its
// passcode, which covers nothing else and is not stored.
func TestFigma(t *testing.T) {
	t.Parallel()
	const passcode = "secretpasscode-5f2d9c41"
	body := `{"event_type":"FILE_UPDATE","file_key":"zH05UNVuEMP1e2HNmVDEaw","file_name":"Sample","passcode":"` + passcode +
		`","timestamp":"2026-03-04T05:06:07Z","webhook_id":"22"}`
	at := time.Unix(1772600767, 0)
	r := deliver(at, body)
	vector{
		slug: "figma", secret: passcode, scheme: "token", request: r, at: "json:/passcode", text: passcode, bodyDecides: true,
		outside: []string{"json:/file_key", "json:/event_type"},
	}.check(t)
	v := connect(t, "figma", nil, passcode)
	for _, changed := range []string{`{}`, ``, `[]`, strings.Replace(body, `"passcode"`, `"Passcode"`, 1), "passcode=" + passcode} {
		requireReason(t, v, deliver(at, changed), verification.ReasonSignatureMissing)
	}
	// Of two passcodes the last counts, as in the parsers of receivers.
	requireReason(t, v, deliver(at, strings.Replace(body, `"}`, `","passcode":"x"}`, 1)), verification.ReasonSignatureMismatch)
	requireDescribed(t, v, r, verification.Event{Type: "FILE_UPDATE", OccurredAt: at.UTC()})
	require.NotContains(t, string(v.RedactBody(r)), passcode)
	require.True(t, describe(t, v, deliver(at, strings.Replace(body, "FILE_UPDATE", "PING", 1))).Control)
}
