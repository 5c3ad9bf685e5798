package registry

import (
	"encoding/hex"

	"sallyport/internal/providers/outbound"
)

// Import checks a definition that was made from a description of an API. It belongs to one environment, and may have
// the slug of any definition.
func Import(slug string, text []byte) (*Provider, error) {
	p, problems := parse(definitionFile{name: slug + extension, data: text, imported: true}, new(Registry))
	if len(problems) > 0 {
		return nil, newLoadError(problems)
	}
	p.Source = SourceImport
	if p.Outbound != nil {
		p.Outbound = outbound.Foreign(p.Outbound)
	}
	return p, nil
}

// ClientHosts says where the OAuth client of a mode goes only if its provider configuration permits it, as
// outbound.ClientHosts does. The provider has an API.
func (p *Provider) ClientHosts(mode string) (hosts []string, required bool) {
	return outbound.ClientHosts(p.Outbound, mode)
}

// ValidSlug reports whether a text has the form of a provider's slug.
func ValidSlug(text string) bool { return len(text) <= 63 && word.MatchString(text) && !Reserved(text) }

// Sum identifies the file of the definition: 16 hexadecimal digits of a hash of it.
func (p *Provider) Sum() string { return hex.EncodeToString(p.sum[:8]) }
