package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/terminal"
)

type providerConfigsCommand struct {
	List   providerConfigsList   `cmd:"" help:"List provider configurations."`
	Show   providerConfigsShow   `cmd:"" help:"Show a provider configuration, without its secrets."`
	Create providerConfigsCreate `cmd:"" help:"Create a provider configuration: your own settings of a provider, such as your OAuth client."`
	Update providerConfigsUpdate `cmd:"" help:"Change a provider configuration. A new client secret replaces the old one without a gap."`
	Delete providerConfigsDelete `cmd:"" help:"Delete a provider configuration that no connection belongs to, and its secrets."`
}

// configFlags are the flags of every command on provider configurations.
type configFlags struct {
	Environment string `required:"" placeholder:"ID|NAME" help:"The environment of the provider configuration."`
	JSON        bool   `name:"json" help:"Print JSON, as in the API."`
}

// with calls fn with the provider configurations of the environment.
func (f configFlags) with(ctx context.Context, e *env, fn func(*operator.ProviderConfigs) error) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		return s.WithProviderConfigs(ctx, e.cfg, f.Environment, e.logger(), func(p *operator.ProviderConfigs) error {
			for _, problem := range p.Skipped() {
				e.note("warning: this definition is invalid and left out: %s", visible(problem.String()))
			}
			return fn(p)
		})
	})
}

// print prints a provider configuration.
func (f configFlags) print(e *env, c operator.ProviderConfig, err error) error {
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(e.stdout, c)
	}
	fields := [][2]string{{"Key", c.Key}, {"Provider", c.Provider}, {"Name", value(c.DisplayName)}}
	if o := c.OAuth; o != nil {
		fields = append(fields, [][2]string{{"Client id", value(o.ClientID)}, {"Client secret", storedSecret(o.SecretSet,
			o.SecretHint)}, {"Private key", storedSecret(o.KeySet, nil)}, {"Private key id", value(o.KeyID)}, {"Client hosts",
			strings.Join(o.Hosts, " ")}, {"Redirect URI", o.RedirectURI}}...)
	}
	rate := ""
	if r := c.RateLimit; r != nil {
		rate = fmt.Sprintf("%d per %d seconds", r.Requests, r.PerSeconds)
	}
	return e.printFields(append(fields, [][2]string{{"Scopes", strings.Join(c.Scopes, " ")}, {"Base URL",
		value(c.BaseURL)}, {"Rate limit", rate}, {"Created", clock.Wire(time.Time(c.CreatedAt))},
		{"Updated", clock.Wire(time.Time(c.UpdatedAt))}}...))
}

func storedSecret(stored bool, hint *string) string {
	switch {
	case !stored:
		return ""
	case hint != nil:
		return "…" + *hint
	default:
		return "stored"
	}
}

type providerConfigsList struct {
	Provider []string `placeholder:"SLUG" help:"Only configurations of these providers."`
	Q        string   `name:"q" placeholder:"PREFIX" help:"Only configurations with keys that begin with this text."`
	configFlags
}

// Run lists the provider configurations.
func (c *providerConfigsList) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(p *operator.ProviderConfigs) error {
		list, err := p.List(ctx, c.Provider, c.Q)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, list)
		}
		t := e.table(terminal.Column{Title: "KEY", Fixed: true}, terminal.Column{Title: "PROVIDER", Fixed: true},
			terminal.Column{Title: "CLIENT ID"}, terminal.Column{Title: "CREATED (UTC)", Fixed: true},
			terminal.Column{Title: "NAME"})
		for _, row := range list {
			clientID := ""
			if row.OAuth != nil {
				clientID = value(row.OAuth.ClientID)
			}
			t.Row(row.Key, row.Provider, clientID, second(time.Time(row.CreatedAt)), value(row.DisplayName))
		}
		return t.Flush()
	})
}

// configKey names a provider configuration.
type configKey struct {
	Key string `arg:"" name:"key" help:"The provider configuration's key."`
}

type providerConfigsShow struct {
	configKey
	configFlags
}

// Run shows the provider configuration.
func (c *providerConfigsShow) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(p *operator.ProviderConfigs) error {
		found, err := p.Get(ctx, c.Key)
		return c.print(e, found, err)
	})
}

// configFields are the settings that create and update have flags for. There is no flag for a secret itself, because
// command lines appear in histories and process lists.
type configFields struct {
	DisplayName      *string  `placeholder:"TEXT" help:"A name for people."`
	ClientID         *string  `name:"client-id" placeholder:"ID" help:"The id of your OAuth client at the provider."`
	ClientSecretFile string   `placeholder:"PATH" help:"File that contains only the secret of the OAuth client; - prompts for it at a terminal, and else reads standard input."`
	PrivateKeyFile   string   `placeholder:"PATH" help:"File that contains only the private key of the OAuth client, in PEM; - reads it from standard input."`
	PrivateKeyID     *string  `name:"private-key-id" placeholder:"ID" help:"The name that the provider has for the private key; signatures carry it as kid."`
	OAuthHosts       []string `name:"oauth-host" placeholder:"HOST" help:"Hosts to which the OAuth client may be sent although a setting of a connection names them. Stored secrets have to be given again with further hosts."`
	Scopes           []string `placeholder:"SCOPE" help:"The scopes that connections request by default."`
	BaseURL          *string  `name:"base-url" placeholder:"URL" help:"A base URL that replaces the one of the provider's definition."`
	Requests         *int64   `name:"rate-limit-requests" placeholder:"N" help:"The number of requests that a connection may make within the time of --rate-limit-per-seconds."`
	PerSeconds       *int64   `name:"rate-limit-per-seconds" placeholder:"N" help:"The length of that time, in seconds."`
}

