package requestsigning_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

func formRequest(t *testing.T, method, url, form string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	require.NoError(t, err)
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

// The three requests of RFC 5849, section 1.2.
func TestOAuth1Example(t *testing.T) {
	t.Parallel()
	photos := requestsigning.OAuth1{ConsumerKey: "dpf43f3p2l4k3l03", ConsumerSecret: "kd94hf93k423kf44",
		Method: "HMAC-SHA1", Realm: "Photos"}
	temporary, access, resource := photos, photos, photos
	temporary.Now, temporary.Nonce = time.Unix(137131200, 0), "wIjqoS"
	temporary.Callback = "http://printer.example.com/ready"
	access.Now, access.Nonce = time.Unix(137131201, 0), "walatlh"
	access.Token, access.TokenSecret, access.Verifier = "hh5s93j4hdidpola", "hdhd0244k9j7ao03", "hfdp7dh39dks9884"
	resource.Now, resource.Nonce = time.Unix(137131202, 0), "chapoH"
	resource.Token, resource.TokenSecret = "nnch734d00sl2jdk", "pfkkdhi9sl3r4s00"
	for _, c := range []struct {
		of             requestsigning.OAuth1
		method, url    string
		authorization  string
		withoutVersion bool
	}{
		{of: temporary, method: http.MethodPost, url: "https://photos.example.net/initiate",
			authorization: `OAuth realm="Photos", oauth_callback="http%3A%2F%2Fprinter.example.com%2Fready", ` +
				`oauth_consumer_key="dpf43f3p2l4k3l03", oauth_nonce="wIjqoS", oauth_signature_method="HMAC-SHA1", ` +
				`oauth_timestamp="137131200", oauth_signature="74KNZJeDHnMBp0EMJ9ZHt%2FXKycU%3D"`},
		{of: access, method: http.MethodPost, url: "https://photos.example.net/token",
			authorization: `OAuth realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_nonce="walatlh", ` +
				`oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131201", oauth_token="hh5s93j4hdidpola", ` +
				`oauth_verifier="hfdp7dh39dks9884", oauth_signature="gKgrFCywp7rO0OXSjdot%2FIHF7IU%3D"`},
		{of: resource, method: http.MethodGet, url: "http://photos.example.net/photos?file=vacation.jpg&size=original",
			authorization: `OAuth realm="Photos", oauth_consumer_key="dpf43f3p2l4k3l03", oauth_nonce="chapoH", ` +
				`oauth_signature_method="HMAC-SHA1", oauth_timestamp="137131202", oauth_token="nnch734d00sl2jdk", ` +
				`oauth_signature="MdpQcU8iPSUjWoN%2FUDMsK2sui9I%3D"`},
	} {
		req := formRequest(t, c.method, c.url, "")
		require.NoError(t, requestsigning.SignOAuth1(req, c.of.WithoutVersion()))
		require.Equal(t, c.authorization, req.Header.Get("Authorization"))
	}
}

// The example of RFC 5849, section 3.4.1, with a query and a form in which a name occurs twice. The signature is not
// that of the text, which is known to be wrong, but the one that other implementations have for these secrets.
func TestOAuth1Normalization(t *testing.T) {
	t.Parallel()
	o := requestsigning.OAuth1{ConsumerKey: "9djdj82h48djs9d2", ConsumerSecret: "j49sk3j29djd", Token: "kkk9d7dh3k39sjv7",
		TokenSecret: "dh893hdasih9", Method: "HMAC-SHA1", Nonce: "7d8f3e4a", Now: time.Unix(137131201, 0)}.WithoutVersion()
	req := formRequest(t, http.MethodPost, "http://EXAMPLE.COM:80/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b", "c2&a3=2+q")
	base, err := o.BaseString(req)
	require.NoError(t, err)
	require.Equal(t, "POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26"+
		"c%2540%3D%26c2%3D%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3D"+
		"HMAC-SHA1%26oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7", base)
	// The second is a vector of oauthlib, the third was made with Python's hmac.
	for _, c := range []struct {
		consumer, token secretbox.Secret
		want            string
	}{
		{"j49sk3j29djd", "dh893hdasih9", "r6%2FTJjbCOr97%2F%2BUU0NsvSne7s5g%3D"},
		{"ECrDNoq1VYzzzzzzzzzyAK7TwZNtPnkqatqZZZZ", "just-a-string    asdasd", "wsdNmjGB7lvis0UJuPAmjvX%2FPXw%3D"},
		{"s* &ü", "t", "z0%2FDlNeU%2F7qLivhiVQ0P5OXNSx0%3D"},
	} {
		o.ConsumerSecret, o.TokenSecret = c.consumer, c.token
		req.Method = "post"
		require.NoError(t, requestsigning.SignOAuth1(req, o))
		require.Contains(t, req.Header.Get("Authorization"), `oauth_signature="`+c.want+`"`)
	}
}

// Parameters are in the order of their names, also where one name begins with another.
func TestOAuth1Order(t *testing.T) {
	t.Parallel()
	o := requestsigning.OAuth1{ConsumerKey: "k", Method: "HMAC-SHA256", Nonce: "n", Now: time.Unix(1, 0)}
	base, err := o.BaseString(formRequest(t, http.MethodGet, "https://example.test:8443/?a1=2&a=3&a=1&a-b=4&A=5", ""))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(base, "GET&https%3A%2F%2Fexample.test%3A8443%2F&"+
		"A%3D5%26a%3D1%26a%3D3%26a-b%3D4%26a1%3D2%26oauth_"), base)
}

