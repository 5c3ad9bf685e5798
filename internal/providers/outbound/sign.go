package outbound

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"

	"sallyport/internal/platform/secretbox"
)

// sign signs a request that is complete, for the modes that sign.
func sign(r *renderer, m *Mode, req *http.Request, body []byte) error {
	switch m.Kind {
	case AWSSigV4:
		return signAWS(r, m, req, body)
	case OAuth1:
		return signOAuth1(r, m, req)
	case HMAC:
		return signHMAC(r, m, req, body)
	default:
		return nil
	}
}

// credential returns a credential that the mode needs.
func (r *renderer) credential(key string) (secretbox.Secret, error) {
	value, err := r.value(name{spaceCred, key})
	return secretbox.Secret(value), err
}

// signature returns the content under an HMAC, the key, and the header's name and prefix.
func (r *renderer) signature(m *Mode, req *http.Request, body []byte) (content, key []byte, header, prefix string,
	err error) {
	s := m.signature
	hash := sha256.Sum256(body)
	r.request = map[string]string{"method": req.Method, "host": req.URL.Host, "path": req.URL.EscapedPath(),
		"query": req.URL.RawQuery, "url": req.URL.String(), "body": string(body), "body_sha256": hex.EncodeToString(hash[:])}
	r.blame = "signature"
	text, err := r.text(s.content)
	if err != nil {
		return nil, nil, "", "", err
	}
	if header, err = r.entry(s.header, true); err != nil {
		return nil, nil, "", "", err
	}
	if !ownableHeader(header) {
		return nil, nil, "", "", refuse(r.nameField(pair{name: s.header, field: "signature.header"}),
			"is not the name of a header that can be set")
	}
	if prefix, err = r.entry(s.prefix, true); err != nil {
		return nil, nil, "", "", err
	}
	secret, err := r.credential("secret")
	if err != nil {
		return nil, nil, "", "", err
	}
	switch s.key {
	case "hex":
		key, err = hex.DecodeString(secret.Reveal())
	case "base64":
		key, err = base64.StdEncoding.DecodeString(secret.Reveal())
	default:
		key = []byte(secret.Reveal())
	}
	if err != nil || len(key) == 0 {
		return nil, nil, "", "", refuse("credentials.secret", "is not a key in the form "+s.key)
	}
	return []byte(text), key, header, prefix, nil
}
