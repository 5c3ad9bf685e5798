// Package catalog says what can be done at the providers of an environment: it lists, searches and describes their
// actions, those that ship and those of imports alike. See README.md.
package catalog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/platform/turnstile"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/registry"
)

// Definitions are the definitions of environments. *imports.Definitions implements it.
type Definitions interface {
	Find(env id.Environment, slug string) (*registry.Provider, bool)
	All(env id.Environment) []*registry.Provider
	// Versions returns the active imports of an environment, by the slugs of their providers.
	Versions(env id.Environment) map[string]*imports.Version
}

// Imports reads the actions of imports. *imports.Service implements it.
type Imports interface {
	Index(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error)
	Action(ctx context.Context, env id.Environment, importID string, number int) (*actions.Action, error)
}

// Configs resolves the keys of provider configurations. *configs.Service implements it.
type Configs interface {
	Resolve(ctx context.Context, env id.Environment, key string) (*configs.Config, bool, error)
	// Known returns the stored configurations of an environment, by their keys. The map is shared.
	Known(ctx context.Context, env id.Environment) (map[string]*configs.Config, error)
}

// Config holds what a Service is made from.
type Config struct {
	Definitions Definitions
	Imports     Imports
	Configs     Configs
	Logger      *slog.Logger
}

const (
	// searches is how many searches run at a time, and searchesEach how many of one environment: each takes a core.
	searches, searchesEach = 2, 1
	// searchWait is how long a search waits for its turn.
	searchWait = 2 * time.Second
)

// Service describes actions. It is safe for concurrent use.
type Service struct {
	cfg       Config
	installed installedIndexes
	searching *turnstile.Gate
	searcher  *fulltext.Searcher
	// read are actions of imports, so that calls need not wait for the database. A version of an import never changes.
	read cache.Cache[importedAction, *actions.Action]

	overlapping sync.Mutex
	// overlaps are how many actions an import adds to those of a definition.
	overlaps map[overlap]int
}

// New returns a Service that has read nothing yet.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, searcher: fulltext.NewSearcher(), searching: turnstile.New(searches, searchesEach,
		searchWait, "Too many searches run at this moment; retry"),
		read: cache.Cache[importedAction, *actions.Action]{Max: maxRead}}
}

// Origin is where a provider's definition and actions come from.
type Origin string

// The origins.
const (
	Builtin Origin = "builtin"
	Manual  Origin = "manual"
	OpenAPI Origin = "openapi"
)

// Origins returns every origin.
func Origins() []Origin { return []Origin{Builtin, Manual, OpenAPI} }

func originOf(p *registry.Provider) Origin {
	switch p.Source {
	case registry.SourceFolder:
		return Manual
	case registry.SourceImport:
		return OpenAPI
	default:
		return Builtin
	}
}

// Provider is a provider as an environment has it.
type Provider struct {
	*registry.Provider
	// Keys are the keys of its provider configurations, sorted; its slug is among them unless a configuration of another
	// provider has that key.
	Keys []string
	// Configured reports that a configuration is stored.
	Configured bool
	Origin     Origin
	// Import is the id of the active import that defines or extends the provider; empty if there is none.
	Import string
	// Actions is how many there are.
	Actions int

	config *configs.Config // nil in lists
}

// OAuthClient is the OAuth client of a provider configuration, for one mode.
type OAuthClient struct {
	// Configured reports that there is one.
	Configured bool
	// HostsRequired reports that the secrets of a client go to hosts that its oauth.hosts has to list: the provider is of
	// an import, or settings of connections choose them.
	HostsRequired bool
	// Hosts are these, as far as they are the same for all connections, and Missing those that are not listed.
	Hosts, Missing []string
}

// OAuthClient returns what a mode needs of the OAuth client of the provider configuration; nil if it needs none.
func (p *Provider) OAuthClient(mode string) *OAuthClient {
	if p.Outbound == nil || p.config == nil {
		return nil
	}
	if m, ok := p.Outbound.Mode(mode); !ok || !m.Client {
		return nil
	}
	out := &OAuthClient{Configured: p.config.ClientID != ""}
	out.Hosts, out.HostsRequired = p.ClientHosts(mode)
	for _, host := range out.Hosts {
		if !out.Configured && !slices.Contains(p.config.ClientHosts, host) || p.config.Withholds([]string{host}) != "" {
			out.Missing = append(out.Missing, host)
		}
	}
	return out
}

// Filter narrows the list of providers. An empty field matches everything.
type Filter struct {
	// Search is text: every word must be part of a provider's name, of one of its categories, or of a word for it.
	Search     string
	Categories []string
	// AuthModes are kinds of authentication, such as oauth2.
	AuthModes []string
	Origins   []Origin
}

// List returns the providers of an environment that the filter matches, sorted by slug.
func (s *Service) List(ctx context.Context, env id.Environment, f Filter) ([]Provider, error) {
	known, err := s.cfg.Configs.Known(ctx, env)
	if err != nil {
		return nil, err
	}
	out := []Provider{}
	for _, p := range s.cfg.Definitions.All(env) {
		if !f.matches(p) {
			continue
		}
		described, err := s.describe(ctx, env, p, known)
		if err != nil {
			return nil, err
		}
		out = append(out, *described)
	}
	return out, nil
}

