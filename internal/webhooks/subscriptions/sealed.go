package subscriptions

import (
	"errors"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

const (
	columnURL      = "forward_url"
	columnSecret   = "signing_secret"
	columnRetiring = "retiring_secrets"
	columnHeaders  = "headers"
)

// SealedColumns returns the columns that a rotation of the keyset encrypts again.
func SealedColumns() []secretbox.Column {
	var out []secretbox.Column
	for _, c := range []string{columnURL, columnSecret, columnRetiring, columnHeaders} {
		out = append(out, secretbox.Column{Table: collection, Column: c, IDColumn: "id"})
	}
	return out
}

func place(subscriptionID, column string) secretbox.AD {
	return secretbox.AD{Table: collection, Column: column, RowID: subscriptionID}
}

// sealer encrypts and decrypts the columns of subscriptions.
type sealer struct{ box *secretbox.Box }

func (s sealer) seal(subscriptionID, column, text string) ([]byte, error) {
	sealed, err := s.box.Seal([]byte(text), place(subscriptionID, column))
	if err != nil {
		return nil, fmt.Errorf("seal webhook subscription %s: %w", subscriptionID, err)
	}
	return sealed, nil
}

func (s sealer) sealHeaders(subscriptionID string, headers []Header) ([]byte, error) {
	text, err := db.EncodeJSON(headers)
	if err != nil {
		return nil, fmt.Errorf("encode headers of webhook subscription %s: %w", subscriptionID, err)
	}
	return s.seal(subscriptionID, columnHeaders, text)
}

func (s sealer) unseal(subscriptionID, column string, sealed []byte) (string, error) {
	text, err := s.box.Open(sealed, place(subscriptionID, column))
	if err != nil {
		return "", fmt.Errorf("open webhook subscription %s: %w", subscriptionID, err)
	}
	return string(text), nil
}

// open returns the subscription of a row with its URL and headers decrypted, and what may be shown of its replaced
// secrets.
func (s *Service) open(r row) (Subscription, error) {
	sub := r.Subscription
	var err error
	if sub.ForwardURL, err = s.unseal(r.ID, columnURL, r.sealedURL); err != nil {
		return Subscription{}, err
	}
	headers, err := s.unseal(r.ID, columnHeaders, r.sealedHeaders)
	if err != nil {
		return Subscription{}, err
	}
	if err := db.DecodeJSON(headers, &sub.Headers); err != nil {
		return Subscription{}, errStored(r.ID, columnHeaders)
	}
	retiring, err := s.unsealRetiring(r, s.cfg.Clock.Now())
	sub.Retiring = shown(retiring)
	return sub, err
}

var errUnusable = errors.New("the stored value breaks the rules of its column")

// errStored names a column, never its value or an error that could contain it.
func errStored(subscriptionID, column string) error {
	return fmt.Errorf("webhook subscription %s, column %s: %w", subscriptionID, column, errUnusable)
}
