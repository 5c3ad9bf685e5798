package operator

import (
	"context"
	"log/slog"

	"sallyport/internal/app"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
)

// ProviderConfig is a provider configuration without its secrets, in the form of the API.
type ProviderConfig struct {
	Key           string           `json:"provider_config_key"`
	Provider      string           `json:"provider"`
	EnvironmentID string           `json:"environment_id"`
	DisplayName   *string          `json:"display_name"`
	OAuth         *OAuthClient     `json:"oauth"`
	Scopes        []string         `json:"scopes"`
	BaseURL       *string          `json:"base_url"`
	RateLimit     *ConfigRateLimit `json:"rate_limit"`
	CreatedAt     httpapi.Time     `json:"created_at"`
	UpdatedAt     httpapi.Time     `json:"updated_at"`
}

// OAuthClient is the client of a ProviderConfig.
type OAuthClient struct {
	ClientID    *string  `json:"client_id"`
	SecretSet   bool     `json:"client_secret_set"`
	SecretHint  *string  `json:"client_secret_hint"`
	KeySet      bool     `json:"private_key_set"`
	KeyID       *string  `json:"private_key_id"`
	Hosts       []string `json:"hosts"`
	RedirectURI string   `json:"redirect_uri"`
}

// ConfigRateLimit is the budget of a ProviderConfig.
type ConfigRateLimit struct {
	Requests   int64 `json:"requests"`
	PerSeconds int64 `json:"per_seconds"`
}

// MaxPrivateKey is the most bytes that a private key may have.
const MaxPrivateKey = configs.MaxPrivateKey

// ConfigSettings are the settings of a ProviderConfig to set and to clear. Those that are nil stay.
type ConfigSettings struct {
	DisplayName, ClientID, KeyID, BaseURL *string
	ClientSecret, PrivateKey              *secretbox.Secret
	Scopes, ClientHosts                   []string
	// Requests and PerSeconds are the rate limit.
	Requests, PerSeconds *int64
	// Clear names settings: display_name, oauth, client_secret, private_key,
	// private_key_id, oauth_hosts, scopes, base_url and rate_limit.
	Clear []string
}

// clearing returns how each setting that can be cleared is.
func clearing() map[string]func(*configs.Change) {
	return map[string]func(*configs.Change){
		"display_name":   func(c *configs.Change) { c.DisplayName = patch.Clear[string]() },
		"oauth":          func(c *configs.Change) { c.ClientID = patch.Clear[string]() },
		"client_secret":  func(c *configs.Change) { c.ClientSecret = patch.Clear[secretbox.Secret]() },
		"private_key":    func(c *configs.Change) { c.PrivateKey = patch.Clear[secretbox.Secret]() },
		"private_key_id": func(c *configs.Change) { c.KeyID = patch.Clear[string]() },
		"oauth_hosts":    func(c *configs.Change) { c.ClientHosts = patch.Clear[[]string]() },
		"scopes":         func(c *configs.Change) { c.Scopes = patch.Clear[[]string]() },
		"base_url":       func(c *configs.Change) { c.BaseURL = patch.Clear[string]() },
		"rate_limit":     func(c *configs.Change) { c.RateLimit = patch.Clear[configs.RateLimitChange]() },
	}
}

func (s *ConfigSettings) change() configs.Change {
	ch := configs.Change{DisplayName: given(s.DisplayName), ClientID: given(s.ClientID), BaseURL: given(s.BaseURL),
		ClientSecret: given(s.ClientSecret), PrivateKey: given(s.PrivateKey), KeyID: given(s.KeyID)}
	if s.ClientHosts != nil {
		ch.ClientHosts = patch.To(s.ClientHosts)
	}
	if s.Scopes != nil {
		ch.Scopes = patch.To(s.Scopes)
	}
	if s.Requests != nil || s.PerSeconds != nil {
		var r configs.RateLimitChange
		if s.Requests != nil {
			r.Requests = patch.Some(*s.Requests)
		}
		if s.PerSeconds != nil {
			r.PerSeconds = patch.Some(*s.PerSeconds)
		}
		ch.RateLimit = patch.To(r)
	}
	for _, name := range s.Clear {
		if reset, ok := clearing()[name]; ok {
			reset(&ch)
		}
	}
	return ch
}

func given[T any](v *T) patch.Field[T] {
	if v == nil {
		return patch.Field[T]{}
	}
	return patch.To(*v)
}

// ProviderConfigs works on the provider configurations of one environment, next to a server that may be running.
type ProviderConfigs struct {
	site
	svc       *configs.Service
	publicURL string
}

