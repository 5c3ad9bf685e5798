package outbound_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OAuth 1.0a signs with it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// The signature of hmac covers what the definition says, with the same time as in the header, and the body is sent.
func TestHMAC(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com/v1
allowed_hosts: [api.acme.com]
auth:
  - mode: hmac
    request: {headers: {X-Key: "${cred.key_id}", X-Time: "${now}"}}
    signature:
      algorithm: sha256
      key: base64
      content: "${now}\n${request.method}\n${request.host}${request.path}?${request.query}\n${request.body_sha256}\n${request.body}"
      encoding: base64
      header: X-Sign
      prefix: "${cred.key_id}:"
`)
	v := outbound.Values{Credentials: credentials("key_id", "k1", "secret", base64.StdEncoding.EncodeToString([]byte("key"))), Now: now}
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodPost, Path: "/a%2Fb", Query: url.Values{"q": {"x y"}},
		Body: []byte("hello"), Header: http.Header{"X-Sign": {"mine"}}}, v)
	require.NoError(t, err)
	hash := sha256.Sum256([]byte("hello"))
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte("1772600767\nPOST\napi.acme.com/v1/a%2Fb?q=x+y\n" + hex.EncodeToString(hash[:]) + "\nhello"))
	require.Equal(t, []string{"k1:" + base64.StdEncoding.EncodeToString(mac.Sum(nil))}, req.Header["X-Sign"])
	require.Equal(t, "1772600767", req.Header.Get("X-Time"))
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.Equal(t, "hello", string(body))
	v.Credentials = credentials("key_id", "k1", "secret", "not base64!")
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet}, v)
	require.Equal(t, []string{"credentials.secret"}, fields(t, err))
	require.NotContains(t, err.Error(), "not base64!")
}

// Requests of oauth1 carry a signature over method, URL and parameters (RFC 5849 section 3.4).
func TestOAuth1(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com/1
allowed_hosts: [api.acme.com]
auth:
  - {mode: oauth1, request_token_url: "https://api.acme.com/r", authorize_url: "https://api.acme.com/a", token_url: "https://api.acme.com/t"}
`)
	v := outbound.Values{Credentials: credentials("token", "T", "token_secret", "ts"), Now: now,
		Client: outbound.Client{ID: "C", Secret: "cs"}}
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/x",
		Query: url.Values{"b": {"1"}}}, v)
	require.NoError(t, err)
	params := map[string]string{"b": "1"}
	for _, m := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(req.Header.Get("Authorization"), -1) {
		value, err := url.PathUnescape(m[2])
		require.NoError(t, err)
		params[m[1]] = value
	}
	signature := params["oauth_signature"]
	delete(params, "oauth_signature")
	var pairs []string
	for key, value := range params {
		pairs = append(pairs, url.QueryEscape(key)+"="+url.QueryEscape(value))
	}
	slices.Sort(pairs)
	mac := hmac.New(sha1.New, []byte("cs&ts"))
	mac.Write([]byte("GET&" + url.QueryEscape("https://api.acme.com/1/x") + "&" + url.QueryEscape(strings.Join(pairs, "&"))))
	require.Equal(t, base64.StdEncoding.EncodeToString(mac.Sum(nil)), signature)
	v.Client.Secret = ""
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet}, v)
	require.Equal(t, []string{"client.secret"}, fields(t, err))
}

// Requests of aws_sigv4 are signed for the region and the service of the connection.
func TestAWS(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config: {region: {title: Region, enum: [us-east-1, eu-west-1]}}
base_url: "https://s3.${config.region}.amazonaws.com"
allowed_hosts: ["s3.${config.region}.amazonaws.com"]
auth: [{mode: aws_sigv4, aws: {region: "${config.region}", service: s3}}]
`)
	v := outbound.Values{Target: outbound.Target{Config: config(t, e, "", "region", "eu-west-1")}, Now: now,
		Credentials: credentials("access_key_id", "AKIDEXAMPLE", "secret_access_key", "sk", "session_token", "st")}
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/bucket/a%20b"}, v)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(req.Header.Get("Authorization"),
		"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260304/eu-west-1/s3/aws4_request,"), req.Header.Get("Authorization"))
	require.Equal(t, "st", req.Header.Get("X-Amz-Security-Token"))
	require.NotEmpty(t, req.Header.Get("X-Amz-Content-Sha256"))
	require.Equal(t, "https://s3.eu-west-1.amazonaws.com/bucket/a%20b", req.URL.String())
	for _, key := range []string{"access_key_id", "secret_access_key"} {
		broken := v
		broken.Credentials = credentials("access_key_id", "AKIDEXAMPLE", "secret_access_key", "sk")
		delete(broken.Credentials, key)
		_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet}, broken)
		require.Equal(t, []string{"credentials." + key}, fields(t, err))
	}
	v.Credentials["access_key_id"] = "a/b"
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet}, v)
	require.Equal(t, []string{"credentials"}, fields(t, err))
}
