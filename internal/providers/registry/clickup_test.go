package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by ClickUp's documentation ("Webhook signature": the hexadecimal HMAC-SHA256 of the body, with the
// example body of that page; computed with openssl dgst) verifies.
func TestClickUp(t *testing.T) {
	t.Parallel()
	const (
		secret    = "O94IM25S7PXBPYTMNXLLET230SRP0S89COR7B1YOJ2ZIE8WQNK5UUKEF26W0Z5GA"
		signature = "08ade90f5a79ef80c7cb5497f23970b2db220426abb4076b267997ba84c08828"
		body      = `{"webhook_id":"7689a169-a000-4985-8676-6902b96d6627","event":"taskCreated","task_id":"c0j"}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Signature", signature)
	vector{
		slug: "clickup", secret: secret, request: r, at: "header:X-Signature", text: signature, encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "clickup", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "taskCreated", TypeSigned: true})
	requireDescribed(t, v, deliver(time.Time{}, `{"event":"listUpdated","history_items":[{"id":"8a2f82db-7718-4fdb-9493-4849e67f009d",`+
		`"type":6,"date":"1642740510345","field":"name"}],"list_id":"162641234"}`), verification.Event{Type: "listUpdated",
		TypeSigned: true, OccurredAt: time.UnixMilli(1642740510345).UTC()})
	require.Equal(t, []string{"x-signature"}, v.RedactHeaders())
}
