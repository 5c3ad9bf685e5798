package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook with the secret token in its header, as Telegram's setWebhook describes it, passes; nothing in it is
// signed. Its type is the member of the update, and its id the update's.
func TestTelegram(t *testing.T) {
	t.Parallel()
	const secret = "5mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I"
	send := func(body string) *verification.Request {
		return deliver(time.Unix(1772600767, 0), body, "X-Telegram-Bot-Api-Secret-Token", secret)
	}
	r := send(`{"update_id":10000,"message":{"message_id":1365,"date":1441645532,"chat":{"id":1111111,"type":"private"},"text":"/start"}}`)
	vector{
		slug: "telegram", secret: secret, scheme: "token", request: r, at: "header:X-Telegram-Bot-Api-Secret-Token",
		text: secret, outside: []string{"body"},
	}.check(t)
	v := connect(t, "telegram", nil, secret)
	for body, want := range map[string]verification.Event{
		string(r.Body): {Type: "message", ID: "10000"},
		`{"update_id":10001,"callback_query":{"id":"4382bfdwdsb323b2d9","data":"x","message":{}}}`: {Type: "callback_query",
			ID: "10001"},
		`{"update_id":10002,"guest_message":{}}`: {Type: "guest_message", ID: "10002"},
		`{"update_id":10003,"of_the_future":{}}`: {Type: "unknown", ID: "10003"},
	} {
		requireDescribed(t, v, send(body), want)
	}
	require.Equal(t, []string{"x-telegram-bot-api-secret-token"}, v.RedactHeaders())
}