// Two requests never have the same nonce.
func TestOAuth1Nonce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		req := formRequest(t, http.MethodGet, "https://example.test/", "")
		require.NoError(t, requestsigning.SignOAuth1(req, requestsigning.OAuth1{ConsumerKey: "k", Method: "HMAC-SHA1",
			Now: time.Unix(1, 0)}))
		seen[req.Header.Get("Authorization")] = true
	}
	require.Len(t, seen, 100)
}

// Nothing is signed that the provider would read in another way, and no reason contains a secret.
func TestOAuth1Refusals(t *testing.T) {
	t.Parallel()
	const mark = "planted-secret"
	good := requestsigning.OAuth1{ConsumerKey: "k", ConsumerSecret: mark, Token: "t", TokenSecret: mark,
		Method: "HMAC-SHA1", Now: time.Unix(1, 0)}
	type of = requestsigning.OAuth1
	for name, c := range map[string]struct {
		edit func(*of)
		url  string
		form string
		want error
	}{
		"method":         {func(o *of) { o.Method = "PLAINTEXT" }, "/", "", requestsigning.ErrSettings},
		"another hash":   {func(o *of) { o.Method = "HMAC-SHA384" }, "/", "", requestsigning.ErrSettings},
		"time":           {func(o *of) { o.Now = time.Time{} }, "/", "", requestsigning.ErrSettings},
		"realm":          {func(o *of) { o.Realm = `a"b` }, "/", "", requestsigning.ErrSettings},
		"no consumer":    {func(o *of) { o.ConsumerKey = "" }, "/", "", requestsigning.ErrKey},
		"no token":       {func(o *of) { o.Token = "" }, "/", "", requestsigning.ErrKey},
		"own parameter":  {nil, "/?oauth_token=" + mark, "", requestsigning.ErrRequest},
		"malformed":      {nil, "/?a=%zz" + mark, "", requestsigning.ErrRequest},
		"malformed form": {nil, "/", "a=%zz" + mark, requestsigning.ErrRequest},
		"own in form":    {nil, "/", "oauth_token=" + mark, requestsigning.ErrRequest},
		"large form":     {nil, "/", "a=" + strings.Repeat("x", 1<<20), requestsigning.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			if c.edit != nil {
				c.edit(&o)
			}
			req := formRequest(t, http.MethodPost, "https://example.test"+c.url, c.form)
			err := requestsigning.SignOAuth1(req, o)
			require.ErrorIs(t, err, c.want)
			require.NotContains(t, err.Error(), mark)
			require.Empty(t, req.Header.Get("Authorization"))
		})
	}
	req := formRequest(t, http.MethodPost, "https://example.test/", "a=b")
	req.GetBody = nil
	require.ErrorIs(t, requestsigning.SignOAuth1(req, good), requestsigning.ErrRequest)
}

// The signature is over the content that was rendered, and the body that is sent is the one that was given.
func TestHMAC(t *testing.T) {
	t.Parallel()
	// RFC 4231, test case 2, and RFC 2202, test case 2 of HMAC-SHA-1.
	for _, c := range []struct{ algorithm, encoding, want string }{
		{"sha1", "hex", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"},
		{"sha256", "hex", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{"sha256", "base64", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="},
		{"sha256", "base64url", "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM"},
		{"sha384", "hex", "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"},
		{"sha512", "hex", "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554" +
			"9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"},
	} {
		req := formRequest(t, http.MethodPost, "https://example.test/", "")
		req.Header.Set("X-Signature", "old")
		require.NoError(t, requestsigning.SignHMAC(req, []byte("body"), requestsigning.HMAC{Algorithm: c.algorithm,
			Key: "Jefe", Encoding: c.encoding, Content: []byte("what do ya want for nothing?"), Header: "x-signature",
			Prefix: "v1="}))
		require.Equal(t, []string{"v1=" + c.want}, req.Header.Values("X-Signature"))
		require.EqualValues(t, 4, req.ContentLength)
	}
}

// Settings that cannot be sent or that sign nothing are refused.
func TestHMACRefusals(t *testing.T) {
	t.Parallel()
	type of = requestsigning.HMAC
	for name, c := range map[string]struct {
		edit func(*of)
		want error
	}{
		"algorithm": {func(h *of) { h.Algorithm = "md5" }, requestsigning.ErrSettings},
		"encoding":  {func(h *of) { h.Encoding = "octal" }, requestsigning.ErrSettings},
		"header":    {func(h *of) { h.Header = "a b" }, requestsigning.ErrSettings},
		"no header": {func(h *of) { h.Header = "" }, requestsigning.ErrSettings},
		"host":      {func(h *of) { h.Header = "host" }, requestsigning.ErrSettings},
		"prefix":    {func(h *of) { h.Prefix = "a\r\nb: " }, requestsigning.ErrSettings},
		"no key":    {func(h *of) { h.Key = "" }, requestsigning.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := of{Algorithm: "sha256", Key: secretbox.Secret("key"), Encoding: "hex", Header: "X-Signature"}
			c.edit(&h)
			require.ErrorIs(t, requestsigning.SignHMAC(formRequest(t, http.MethodPost, "https://example.test/", ""), nil, h),
				c.want)
		})
	}
}
