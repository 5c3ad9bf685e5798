package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// pagerDutySecret is that of TestVerifySignature in github.com/PagerDuty/go-pagerduty v1.8.0,
// webhookv3/webhookv3_test.go.
const pagerDutySecret = "lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK"

// The vector of TestVerifySignature in PagerDuty's Go client (v1.8.0, package webhookv3) verifies.
func TestPagerDutyVector(t *testing.T) {
	t.Parallel()
	const (
		signature = "0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd"
		body      = `{"event":{"id":"01BWDWL3NYY7LUFPZCC28QUCMK","event_type":"incident.priority_updated","resource_type":"incident",` +
			`"occurred_at":"2021-04-26T17:36:27.458Z","agent":{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV",` +
			`"self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Engineer","type":"user_reference"},"client":null,` +
			`"data":{"id":"PGR0VU2","type":"incident","self":"https://api.pagerduty.com/incidents/PGR0VU2",` +
			`"html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,"status":"triggered","title":"A little bump in the road",` +
			`"service":{"html_url":"https://acme.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":"https://api.pagerduty.com/services/PF9KMXH",` +
			`"summary":"API Service","type":"service_reference"},"assignees":[{"html_url":"https://acme.pagerduty.com/users/PTUXL6G",` +
			`"id":"PTUXL6G","self":"https://api.pagerduty.com/users/PTUXL6G","summary":"User 123","type":"user_reference"}],` +
			`"escalation_policy":{"html_url":"https://acme.pagerduty.com/escalation_policies/PUS0KTE","id":"PUS0KTE",` +
			`"self":"https://api.pagerduty.com/escalation_policies/PUS0KTE","summary":"Default","type":"escalation_policy_reference"},` +
			`"teams":[{"html_url":"https://acme.pagerduty.com/teams/PFCVPS0","id":"PFCVPS0","self":"https://api.pagerduty.com/teams/PFCVPS0",` +
			`"summary":"Engineering","type":"team_reference"}],"priority":{"html_url":"https://acme.pagerduty.com/account/incident_priorities",` +
			`"id":"PSO75BM","self":"https://api.pagerduty.com/priorities/PSO75BM","summary":"P1","type":"priority_reference"},"urgency":"high",` +
			`"conference_bridge":{"conference_number":1000,"conference_url":"https://example.com"},"resolve_reason":null}}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-PagerDuty-Signature", "v1="+signature)
	vector{
		slug: "pagerduty", secret: pagerDutySecret, request: r, at: "header:X-PagerDuty-Signature", label: "v1=",
		text: signature, encoding: "hex", signed: []string{"body"},
	}.check(t)
	require.Equal(t, verification.Event{
		Type: "incident.priority_updated", TypeSigned: true, ID: "01BWDWL3NYY7LUFPZCC28QUCMK", IDSource: "json:/event/id",
		IDSigned: true, OccurredAt: time.Date(2021, 4, 26, 17, 36, 27, 458_000_000, time.UTC),
	}, describe(t, connect(t, "pagerduty", nil, pagerDutySecret), r))
}

// While a secret rotates either signature of a delivery is enough, which VerifySignature of the Go client says
// too, other versions are passed over, and PagerDuty's test event is marked.
func TestPagerDutyRotationAndPing(t *testing.T) {
	t.Parallel()
	const (
		signature = "185b0fa4966a0b1bb4a145a595e702ffa3a030bdac5c8c86b3158544d4e08d2b"
		body      = `{"event":{"id":"01DFCZ9Q0G4WKZVDYAD5B2HJ7R","event_type":"pagey.ping","resource_type":"pagey",` +
			`"occurred_at":"2025-04-07T03:00:55.532Z","agent":{"id":"PVE0ZR9","type":"user_reference"},"client":null,` +
			`"data":{"message":"Hello from your friend Pagey!","type":"ping"}}}`
	)
	v := connect(t, "pagerduty", nil, pagerDutySecret)
	zero := "v1=" + strings.Repeat("0", 64)
	for _, header := range []string{zero + ",v1=" + signature, "v1=" + signature + "," + zero, "v2=x,,v1=" + signature,
		"v1=x, v1=" + signature} {
		r := deliver(time.Time{}, body, "X-PagerDuty-Signature", header)
		requireProved(t, v, r, "hmac", "0")
		require.True(t, describe(t, v, r).Control)
	}
	requireReason(t, v, deliver(time.Time{}, body, "X-PagerDuty-Signature", zero), verification.ReasonSignatureMismatch)
	requireReason(t, v, deliver(time.Time{}, body, "X-PagerDuty-Signature", "v2="+signature),
		verification.ReasonSignatureMalformed)
	requireReason(t, v, deliver(time.Time{}, body, "X-PagerDuty-Signature", strings.Repeat(zero+",", 33)+"v1="+signature),
		verification.ReasonSignatureMalformed)
	require.False(t, describe(t, v, deliver(time.Time{}, `{"event":{"event_type":"incident.triggered"}}`)).Control)
}
