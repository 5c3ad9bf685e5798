package registry_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The keys of RFC 8032, section 7.1, tests 1 and 2, with which the deliveries below were signed by Node's crypto and
// accepted, and refused with one byte more, by verifyKey of discord-interactions 4.4.0.
const (
	discordSeed     = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	discordKey      = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	discordOtherKey = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
	discordTime     = "1772600767"
)

// The example of a webhook event in Discord's documentation, with a signature that Discord's own package
// accepts, verifies, and both the time and the body are signed.
func TestDiscordVector(t *testing.T) {
	t.Parallel()
	const (
		signature = "c9007471a8493ac2c39151b72011fed31c867402f76a28dd5590b9e9c8a32e03dec66e6cc3adfd94aff61c3fe09f3694af4c0cb4f49a56448654c02cef374d0c"
		body      = `{"version":1,"application_id":"1234560123453231555","type":1,"event":{"type":"APPLICATION_AUTHORIZED",` +
			`"timestamp":"2024-10-18T14:42:53.064834","data":{"integration_type":1,"scopes":["applications.commands"],` +
			`"user":{"id":"84569145098137600","username":"mason"}}}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Signature-Ed25519", signature, "X-Signature-Timestamp", discordTime)
	vector{
		slug: "discord", secret: discordKey, otherSecret: discordOtherKey, scheme: "asymmetric", request: r,
		at: "header:X-Signature-Ed25519", text: signature, encoding: "hex",
		signed: []string{"body", "header:X-Signature-Timestamp"}, timestamp: "header:X-Signature-Timestamp",
	}.check(t)
	v := connect(t, "discord", nil, discordKey)
	requireNoHandshake(t, v, at(r, "POST", ""))
	require.Equal(t, verification.Event{Type: "APPLICATION_AUTHORIZED", TypeSigned: true}, describe(t, v, r))
}

// discordDelivery signs a body as Discord does.
func discordDelivery(t *testing.T, body string) *verification.Request {
	t.Helper()
	seed, err := hex.DecodeString(discordSeed)
	require.NoError(t, err)
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(discordTime+body))
	return at(deliver(time.Unix(1772600767, 0), body, "X-Signature-Ed25519", hex.EncodeToString(signature),
		"X-Signature-Timestamp", discordTime), "POST", "")
}

// Interactions are distinguished by their kind and their signed id, keep the token that their response needs, and are
// acknowledged as the connection says.
func TestDiscordInteractions(t *testing.T) {
	t.Parallel()
	v := connect(t, "discord", map[string]string{"ack_status": "202"}, discordKey)
	for kind, want := range map[string]string{
		"2": "interaction.application_command", "3": "interaction.message_component",
		"4": "interaction.application_command_autocomplete", "5": "interaction.modal_submit", "6": "interaction.6",
	} {
		r := discordDelivery(t, `{"id":"786008729715212338","token":"A_UNIQUE_TOKEN","type":`+kind+
			`,"version":1,"data":{"type":1}}`)
		requireProved(t, v, r, "asymmetric", "0")
		requireNoHandshake(t, v, r)
		require.Equal(t, verification.Event{Type: want, TypeSigned: true, ID: "786008729715212338", IDSource: "json:/id",
			IDSigned: true}, describe(t, v, r))
		require.Contains(t, string(v.RedactBody(r)), "A_UNIQUE_TOKEN")
	}
	require.Equal(t, 202, v.Ack().Status)
	require.Empty(t, v.Ack().Body)
	require.Equal(t, 204, connect(t, "discord", nil, discordKey).Ack().Status)
	require.Equal(t, 401, v.RejectStatus())
}

// Both of Discord's PINGs get the documented response, and only with the right signature. Discord sends wrong ones on
// purpose.
func TestDiscordHandshakes(t *testing.T) {
	t.Parallel()
	const ping, signature = `{"version":1,"application_id":"1234560123453231555","type":0}`,
		"ee9cb23081164072e6f3ad7c49de305591253b33657e3af6c9000e874a559af75f213a903be801dd61e8e68e2ddb0420f233f8c97ff2acb6d68f1b5ece1e1e00"
	v := connect(t, "discord", nil, discordKey)
	accepted := at(deliver(time.Unix(1772600767, 0), ping, "X-Signature-Ed25519", signature, "X-Signature-Timestamp",
		discordTime), "POST", "")
	requireHandshakeText(t, v, accepted, 204, "application/json", "")
	interaction := discordDelivery(t, `{"application_id":"1","id":"2","token":"t","type":1,"version":1}`)
	requireHandshakeText(t, v, interaction, 200, "application/json", `{"type":1}`)

	for _, r := range []*verification.Request{accepted, interaction} {
		forged := cloneRequest(r)
		forged.Body = append(forged.Body, ' ')
		requireHandshakeRefused(t, v, forged, verification.ReasonSignatureMismatch)
		forged = cloneRequest(r)
		forged.Header.Set("X-Signature-Timestamp", "1772600768")
		requireHandshakeRefused(t, v, forged, verification.ReasonSignatureMismatch)
		forged = cloneRequest(r)
		forged.Header.Del("X-Signature-Ed25519")
		requireHandshakeRefused(t, v, forged, verification.ReasonSignatureMissing)
		requireHandshakeRefused(t, connect(t, "discord", nil, discordOtherKey), r, verification.ReasonSignatureMismatch)
		requireHandshakeRefused(t, connect(t, "discord", nil), r, verification.ReasonSecretMissing)
	}
	requireNoHandshake(t, v, at(cloneRequest(accepted), "GET", ""))
}
