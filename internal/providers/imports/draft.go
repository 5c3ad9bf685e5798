package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// draft makes a definition of what a document says about servers and security.
func (r *reader) draft(document *documents.Document) ([]byte, Access, error) {
	source, _, _ := strings.Cut(r.m.URL, "?") // which may have a secret
	d, err := document.Draft(documents.DraftOptions{Slug: r.m.Slug, DisplayName: r.m.DisplayName, BaseURL: r.m.BaseURL,
		Source: source})
	if err != nil {
		return nil, Access{}, err //nolint:wrapcheck // run reads it
	}
	for _, note := range d.Notes {
		r.note("", note)
	}
	p, err := registry.Import(r.m.Slug, d.Definition)
	var invalid *registry.LoadError
	switch {
	case errors.As(err, &invalid):
		return nil, Access{}, &refusal{FailedProvider, "the provider that the document describes cannot be defined: " +
			invalid.Problems[0].Field + ": " + invalid.Problems[0].Message}
	case err != nil:
		return nil, Access{}, fmt.Errorf("check the definition of an import: %w", err)
	}
	digest, err := accessDigest(p)
	return d.Definition, Access{Hosts: d.Hosts, TokenEndpoints: d.TokenEndpoints, AuthModes: d.AuthModes, Digest: digest},
		err
}

// accessDigest is the same for two definitions if they send the same credentials in the same way to the same places.
func accessDigest(p *registry.Provider) (string, error) {
	o := p.Definition.Outbound
	o.Scopes, o.RateLimit, o.Errors = nil, nil, nil
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encode a definition: %w", err)
	}
	fields, err := json.Marshal(p.Outbound.ConfigFields())
	if err != nil {
		return "", fmt.Errorf("encode the fields of a definition: %w", err)
	}
	sum := sha256.Sum256(append(text, fields...))
	return hex.EncodeToString(sum[:16]), nil
}
