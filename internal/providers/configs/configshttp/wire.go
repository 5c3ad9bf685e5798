package configshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/risk"
)

// providerConfig is the wire form of a provider configuration.
type providerConfig struct {
	// The key of the provider configuration.
	ProviderConfigKey string `json:"provider_config_key" example:"github-eu"`
	// The slug of the provider's definition.
	Provider string `json:"provider" example:"github"`
	// The environment that the provider configuration belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// A name for people; `null` if there is none.
	DisplayName *string `json:"display_name" example:"GitHub of the European unit"`
	// Your OAuth client at the provider; `null` if no connection of the provider uses one.
	OAuth httpapi.OrNull[client] `json:"oauth"`
	// The scopes that connections request by default; `null` for those of the provider's definition.
	Scopes []string `json:"scopes" nullable:"true" example:"[\"repo\"]"`
	// The base URL that replaces the one of the provider's definition; `null` if none does.
	BaseURL *string `json:"base_url" example:"https://github.example.com/api/v3"`
	// The budget of requests that replaces the one of the provider's definition; `null` if none does.
	RateLimit httpapi.OrNull[rateLimit] `json:"rate_limit"`
	// Which actions of the provider the catalog offers under this key.
	Actions offered `json:"actions"`
	// The statements of the provider configuration about the risk of actions.
	Risk overrides `json:"risk"`
	// When the provider configuration was created.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-02T09:30:00.000Z"`
	// When the provider configuration was last changed.
	UpdatedAt httpapi.Time `json:"updated_at" example:"2026-11-02T09:30:00.000Z"`
}

type offered struct {
	// The actions that are offered: patterns of names, tags after `tag:`, and methods with paths; empty for all actions.
	Include []string `json:"include" example:"[\"list_*\", \"tag:billing\"]"`
	// The actions that are left out, likewise.
	Exclude []string `json:"exclude" example:"[\"delete_*\", \"* /v1/admin/**\"]"`
}

type overrides struct {
	// The overrides. For an action the first one counts whose pattern matches its name.
	Overrides []RiskOverride `json:"overrides"`
}

// RiskOverride states the risk of actions. It is exported because only exported embedded structs are documented.
type RiskOverride struct {
	// A pattern of the names of actions, in which `*` stands for any characters.
	Action string `json:"action" minLength:"1" maxLength:"100" example:"delete_*"`
	// The level. Without `lower` it counts only where it is higher than the action's own.
	Level risk.Level `json:"level,omitempty" example:"critical"`
	// The effect of the actions on the provider's data. It counts where `level` does, and requires it.
	Operation risk.Operation `json:"operation,omitempty"`
	// Flags that are added.
	Flags []risk.Flag `json:"flags,omitempty" maxItems:"9"`
	// Why, for people; at most 200 characters.
	Reason string `json:"reason,omitempty" maxLength:"200"`
	// Whether the override may lower a level. It requires the permission `catalog:risk`. Default `false`.
	Lower bool `json:"lower,omitempty" default:"false"`
}

type client struct {
	// The client id; `null` if no client is set up.
	ClientID *string `json:"client_id" example:"Iv1.8a61f9b3a7aba766"`
	// Whether a client secret is stored.
	ClientSecretSet bool `json:"client_secret_set" example:"true"`
	// The last four characters of the client secret; `null` if it has fewer than 16.
	ClientSecretHint *string `json:"client_secret_hint" example:"9f3a"`
	// Whether a private key is stored.
	PrivateKeySet bool `json:"private_key_set" example:"false"`
	// The name of the private key at the provider; `null` if it has none.
	PrivateKeyID *string `json:"private_key_id" example:"2026-11"`
	// Hosts to which the client may be sent although a setting of a connection names them, besides those of the provider's
	// definition.
	Hosts []string `json:"hosts" example:"[\"gitlab.example.com\"]"`
	// The redirect URI, to be registered at the provider. The provider redirects browsers to it.
	RedirectURI string `json:"redirect_uri" example:"https://gateway.example.com/oauth/callback/01920000-0000-7000-8000-000000000000/github-eu"`
}

type rateLimit struct {
	// The number of requests within `per_seconds`.
	Requests int64 `json:"requests" example:"5000"`
	// The length of the time, in seconds.
	PerSeconds int64 `json:"per_seconds" example:"3600"`
}

