package configs

import (
	"fmt"
	"unicode/utf8"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// A hint shows hintCharacters of a secret that has at least hintMinimum. A hint of a shorter one would reveal too much.
const (
	hintCharacters = 4
	hintMinimum    = 16
)

// hint returns the end of a secret, which has only ASCII characters.
func hint(secret string) string {
	if utf8.RuneCountInString(secret) < hintMinimum {
		return ""
	}
	return secret[len(secret)-hintCharacters:]
}

// sealer encrypts the secrets of configurations, each bound to its row.
type sealer struct{ box *secretbox.Box }

// seal stores the secrets of a change in c, whose ID is set.
func (s sealer) seal(c *Config, ch *Change) error {
	switch f := ch.ClientSecret; {
	case f.Given():
		sealed, err := s.box.Seal([]byte(f.Value.Reveal()), place(columnSecret, c.ID))
		if err != nil {
			return fmt.Errorf("seal a client secret: %w", err)
		}
		c.sealedSecret, c.SecretHint = sealed, hint(f.Value.Reveal())
	case f.Set || ch.clears():
		c.sealedSecret, c.SecretHint = nil, ""
	}
	switch f := ch.PrivateKey; {
	case f.Given():
		sealed, err := s.box.Seal([]byte(f.Value.Reveal()), place(columnPrivateKey, c.ID))
		if err != nil {
			return fmt.Errorf("seal a private key: %w", err)
		}
		c.sealedKey = sealed
	case f.Set || ch.clears():
		c.sealedKey = nil
	}
	return nil
}

// OpenClient returns the OAuth client of a configuration with its secrets, to be sent to hosts that the provider's
// definition names, and to those hosts that settings of a connection name. It returns provider_not_configured if the
// client does not belong to one of them. Only package connections calls it, for the requests that it makes and signs.
func (s *Service) OpenClient(c *Config, hosts []string) (Client, error) {
	if host := c.Withholds(hosts); host != "" {
		return Client{}, apperr.New(apperr.CodeProviderNotConfigured, "The OAuth client of the provider configuration "+
			c.Key+" may not be sent to "+host+", which a setting of the connection names; add the host to its oauth.hosts")
	}
	out := Client{ID: c.ClientID, KeyID: c.KeyID}
	for _, part := range []struct {
		column string
		sealed []byte
		to     *secretbox.Secret
	}{{columnSecret, c.sealedSecret, &out.Secret}, {columnPrivateKey, c.sealedKey, &out.PrivateKey}} {
		if len(part.sealed) == 0 {
			continue
		}
		plain, err := s.box.Open(part.sealed, place(part.column, c.ID))
		if err != nil {
			return Client{}, fmt.Errorf("open %s of provider configuration %s: %w", part.column, c.Key, err)
		}
		*part.to = secretbox.Secret(plain)
	}
	return out, nil
}
