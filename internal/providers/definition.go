// Package providers loads provider definitions: one YAML file for each provider, strictly read.
package providers

import "sallyport/internal/verification"

// Definition is one provider as its file describes it.
type Definition struct {
	// Schema is the version of the file format: 1.
	Schema int `yaml:"schema"`
	// Slug names the provider: [a-z0-9][a-z0-9-]{0,62}. It is the file's name without .yaml.
	Slug string `yaml:"slug"`
	// DisplayName is the provider's own spelling of its name.
	DisplayName string `yaml:"display_name"`
	// Categories group providers in the catalog; lower-case words.
	Categories []string `yaml:"categories"`
	// DocsURL is the provider's documentation, https.
	DocsURL string `yaml:"docs_url"`
	// Webhooks says how deliveries are verified and described; nil for a provider without webhooks.
	Webhooks *verification.Declaration `yaml:"webhooks"`
}

// Provider is a checked definition, ready for use.
type Provider struct {
	Definition Definition
	// Webhooks is nil for a provider without webhooks.
	Webhooks *verification.Engine
}
