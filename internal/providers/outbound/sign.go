package outbound

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

// sign signs a request that is complete, for the modes that sign.
func sign(r *renderer, m *Mode, req *http.Request, body []byte) error {
	var err error
	switch m.Kind {
	case AWSSigV4:
		err = signAWS(r, m, req, body)
	case OAuth1:
		err = signOAuth1(r, m, req)
	case HMAC:
		err = signHMAC(r, m, req, body)
	default:
		return nil
	}
	switch { // of requestsigning, whose errors quote nothing
	case errors.Is(err, requestsigning.ErrKey):
		return refuse("credentials", err.Error())
	case errors.Is(err, requestsigning.ErrSettings):
		return refuse("connection_config", err.Error())
	case errors.Is(err, requestsigning.ErrRequest):
		return refuse("query", err.Error())
	}
	return err
}

// credential returns a credential that the mode needs; an optional one may be empty.
func (r *renderer) credential(key string) (secretbox.Secret, error) {
	value, err := r.value(name{spaceCred, key})
	return secretbox.Secret(value), err
}

func signAWS(r *renderer, m *Mode, req *http.Request, body []byte) error {
	r.blame = "aws"
	scope := m.aws
	if r.aws != nil {
		scope = r.aws
	}
	region, err := r.text(scope.region)
	if err != nil {
		return err
	}
	service, err := r.text(scope.service)
	if err != nil {
		return err
	}
	id, err := r.credential("access_key_id")
	if err != nil {
		return err
	}
	secret, err := r.credential("secret_access_key")
	if err != nil {
		return err
	}
	return requestsigning.SignAWS(req, body, requestsigning.AWS{AccessKeyID: id.Reveal(), SecretAccessKey: secret,
		SessionToken: r.values.Credentials["session_token"], Region: region, Service: service, Now: r.values.Now})
}

func signOAuth1(r *renderer, m *Mode, req *http.Request) error {
	for _, key := range []string{"id", "secret"} {
		if _, err := r.value(name{spaceClient, key}); err != nil {
			return err
		}
	}
	token, err := r.credential("token")
	if err != nil {
		return err
	}
	secret, err := r.credential("token_secret")
	if err != nil {
		return err
	}
	return requestsigning.SignOAuth1(req, requestsigning.OAuth1{ConsumerKey: r.values.Client.ID,
		ConsumerSecret: r.values.Client.Secret, Token: token.Reveal(), TokenSecret: secret, Method: m.SignatureMethod,
		Now: r.values.Now})
}

func signHMAC(r *renderer, m *Mode, req *http.Request, body []byte) error {
	s := m.signature
	hash := sha256.Sum256(body)
	r.request = map[string]string{"method": req.Method, "host": req.URL.Host, "path": req.URL.EscapedPath(),
		"query": req.URL.RawQuery, "target": req.URL.RequestURI(), "url": req.URL.String(), "body": string(body),
		"body_sha256": hex.EncodeToString(hash[:])}
	r.blame = "signature"
	content, err := r.text(s.content)
	if err != nil {
		return err
	}
	header, err := r.entry(s.header, true)
	if err != nil {
		return err
	}
	if !OwnableHeader(header) {
		return refuse(r.nameField(pair{name: s.header, field: "signature.header"}), errHeaderName)
	}
	prefix, err := r.entry(s.prefix, true)
	if err != nil {
		return err
	}
	key, err := r.signingKey(s.key)
	if err != nil {
		return err
	}
	return requestsigning.SignHMAC(req, body, requestsigning.HMAC{Algorithm: s.algorithm, Key: key,
		Encoding: s.encoding, Content: []byte(content), Header: header, Prefix: prefix})
}

// signingKey decodes the secret of an HMAC.
func (r *renderer) signingKey(form string) (secretbox.Secret, error) {
	secret, err := r.credential("secret")
	if err != nil {
		return "", err
	}
	key := []byte(secret.Reveal())
	switch form {
	case "hex":
		key, err = hex.DecodeString(secret.Reveal())
	case "base64":
		key, err = base64.StdEncoding.DecodeString(secret.Reveal())
	default:
	}
	if err != nil || len(key) == 0 {
		return "", refuse("credentials.secret", "is not a key in the form "+form)
	}
	return secretbox.Secret(key), nil
}
