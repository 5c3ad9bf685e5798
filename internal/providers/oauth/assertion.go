package oauth

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

// Assertion is a JWT by which an issuer speaks for a subject (RFC 7523, section 3).
type Assertion struct {
	// Algorithm is RS256 if it is empty; requestsigning.JWT lists the others, and the forms of Key.
	Algorithm string
	Key       secretbox.Secret
	KeyID     string

	Issuer, Subject, Audience string
	// Lifetime is 3 minutes if it is 0, which every known provider accepts, and at most an hour.
	Lifetime time.Duration
	// Claims are further ones, such as scope. They replace none of those above, nor iat, exp and jti.
	Claims map[string]any

	// backdate is how far iat lies in the past, for providers that reject tokens of clocks ahead of theirs.
	backdate time.Duration
}

const (
	defaultLifetime = 3 * time.Minute
	maxLifetime     = time.Hour
)

// sign returns the token. It has an id of its own, because servers may accept each id only once.
func (a Assertion) sign(now time.Time) (secretbox.Secret, error) {
	lifetime := a.Lifetime
	if lifetime == 0 {
		lifetime = defaultLifetime
	}
	switch {
	case a.Issuer == "" || a.Audience == "" && a.backdate == 0:
		return "", unusable("the issuer or the audience of an assertion is missing")
	case lifetime < time.Second || lifetime > maxLifetime:
		return "", unusable("an assertion lives from a second to an hour")
	}
	claims := map[string]any{"iss": a.Issuer, "iat": now.Add(-a.backdate).Unix(), "exp": now.Add(lifetime).Unix()}
	if a.backdate == 0 {
		claims["jti"] = rand.Text()
	}
	for name, value := range map[string]string{"sub": a.Subject, "aud": a.Audience} {
		if value != "" {
			claims[name] = value
		}
	}
	for name := range a.Claims {
		switch name {
		case "iss", "sub", "aud", "iat", "exp", "nbf", "jti":
			return "", unusable("the claim %s is set by the protocol", name)
		}
	}
	maps.Copy(claims, a.Claims)
	algorithm := a.Algorithm
	if algorithm == "" {
		algorithm = "RS256"
	}
	token, err := requestsigning.SignJWT(requestsigning.JWT{Algorithm: algorithm, Key: a.Key, KeyID: a.KeyID,
		Claims: claims})
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSettings, err)
	}
	return token, nil
}

// ServiceAccount is a key of Google, as its JSON file holds it. The token endpoint that the file names is not among it:
// anyone who could write the file would choose where assertions go.
type ServiceAccount struct {
	ClientEmail  string
	PrivateKeyID string
	PrivateKey   secretbox.Secret
}

// maxKeyFile bounds the file of a service account, in bytes. Google's have about 2,400.
const maxKeyFile = 32 << 10

// ParseServiceAccount reads the JSON file of a service account.
func ParseServiceAccount(file secretbox.Secret) (ServiceAccount, error) {
	var of struct {
		Type         string           `json:"type"`
		ClientEmail  string           `json:"client_email"`
		PrivateKeyID string           `json:"private_key_id"`
		PrivateKey   secretbox.Secret `json:"private_key"`
	}
	// Errors of the decoder may quote the file.
	if len(file) > maxKeyFile || json.Unmarshal([]byte(file.Reveal()), &of) != nil {
		return ServiceAccount{}, unusable("the key is not the JSON file of a service account")
	}
	if of.Type != "service_account" || of.ClientEmail == "" || of.PrivateKey == "" {
		return ServiceAccount{}, unusable("the file is not the key of a service account")
	}
	return ServiceAccount{ClientEmail: of.ClientEmail, PrivateKeyID: of.PrivateKeyID, PrivateKey: of.PrivateKey}, nil
}

// Assertion returns what the account exchanges for a token with scopes. With a subject it speaks for that user of its
// organization.
func (s ServiceAccount) Assertion(subject string, scopes []string) Assertion {
	a := Assertion{Key: s.PrivateKey, KeyID: s.PrivateKeyID, Issuer: s.ClientEmail, Subject: subject}
	if len(scopes) > 0 {
		a.Claims = map[string]any{"scope": strings.Join(scopes, " ")}
	}
	return a
}