// WithProviderConfigs calls fn with the provider configurations of the environment with that id or name.
func (s *Store) WithProviderConfigs(ctx context.Context, cfg *config.Config, environment string, log *slog.Logger,
	fn func(*ProviderConfigs) error) error {
	return s.withSite(ctx, cfg, environment, log, func(at site) error {
		return fn(&ProviderConfigs{site: at, svc: at.configs, publicURL: cfg.PublicURL})
	})
}

// List returns every configuration of the providers, or of any if none is given, whose key begins with the prefix;
// newest first.
func (p *ProviderConfigs) List(ctx context.Context, providers []string, prefix string) ([]ProviderConfig, error) {
	f := configs.Filter{Providers: providers, Prefix: prefix}
	out := []ProviderConfig{}
	r := page.Request{Limit: page.MaxLimit}
	for {
		rows, err := p.svc.List(ctx, p.actor.Environment, f, r)
		if err != nil {
			return nil, err
		}
		more := len(rows) > r.Limit
		rows = rows[:min(len(rows), r.Limit)]
		for i := range rows {
			out = append(out, p.view(&rows[i]))
		}
		if !more {
			return out, nil
		}
		r.After = rows[len(rows)-1].ID
	}
}

// Get returns the configuration of a key.
func (p *ProviderConfigs) Get(ctx context.Context, key string) (ProviderConfig, error) {
	return p.shown(p.svc.Get(ctx, p.actor.Environment, key))
}

// Create stores a configuration of a provider. Without a key it gets the provider's slug.
func (p *ProviderConfigs) Create(ctx context.Context, provider string, key *string,
	set ConfigSettings) (ProviderConfig, error) {
	if err := p.providers.CheckSkipped(provider); err != nil {
		return ProviderConfig{}, err
	}
	return p.shown(p.svc.Create(ctx, p.actor, configs.NewConfig{Key: key, Provider: provider, Change: set.change()}))
}

// Update changes the configuration of a key.
func (p *ProviderConfigs) Update(ctx context.Context, key string, set ConfigSettings) (ProviderConfig, error) {
	c, err := p.svc.Get(ctx, p.actor.Environment, key)
	if err == nil {
		err = p.providers.CheckSkipped(c.Provider)
	}
	if err != nil {
		return ProviderConfig{}, err
	}
	return p.shown(p.svc.Update(ctx, p.actor, key, set.change()))
}

// Unusable returns how many connections have tokens that a change of the configuration makes useless, because they
// belong to the OAuth client that it replaces or removes.
func (p *ProviderConfigs) Unusable(ctx context.Context, key string, set ConfigSettings) (int, error) {
	c, err := p.svc.Get(ctx, p.actor.Environment, key)
	if err != nil {
		return 0, err
	}
	ch := set.change()
	if c.ClientID == "" || ch.ClientID.Or(c.ClientID, "") == c.ClientID {
		return 0, nil
	}
	return connections.CountOfClient(ctx, p.db.Read(), p.actor.Environment, key, app.ClientModes(p.definitions,
		c.Environment, c.Provider))
}

// Delete removes the configuration of a key.
func (p *ProviderConfigs) Delete(ctx context.Context, key string) error {
	return p.svc.Delete(ctx, p.actor, key)
}

func (p *ProviderConfigs) shown(c configs.Config, err error) (ProviderConfig, error) {
	if err != nil {
		return ProviderConfig{}, err
	}
	return p.view(&c), nil
}

func (p *ProviderConfigs) view(c *configs.Config) ProviderConfig {
	out := ProviderConfig{Key: c.Key, Provider: c.Provider, EnvironmentID: string(c.Environment),
		DisplayName: httpapi.NullIfEmpty(c.DisplayName), Scopes: c.Scopes, BaseURL: httpapi.NullIfEmpty(c.BaseURL),
		RateLimit: (*ConfigRateLimit)(c.RateLimit), CreatedAt: httpapi.Time(c.CreatedAt),
		UpdatedAt: httpapi.Time(c.UpdatedAt)}
	if c.ClientID != "" || p.svc.UsesClient(c.Environment, c.Provider) {
		out.OAuth = &OAuthClient{ClientID: httpapi.NullIfEmpty(c.ClientID), SecretSet: c.HasSecret(),
			SecretHint: httpapi.NullIfEmpty(c.SecretHint), KeySet: c.HasPrivateKey(), KeyID: httpapi.NullIfEmpty(c.KeyID),
			Hosts:       append([]string{}, c.ClientHosts...),
			RedirectURI: configs.RedirectURI(p.publicURL, c.Environment, c.Key)}
	}
	return out
}