// Change holds the writable fields of a provider configuration. It is exported because only exported embedded structs
// are documented.
type Change struct {
	// A name for people, at most 100 characters. `null`, the default for a new provider configuration, means none.
	DisplayName patch.Field[string] `json:"display_name,omitempty" minLength:"1" maxLength:"100" example:"GitHub of the European unit"`
	// Your OAuth client at the provider. Members merge: absent ones stay. `null` removes the client with its secrets. Only
	// providers whose connections use an OAuth client accept it. Another `client_id` gives the connections that have
	// tokens of the former client the status `needs_reauth`, until that one returns; another secret or key of the same
	// client interrupts nothing.
	OAuth patch.Field[ClientChange] `json:"oauth,omitempty"`
	// The scopes that connections request by default; at most 100. The default, `null`, means those of the provider's
	// definition. Only providers whose connections use an OAuth client accept it.
	Scopes patch.Field[[]string] `json:"scopes,omitempty" maxItems:"100" example:"[\"repo\"]"`
	// A base URL that replaces the one of the provider's definition: an https URL without a query and without a slash at
	// its end, on a host that the definition allows. The default, `null`, means that of the definition. A base URL on
	// another host gives connections whose credentials were given for the former one the status `needs_reauth`. Only
	// providers whose definition has an API accept it.
	BaseURL patch.Field[string] `json:"base_url,omitempty" maxLength:"2048" format:"uri" example:"https://github.example.com/api/v3"`
	// A budget of requests for each connection that replaces the one of the provider's definition. Members merge; a new
	// budget needs both. The default, `null`, means that of the definition. Only providers whose definition has an API
	// accept it.
	RateLimit patch.Field[RateLimitChange] `json:"rate_limit,omitempty"`
	// Which actions of the provider the catalog offers under this key. Members merge. The default, `null`, means all.
	Actions patch.Field[OfferedChange] `json:"actions,omitempty"`
	// Statements about the risk of actions. The default, `null`, means none.
	Risk patch.Field[RiskChange] `json:"risk,omitempty"`
}

// OfferedChange holds the writable fields of the choice of actions.
type OfferedChange struct {
	// The actions that are offered; at most 100. Each entry has one of three forms. `null` means all actions:
	// - a pattern of names, in which `*` stands for any characters: `list_*`.
	// - `tag:` and a tag, in any case and with `*` likewise: `tag:billing`.
	// - a method, or `*` for any, and a path: `GET /v1/invoices/**`. Its segment `**` stands for any number of segments,
	//   also for none, and `*` for any characters of one; the names of parameters do not matter.
	Include patch.Field[[]string] `json:"include,omitempty" maxItems:"100" example:"[\"list_*\", \"tag:billing\"]"`
	// The actions that are left out, in the forms of `include`; at most 100. `null` means none.
	Exclude patch.Field[[]string] `json:"exclude,omitempty" maxItems:"100" example:"[\"delete_*\", \"* /v1/admin/**\"]"`
}

// RiskChange holds the writable fields of overrides of risk.
type RiskChange struct {
	// The overrides, at most 200; the list is replaced as a whole. For an action the first one counts whose pattern
	// matches its name. `null` means none. Overrides that may lower a level require the permission `catalog:risk`.
	Overrides patch.Field[[]RiskOverride] `json:"overrides,omitempty" maxItems:"200"`
}

// ClientChange holds the writable fields of an OAuth client.
type ClientChange struct {
	// The client id from the provider, at most 512 ASCII characters. `null` removes the client with its secrets.
	ClientID patch.Field[string] `json:"client_id,omitempty" minLength:"1" maxLength:"512" example:"Iv1.8a61f9b3a7aba766"`
	// The client secret from the provider, at most 4096 ASCII characters. It replaces the stored one without
	// a gap. `null`, the default, means none. It is never returned.
	ClientSecret patch.Field[secretbox.Secret] `json:"client_secret,omitempty" minLength:"1" maxLength:"4096" format:"password" writeOnly:"true" example:"a-secret-of-the-provider"`
	// The private key with which the client signs, such as that of a GitHub App: one key in PEM without a passphrase, at
	// most 16384 bytes. `null`, the default, means none. It is never returned.
	PrivateKey patch.Field[secretbox.Secret] `json:"private_key,omitempty" minLength:"1" maxLength:"16384" format:"password" writeOnly:"true"`
	// The name that the provider has for the private key, at most 255 ASCII characters. Signatures with the key carry it
	// as `kid` (RFC 7515). Authorization servers that have several keys of a client require it. It goes with
	// `private_key`: a new key under another name needs both. `null`, the default, means none.
	PrivateKeyID patch.Field[string] `json:"private_key_id,omitempty" minLength:"1" maxLength:"255" example:"2026-11"`
	// Hosts to which the client may be sent although a setting of a connection names them, such as that of a self-managed
	// instance; at most 20. Each is a name in lower case, with its port unless that is 443. The hosts that the provider's
	// definition names need not be listed, unless an import has made the definition: `client` of the provider in the
	// catalog names the hosts. A client without `client_secret` and `private_key` needs none. Stored secrets
	// have to be given again together with further hosts. The default, `null`, means none.
	Hosts patch.Field[[]string] `json:"hosts,omitempty" maxItems:"20" example:"[\"gitlab.example.com\"]"`
}

