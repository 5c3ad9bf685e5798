package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// everything uses each field of the format once at least. Its blocks are alternatives: no provider is like this.
const everything = minimal + `webhooks:
  setup: Paste the URL.
  params:
    - {name: account, description: The account., pattern: ".+", required: true, example: acct_1}
    - {name: mode, description: The mode., enum: [a, b], default: a}
  any_of:
    - scheme: hmac
      algorithm: sha256
      secret: {decode: utf8}
      signature:
        - {from: "header:x-sig,x-signature", encoding: hex, parse: {prefix: "{param:mode}="}}
        - {from: "header_seq:x-sig-{1..3}", encoding: base64}
        - {from: "header:x-list", encoding: base64url, parse: {list: {sep: " ", prefix: "v1,"}}}
        - {from: "header:x-path", encoding: hex, parse: {path: {list_sep: ",", sep: "/", fields: ["*", "=SHA256", signature]}}}
        - {from: "query:sig", encoding: hex}
      signed: "{ts}.{body}"
      timestamp: {from: "header:x-ts", format: unix_s, max_age_s: 300, max_skew_s: 300, signed: true}
    - scheme: hmac
      algorithm: sha1
      secret: {decode: utf8}
      signature: [{from: "header:x-kv", encoding: hex, parse: {kv: {pair_sep: ",", kv_sep: "=", keys: [v1]}}}]
      signed: "{url}"
      url_variants: [port]
      body_hash: {from: "query:bodySHA256", alg: sha256, encoding: hex}
    - all_of:
        - scheme: jwt
          body_unsigned: true
          keys: {jwks: {url: "https://keys.example/certs", ttl_s: 600}}
          jwt:
            from: header:authorization
            prefix: "Bearer "
            algs: [RS256]
            iss: [i]
            aud: ["{param:account}"]
            claims: [{from: "jwt:email", equals: [e]}, {from: "jwt:/a/b", present: true}]
            max_age_s: 60
            max_skew_s: 10
        - {scheme: token, signature: [{from: "json:/value/*/token"}]}
    - scheme: jwt
      body_hash: {from: "jwt:sha256", alg: sha256, encoding: hex}
      keys: {by_kid: {url: "https://a.example/key", body: '{"key_id":"${kid}","secret":"${secret}"}', key: /key, ttl_s: 60}}
      jwt: {from: "header:x-jwt", algs: [ES256]}
    - scheme: asymmetric
      algorithm: rsa_sha256
      body_unsigned: true
      signature: [{from: "json:/Signature", encoding: base64}]
      signed: "{kv_lines:Message,Type}"
      keys: {cert_url: {from: "json:/CertURL", host_regex: 'certs\.acme\.com', path_suffix: .pem, roots: system, dns_name: certs.acme.com}}
    - {scheme: basic}
  account: [{from: "json:/account", equals: ["{param:account}"]}]
  event:
    type: ["{header:x-event}.{json:/action}"]
    id: ["json:/id + json:/at"]
    type_separators: "/"
    bodies_unique: true
    occurred_at: {from: "json:/at", format: unix_ms}
    batch: {when: [{from: "header:x-batch", present: true}], items: ["/value/*"], type: ["{json:/object}.{item:/type}"], id: ["item:/id"]}
    map: {a/b: a.b}
    redact: ["json:/passcode"]
  control: [{from: "query:ping", equals: ["1"]}, {from: "json:/value", empty: true}]
  handshake:
    - when: [{from: method, equals: [GET]}, {from: "query:challenge", present: true}]
      verify_first: false
      respond: {status: 200, content_type: application/json, headers: {X-Answer: "${query:challenge}"}, body: '{"a":"${query:challenge}"}'}
    - when: [{from: method, equals: [POST]}, {from: "header:x-hook-secret", present: true}]
      capture: {from: "header:x-hook-secret", confirm: true}
      respond: {status: 204}
  ack: {status: 200, content_type: text/plain, body: ok}
  reject_status: 400
  max_body: 1048576
  source_ips: ["192.0.2.0/24"]
  redact_headers: [x-old-sig]
`

// Every field of the format is read from YAML as it is documented.
func TestLoadEveryField(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Load(folder("acme.yaml", everything))
	require.NoError(t, err)
	p, ok := loaded.Get("acme")
	require.True(t, ok)
	v, err := p.Webhooks.Bind(verification.Settings{Params: map[string]string{"account": "a"}})
	require.NoError(t, err)
	require.Equal(t, []string{"GET", "POST"}, v.HandshakeMethods())
	require.Equal(t, "ok", string(v.Ack().Body))
	require.Equal(t, 400, v.RejectStatus())
	require.Equal(t, int64(1<<20), v.MaxBody())
	require.Contains(t, v.RedactHeaders(), "x-sig-3")
	require.Contains(t, v.RedactHeaders(), "x-signature")
	_, err = p.Webhooks.Bind(verification.Settings{})
	require.ErrorContains(t, err, "params.account")
}

// A problem in a nested proof or handshake names the line of the field.
func TestLoadNamesNestedLines(t *testing.T) {
	t.Parallel()
	_, err := registry.Load(folder("acme.yaml", minimal+`webhooks:
  setup: x
  any_of:
    - scheme: basic
    - scheme: token
      signature:
        - from: nowhere
  handshake:
    - when:
        - {from: method, equals: [PUT]}
      respond: {status: 200}
`))
	require.ErrorContains(t, err, "acme.yaml:12: webhooks.any_of[1].signature[0].from: must be")
	require.ErrorContains(t, err, "acme.yaml:14: webhooks.handshake[0].when: must compare the method")
}
