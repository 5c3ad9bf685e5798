package registry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// Definition is one provider as its file describes it.
type Definition struct {
	// Schema is the version of the file format: 1.
	Schema int `yaml:"schema"`
	// Slug names the provider: [a-z0-9] and single hyphens between them, at most 63 bytes. It is the file's name without
	// .yaml, and the default key of the provider's configurations.
	Slug string `yaml:"slug"`
	// DisplayName is the provider's own spelling of its name.
	DisplayName string `yaml:"display_name"`
	// Aliases are other names under which people look for the provider, such as that of a product of it or of software
	// that sends the same webhooks. They are only suggested: as Slug, and none is the slug of another definition.
	Aliases []string `yaml:"aliases"`
	// Categories group providers in the catalog; lower-case words joined by hyphens.
	Categories []string `yaml:"categories"`
	// DocsURL is the documentation that the definition was written from; https. Only a definition that an import has made
	// may have none.
	DocsURL string `yaml:"docs_url"`
	// ReplacesBuiltin lets an operator's definition replace a built-in one with the same slug, now or in a later release.
	// Without it such a definition is rejected.
	ReplacesBuiltin bool `yaml:"replaces_builtin"`
	// Evidence is the source of Webhooks. Only definitions with webhooks have it, and all built-in ones do.
	Evidence *Evidence `yaml:"evidence"`
	// Webhooks defines the verification and description of webhooks; nil for a provider without webhooks.
	Webhooks *verification.Declaration `yaml:"webhooks"`
	// Outbound defines requests to the provider: its fields are those of the file, from connection_config to errors. It is
	// empty for a provider without them.
	Outbound outbound.Declaration `yaml:",inline"`
	// Calls defines actions: its fields are those of the file from pagination to risk. It is empty once the definition is
	// loaded; Provider has what came of it.
	Calls declared.Declaration `yaml:",inline"`
}

const (
	schemaVersion  = 1
	maxDisplayName = 80
	maxCategories  = 8
	maxSetupBytes  = 8 << 10
)

// Reserved reports whether a name cannot be a provider's slug or the key of a provider configuration. The paths of the
// API use it in place of such a key, or it is the provider of events that no provider has sent.
func Reserved(name string) bool {
	switch name {
	case "executions", "execute", "execute-async", "await-webhook", "imports", "sallyport":
		return true
	default:
		return false
	}
}

var word = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// report takes down what is wrong with a field.
type report func(field, message string)

// check reports the problems of a definition, except for its webhooks, which the engine checks. builtin are the
// built-in definitions for an operator's one, and nil for a built-in one.
func (d *Definition) check(stem string, builtin *Registry, wrong report) {
	if d.Schema != schemaVersion {
		wrong("schema", "must be 1")
	}
	switch {
	case len(d.Slug) > 63 || !word.MatchString(d.Slug):
		wrong("slug", "must be lower-case letters, digits and single hyphens between them, at most 63 bytes")
	case Reserved(d.Slug):
		wrong("slug", "is reserved for the API's own use")
	case d.Slug != stem:
		wrong("slug", "must be the file's name without .yaml")
	case builtin != nil && builtin.bySlug[d.Slug] != nil && !d.ReplacesBuiltin:
		wrong("slug", "is that of a definition that ships; choose another, or state replaces_builtin: true to have this "+
			"one in its place")
	}
	if builtin == nil && d.ReplacesBuiltin {
		wrong("replaces_builtin", "has no meaning in a definition that ships")
	}
	if strings.TrimSpace(d.DisplayName) != d.DisplayName || d.DisplayName == "" ||
		utf8.RuneCountInString(d.DisplayName) > maxDisplayName {
		wrong("display_name", "must be 1 to 80 characters without spaces around them")
	}
	d.checkAliases(builtin, wrong)
	if len(d.Categories) == 0 || len(d.Categories) > maxCategories {
		wrong("categories", "needs 1 to 8 entries")
	}
	for i, category := range d.Categories {
		if !word.MatchString(category) || slices.Index(d.Categories, category) != i {
			wrong("categories", "must be different lower-case words joined by hyphens")
			break
		}
	}
	if d.Evidence != nil {
		d.Evidence.check(wrong)
		if d.Webhooks == nil {
			wrong("evidence", "describes the check of webhooks, but there is no webhooks section")
		}
	}
	if d.Webhooks != nil {
		if setup := d.Webhooks.Setup; strings.TrimSpace(setup) == "" || len(setup) > maxSetupBytes {
			wrong("webhooks.setup", "must explain how to set the webhook up at the provider, in at most 8 KiB")
		}
	}
}

// maxAliases bounds the other names of a provider.
const maxAliases = 16

func (d *Definition) checkAliases(builtin *Registry, wrong report) {
	if len(d.Aliases) > maxAliases {
		wrong("aliases", fmt.Sprintf("has more than %d entries", maxAliases))
	}
	for i, alias := range d.Aliases {
		field := fmt.Sprintf("aliases[%d]", i)
		switch {
		case len(alias) > 63 || !word.MatchString(alias):
			wrong(field, "must be lower-case letters, digits and single hyphens between them, at most 63 bytes")
		case alias == d.Slug || slices.Index(d.Aliases, alias) != i:
			wrong(field, "is listed twice or the slug")
		case builtin != nil && builtin.bySlug[alias] != nil:
			wrong(field, "is the slug of a definition that ships")
		}
	}
}