func (f *Filter) matches(p *registry.Provider) bool {
	d := &p.Definition
	if len(f.Categories) > 0 && !slices.ContainsFunc(d.Categories, func(c string) bool {
		return slices.Contains(f.Categories, c)
	}) {
		return false
	}
	if len(f.Origins) > 0 && !slices.Contains(f.Origins, originOf(p)) {
		return false
	}
	if len(f.AuthModes) > 0 && !slices.ContainsFunc(authModes(p), func(mode string) bool {
		return slices.Contains(f.AuthModes, mode)
	}) {
		return false
	}
	text := strings.ToLower(strings.Join(slices.Concat([]string{d.Slug, d.DisplayName}, d.Aliases, d.Categories), " "))
	for _, word := range strings.Fields(strings.ToLower(f.Search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// authModes returns the kinds of authentication of a provider, each once.
func authModes(p *registry.Provider) []string {
	if p.Outbound == nil {
		return nil
	}
	var kinds []string
	for _, m := range p.Outbound.Modes() {
		if !slices.Contains(kinds, string(m.Kind)) {
			kinds = append(kinds, string(m.Kind))
		}
	}
	return kinds
}

// AuthModes returns the kinds of authentication of the provider.
func (p *Provider) AuthModes() []string { return authModes(p.Provider) }

// Version identifies the provider's actions: two that differ have different versions. An import that only adds actions
// has those of the definition as well, which change by themselves.
func (p *Provider) Version() string {
	switch {
	case p.Import == "":
		return p.Sum()
	case p.Origin == OpenAPI:
		return p.Import
	default:
		return p.Sum() + "-" + p.Import
	}
}

func (s *Service) describe(ctx context.Context, env id.Environment, p *registry.Provider,
	known map[string]*configs.Config) (*Provider, error) {
	slug := p.Definition.Slug
	out := &Provider{Provider: p, Origin: originOf(p), Keys: []string{}}
	if c := known[slug]; c == nil {
		out.Keys = append(out.Keys, slug)
	}
	for key, c := range known {
		if c.Provider == slug {
			out.Keys, out.Configured = append(out.Keys, key), true
		}
	}
	slices.Sort(out.Keys)
	out.Actions = len(p.Actions)
	if v := s.cfg.Definitions.Versions(env)[slug]; v != nil {
		out.Import = v.Import
		n, err := s.further(ctx, env, p, v)
		if err != nil {
			return nil, err
		}
		out.Actions += n
	}
	return out, nil
}

// further counts the actions of an import that the definition does not have.
func (s *Service) further(ctx context.Context, env id.Environment, p *registry.Provider,
	v *imports.Version) (int, error) {
	if len(p.Actions) == 0 {
		return v.Actions, nil
	}
	key := overlap{v.Import, p}
	s.overlapping.Lock()
	n, known := s.overlaps[key]
	s.overlapping.Unlock()
	if known {
		return n, nil
	}
	index, err := s.indexOf(ctx, env, v.Import)
	if err != nil || index == nil {
		return 0, err
	}
	n = index.Len()
	for _, a := range p.Actions {
		if _, both := index.Find(a.Name); both {
			n--
		}
	}
	s.overlapping.Lock()
	defer s.overlapping.Unlock()
	if s.overlaps == nil || len(s.overlaps) >= maxOverlaps { // they are counted again where they are needed
		s.overlaps = map[overlap]int{}
	}
	s.overlaps[key] = n
	return n, nil
}

// overlap is an import, and the definition that it adds actions to.
type overlap struct {
	importID string
	provider *registry.Provider
}

// maxOverlaps is how many counts are in memory.
const maxOverlaps = 1000

// Get returns the provider of a configuration's key, and its actions.
//
// Errors: provider_not_found.
func (s *Service) Get(ctx context.Context, env id.Environment, key string) (*Provider, *Actions, error) {
	set, err := s.resolve(ctx, env, key)
	if err != nil {
		return nil, nil, err
	}
	known, err := s.cfg.Configs.Known(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	p, err := s.describe(ctx, env, set.provider, known)
	if err != nil {
		return nil, nil, err
	}
	p.config = set.config
	p.Actions = set.len()
	return p, set, nil
}

// resolve returns the actions of a configuration's key.
func (s *Service) resolve(ctx context.Context, env id.Environment, key string) (*Actions, error) {
	config, ok, err := s.cfg.Configs.Resolve(ctx, env, key)
	if err != nil {
		return nil, err
	}
	var p *registry.Provider
	if ok {
		p, ok = s.cfg.Definitions.Find(env, config.Provider)
	}
	if !ok {
		return nil, s.providerNotFound(ctx, env, key)
	}
	set, err := s.actionsOf(ctx, env, p)
	if err != nil {
		return nil, err
	}
	set.key, set.config = key, config
	return set, nil
}

// Knows returns provider_not_found unless the environment has a provider configuration of the key.
func (s *Service) Knows(ctx context.Context, env id.Environment, key string) error {
	config, ok, err := s.cfg.Configs.Resolve(ctx, env, key)
	if err != nil {
		return err
	}
	if ok {
		if _, ok = s.cfg.Definitions.Find(env, config.Provider); ok {
			return nil
		}
	}
	return s.providerNotFound(ctx, env, key)
}

func (s *Service) providerNotFound(ctx context.Context, env id.Environment, key string) error {
	const message = "The environment has no provider with this key"
	if !configs.ValidKey(strings.ToLower(key)) {
		return apperr.New(apperr.CodeProviderNotFound, message)
	}
	var names []string
	aliases := map[string]string{}
	for _, p := range s.cfg.Definitions.All(env) {
		names = append(names, p.Definition.Slug)
		for _, alias := range p.Definition.Aliases {
			aliases[alias] = p.Definition.Slug
		}
	}
	if known, err := s.cfg.Configs.Known(ctx, env); err == nil { // a suggestion is not worth an error
		names = append(names, slices.Sorted(maps.Keys(known))...)
	}
	return apperr.New(apperr.CodeProviderNotFound, message+suggest.Question(key, names, aliases))
}
