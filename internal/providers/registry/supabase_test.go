package registry_test

import (
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	supabaseSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	supabaseHook   = `{"user":{"id":"8484b834-f29e-4af2-bf42-80644d154f76","role":"authenticated"},"email_data":{"token":"305805",` +
		`"email_action_type":"signup","site_url":"http://localhost:9999"}}`
	supabaseInsert = `{"type":"INSERT","table":"orders","schema":"public","record":{"id":1},"old_record":null}`
)

// supabaseSigned signs a body as Supabase does for auth hooks, by Standard Webhooks, whose Go library signs here.
func supabaseSigned(t *testing.T, at time.Time, body string) (r *verification.Request, signature string) {
	t.Helper()
	library, err := standardwebhooks.NewWebhook(supabaseSecret)
	require.NoError(t, err)
	signature, err = library.Sign("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", at, []byte(body))
	require.NoError(t, err)
	return deliver(at, body, "webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "webhook-timestamp", "1772600767",
		"webhook-signature", signature), signature
}

// An auth hook that the Standard Webhooks library signed, as Supabase's documentation requires, verifies, and id, time
// and body are signed.
func TestSupabaseAuthHook(t *testing.T) {
	t.Parallel()
	r, signature := supabaseSigned(t, time.Unix(1772600767, 0), supabaseHook)
	vector{
		slug: "supabase", secret: supabaseSecret, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
		at: "header:webhook-signature", label: "v1,", text: signature[3:], encoding: "base64",
		signed:    []string{"body", "header:webhook-id", "header:webhook-timestamp"},
		timestamp: "header:webhook-timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	v := connect(t, "supabase", nil, supabaseSecret)
	event := describe(t, v, r)
	require.Equal(t, "send_email", event.Type)
	require.Equal(t, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", event.ID)
	require.Equal(t, "send_sms", describe(t, v, deliver(time.Time{}, `{"user":{},"sms":{"otp":"561166"}}`)).Type)
	require.Empty(t, v.Ack().Body)
}

// A database webhook, which Supabase does not sign, passes with the header that its owner added, and the signing secret
// of an auth hook is no such header.
func TestSupabaseDatabaseWebhook(t *testing.T) {
	t.Parallel()
	const token = "5mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I"
	r := deliver(time.Unix(1772600767, 0), supabaseInsert, "X-Webhook-Secret", token)
	vector{
		slug: "supabase", secret: token, scheme: "token", request: r, at: "header:X-Webhook-Secret", text: token,
		outside: []string{"body"},
	}.check(t)
	v := connect(t, "supabase", nil, token)
	requireDescribed(t, v, r, verification.Event{Type: "INSERT.public.orders"})
	require.Equal(t, []string{"webhook-signature", "x-webhook-secret"}, v.RedactHeaders())
	signed, _ := supabaseSigned(t, time.Unix(1772600767, 0), supabaseInsert)
	requireReason(t, v, signed, verification.ReasonSignatureMissing)
}