// settings returns what the flags set.
func (f *configFields) settings(ctx context.Context, e *env) (operator.ConfigSettings, error) {
	set := operator.ConfigSettings{DisplayName: f.DisplayName, ClientID: f.ClientID, BaseURL: f.BaseURL, Scopes: f.Scopes,
		ClientHosts: f.OAuthHosts, KeyID: f.PrivateKeyID,
		Requests: f.Requests, PerSeconds: f.PerSeconds}
	if f.ClientSecretFile == "-" && f.PrivateKeyFile == "-" {
		return set, usageError("only one of --client-secret-file and --private-key-file can read standard input")
	}
	if f.ClientSecretFile != "" {
		secret, err := e.readOrPrompt(ctx, f.ClientSecretFile, "Client secret: ")
		if err != nil {
			return set, err
		}
		set.ClientSecret = &secret
	}
	if f.PrivateKeyFile != "" {
		text, err := e.readUpTo(f.PrivateKeyFile, operator.MaxPrivateKey)
		if err != nil {
			return set, err
		}
		key := secretbox.Secret(text)
		set.PrivateKey = &key
	}
	return set, nil
}

// readOrPrompt reads a secret from a file, or for - from the terminal without echo, if standard input is one.
func (e *env) readOrPrompt(ctx context.Context, path, label string) (secretbox.Secret, error) {
	if file, ok := e.stdin.(*os.File); path == "-" && ok && term.IsTerminal(int(file.Fd())) {
		secret, err := e.prompt(ctx, file, label)
		if err == nil && secret == "" {
			err = errNoSecret
		}
		return secret, err
	}
	text, err := e.readSecret(path)
	return secretbox.Secret(text), err
}

type providerConfigsCreate struct {
	Provider string  `required:"" placeholder:"SLUG" help:"The provider, as shown by providers list."`
	Key      *string `placeholder:"KEY" help:"The key of the provider configuration; it never changes. Default: the provider's slug."`
	configFields
	configFlags
}

// Run creates the provider configuration.
func (c *providerConfigsCreate) Run(ctx context.Context, e *env) error {
	set, err := c.settings(ctx, e)
	if err != nil {
		return err
	}
	return c.with(ctx, e, func(p *operator.ProviderConfigs) error {
		created, err := p.Create(ctx, c.Provider, c.Key, set)
		return c.print(e, created, err)
	})
}

type providerConfigsUpdate struct {
	configKey
	configFields
	Clear []string `placeholder:"NAME" enum:"display_name,oauth,client_secret,private_key,private_key_id,oauth_hosts,scopes,base_url,rate_limit" help:"Clear these settings: display_name, oauth (the client with its secrets), client_secret, private_key, private_key_id, oauth_hosts, scopes, base_url, rate_limit."`
	Yes   bool     `help:"Confirm a change of the OAuth client after which connections have to be connected again."`
	configFlags
}

// Validate rejects a command that changes nothing, or sets and clears the same.
func (c *providerConfigsUpdate) Validate() error {
	set := map[string]bool{"display_name": c.DisplayName != nil, "oauth": c.ClientID != nil || c.ClientSecretFile != "" ||
		c.PrivateKeyFile != "" || c.PrivateKeyID != nil || c.OAuthHosts != nil, "oauth_hosts": c.OAuthHosts != nil,
		"private_key_id": c.PrivateKeyID != nil,
		"client_secret":  c.ClientSecretFile != "", "private_key": c.PrivateKeyFile != "",
		"scopes": c.Scopes != nil, "base_url": c.BaseURL != nil, "rate_limit": c.Requests != nil || c.PerSeconds != nil}
	changes := len(c.Clear) > 0
	for name, isSet := range set {
		if isSet && slices.Contains(c.Clear, name) {
			return fmt.Errorf("%s cannot be set and cleared at the same time", name)
		}
		changes = changes || isSet
	}
	if !changes {
		return errors.New("nothing to change: give a setting by its flag, or --clear")
	}
	return nil
}

// Run changes the provider configuration.
func (c *providerConfigsUpdate) Run(ctx context.Context, e *env) error {
	set, err := c.settings(ctx, e)
	if err != nil {
		return err
	}
	set.Clear = c.Clear
	return c.with(ctx, e, func(p *operator.ProviderConfigs) error {
		n, err := p.Unusable(ctx, c.Key, set)
		if err != nil {
			return err
		}
		if n > 0 && !c.Yes {
			return usageError(fmt.Sprintf("%d %s tokens of the present OAuth client. With the change they cannot be used any "+
				"more, and the accounts have to be connected again; --yes confirms it", n, numbered(n, "connection has",
				"connections have")))
		}
		changed, err := p.Update(ctx, c.Key, set)
		if err := c.print(e, changed, err); err != nil || n == 0 {
			return err
		}
		e.note("%d %s to be connected again: sallyport connections list --provider %s --status needs_reauth", n,
			numbered(n, "connection has", "connections have"), c.Key)
		return nil
	})
}

type providerConfigsDelete struct {
	configKey
	configFlags
}

// Run deletes the provider configuration.
func (c *providerConfigsDelete) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(p *operator.ProviderConfigs) error {
		if err := p.Delete(ctx, c.Key); err != nil {
			return err
		}
		return e.reportDone(c.JSON, "%s is deleted", c.Key)
	})
}
