package verification_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// twoNames signs id, timestamp and body in headers of two families, as Svix does.
func twoNames() verification.Declaration {
	d := listed()
	d.Signature[0].From = "header:svix-signature,webhook-signature"
	d.Timestamp.From = "header:svix-timestamp,webhook-timestamp"
	d.Event.ID = []string{"header:Svix-Id,Webhook-Id"}
	return d
}

// A header that comes under one of several names is read under each, and is signed under each.
func TestVerifyHeaderNames(t *testing.T) {
	t.Parallel()
	v := verifier(t, twoNames(), testKey)
	signature := "v1," + b64MAC(testKey, "a."+stamp(0)+".{}")
	send := func(pairs ...string) *verification.Request { return request("{}", pairs...) }
	for _, family := range []string{"svix-", "Webhook-"} {
		r := send(family+"id", "a", family+"timestamp", stamp(0), family+"signature", signature)
		require.Nil(t, v.Precheck(r.Header))
		requireVerified(t, v, r, "whs_0")
		require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true, ID: "a", IDSource: "header:svix-id,webhook-id",
			IDSigned: true}, describe(t, v, r))
		requireRefused(t, v, send(family+"id", "b", family+"timestamp", stamp(0), family+"signature", signature),
			verification.ReasonSignatureMismatch)
		requireRefused(t, v, send(family+"timestamp", stamp(0), family+"signature", signature),
			verification.ReasonHeaderMissing)
		requireRefused(t, v, send(family+"id", "a", family+"signature", signature), verification.ReasonTimestampMissing)
	}
	require.Equal(t, []string{"svix-signature", "webhook-signature"}, v.RedactHeaders())
	refusal := v.Precheck(request("").Header)
	require.Equal(t, verification.ReasonSignatureMissing, refusal.Reason)
	require.Contains(t, refusal.Message, "header Svix-Signature or Webhook-Signature")
}

// A header that comes under two of its names together has no value, because the next reader might take the
// other one.
func TestVerifyHeaderNamesOnce(t *testing.T) {
	t.Parallel()
	v := verifier(t, twoNames(), testKey)
	signature := "v1," + b64MAC(testKey, "a."+stamp(0)+".{}")
	good := []string{"svix-id", "a", "svix-timestamp", stamp(0), "svix-signature", signature}
	requireVerified(t, v, request("{}", good...), "whs_0")
	requireVerified(t, v, request("{}", append(good, "webhook-id", "", "webhook-signature", "")...), "whs_0")
	for _, tt := range []struct {
		name, value string
		reason      verification.Reason
	}{
		{"webhook-id", "a", verification.ReasonHeaderMalformed},
		{"webhook-id", "b", verification.ReasonHeaderMalformed},
		{"webhook-timestamp", stamp(0), verification.ReasonTimestampMalformed},
		{"webhook-signature", signature, verification.ReasonSignatureMalformed},
		{"webhook-signature", "v1,x", verification.ReasonSignatureMalformed},
	} {
		r := request("{}", append(good, tt.name, tt.value)...)
		requireRefused(t, v, r, tt.reason)
		if tt.reason == verification.ReasonSignatureMalformed {
			require.Equal(t, tt.reason, v.Precheck(r.Header).Reason)
		}
	}
	r := request("{}", append(good, "webhook-id", "b")...)
	require.Empty(t, describe(t, v, r).ID)
}

// Lists of names are short and without repetition, and none of them may be a credential's where it would be
// stored.
func TestCompileHeaderNames(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"header:a,A", "header:a,", "header:,a", "header:a, b", "header:a,b,c,d,e",
		"header:a,host"} {
		d := bodyOnly()
		d.Signature[0].From = from
		_, err := verification.Compile(d)
		require.Equal(t, []string{"signature[0].from format"}, violationsOf(t, err), from)
	}
	for _, id := range []string{"header:X-Other,X-Signature", "header:x-other,authorization"} {
		d := bodyOnly()
		d.Event.ID = []string{id}
		_, err := verification.Compile(d)
		require.Equal(t, []string{"event.id[0] format"}, violationsOf(t, err), id)
	}
}
