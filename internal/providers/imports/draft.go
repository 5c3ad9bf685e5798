package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// draft makes a definition of what a document says about servers and security.
func (r *reader) draft(document *documents.Document) ([]byte, Access, error) {
	source, _, _ := strings.Cut(r.m.URL, "?") // which may have a secret
	if err := r.checkProbe(); err != nil {
		return nil, Access{}, err
	}
	var headers []documents.Header
	for _, text := range r.m.Headers {
		h, _ := documents.ReadHeader(text) // as it was checked when it was ordered
		headers = append(headers, h)
	}
	d, err := document.Draft(documents.DraftOptions{Slug: r.m.Slug, DisplayName: r.m.DisplayName, BaseURL: r.m.BaseURL,
		Headers: headers, Probe: r.m.Probe, Source: source})
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
	return d.Definition, Access{Headers: r.m.Headers, Probe: r.m.Probe, Hosts: d.Hosts,
			TokenEndpoints: d.TokenEndpoints, AuthModes: d.AuthModes, Digest: digest},
		err
}

// checkProbe checks that the probe is an action of the import that needs no input.
func (r *reader) checkProbe() error {
	switch {
	case r.m.Probe == "" || r.probe != nil && len(r.probe.needs) == 0:
		return nil
	case r.probe == nil:
		return &refusal{FailedProvider, "the probe GET " + r.m.Probe + " is no action of the import"}
	default:
		return &refusal{FailedProvider, "the probe GET " + r.m.Probe + " needs inputs, which a test of a connection has " +
			"none of: " + strings.Join(r.probe.needs, ", ")}
	}
}

// probe is the action with which connections are tested.
type probe struct{ needs []string }

// noteProbe notes an action that is the probe.
func (r *reader) noteProbe(a *actions.Action) error {
	if r.m.Probe == "" || a.Method != http.MethodGet || a.Path != r.m.Probe {
		return nil
	}
	var input struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(a.Input, &input); err != nil {
		return fmt.Errorf("read the input of the probe: %w", err)
	}
	r.probe = &probe{input.Required}
	return nil
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