// RateLimitChange holds the writable fields of a rate limit.
type RateLimitChange struct {
	// The number of requests within `per_seconds`: 1 to 1000000.
	Requests patch.Optional[int64] `json:"requests,omitempty" minimum:"1" maximum:"1000000" example:"5000"`
	// The length of the time in seconds: 1 to 86400.
	PerSeconds patch.Optional[int64] `json:"per_seconds,omitempty" minimum:"1" maximum:"86400" example:"3600"`
}

// creation is the body that creates a provider configuration.
type creation struct {
	httpapi.RuleLimits
	// The slug of the provider's definition. It never changes.
	Provider string `json:"provider" maxLength:"63" example:"github"`
	// The key of the provider configuration, unique in the environment. It never changes. It is not the slug of another
	// provider. Default: the provider's slug.
	ProviderConfigKey patch.Optional[string] `json:"provider_config_key,omitempty" maxLength:"63" pattern:"^[a-z0-9][a-z0-9-]{0,62}$" example:"github-eu"`
	Change
}

// Patch is the body of PATCH. It is exported because only exported embedded structs are documented.
type Patch struct {
	httpapi.RuleLimits
	Change
}

func (b *creation) domain() configs.NewConfig {
	return configs.NewConfig{Provider: b.Provider, Key: b.ProviderConfigKey.Pointer(), Change: b.Change.domain()}
}

func (b *Change) domain() configs.Change {
	out := configs.Change{DisplayName: b.DisplayName, ClientID: b.OAuth.Value.ClientID,
		ClientSecret: b.OAuth.Value.ClientSecret, PrivateKey: b.OAuth.Value.PrivateKey, KeyID: b.OAuth.Value.PrivateKeyID,
		ClientHosts: b.OAuth.Value.Hosts,
		Scopes:      b.Scopes, BaseURL: b.BaseURL, RateLimit: patch.Field[configs.RateLimitChange]{
			Set: b.RateLimit.Set, Null: b.RateLimit.Null,
			Value: configs.RateLimitChange(b.RateLimit.Value)}}
	if b.OAuth.Set && b.OAuth.Null {
		out.ClientID = patch.Clear[string]()
	}
	out.Include, out.Exclude = b.Actions.Value.Include, b.Actions.Value.Exclude
	if b.Actions.Set && b.Actions.Null {
		out.Include, out.Exclude = patch.Clear[[]string](), patch.Clear[[]string]()
	}
	given := b.Risk.Value.Overrides
	out.Risk = patch.Field[[]configs.RiskOverride]{Set: given.Set || b.Risk.Set && b.Risk.Null,
		Null: given.Null || b.Risk.Null}
	for _, o := range given.Value {
		out.Risk.Value = append(out.Risk.Value, configs.RiskOverride(o))
	}
	return out
}

func (h *handlers) view(c *configs.Config) providerConfig {
	out := providerConfig{
		ProviderConfigKey: c.Key, Provider: c.Provider, EnvironmentID: string(c.Environment),
		DisplayName: httpapi.NullIfEmpty(c.DisplayName), Scopes: c.Scopes, BaseURL: httpapi.NullIfEmpty(c.BaseURL),
		RateLimit: httpapi.OrNull[rateLimit]{Value: (*rateLimit)(c.RateLimit)},
		Actions:   offered{Include: append([]string{}, c.Include...), Exclude: append([]string{}, c.Exclude...)},
		Risk:      overrides{Overrides: []RiskOverride{}},
		CreatedAt: httpapi.Time(c.CreatedAt), UpdatedAt: httpapi.Time(c.UpdatedAt),
	}
	for _, o := range c.Risk {
		out.Risk.Overrides = append(out.Risk.Overrides, RiskOverride(o))
	}
	if c.ClientID != "" || h.svc.UsesClient(c.Environment, c.Provider) {
		out.OAuth.Value = &client{ClientID: httpapi.NullIfEmpty(c.ClientID), ClientSecretSet: c.HasSecret(),
			ClientSecretHint: httpapi.NullIfEmpty(c.SecretHint), PrivateKeySet: c.HasPrivateKey(),
			PrivateKeyID: httpapi.NullIfEmpty(c.KeyID),
			Hosts:        append([]string{}, c.ClientHosts...),
			RedirectURI:  configs.RedirectURI(h.publicURL, c.Environment, c.Key)}
	}
	return out
}
