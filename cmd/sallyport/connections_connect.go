package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

// linkFlags are the terms of a link under which a person connects an account, and what follows when it was made.
type linkFlags struct {
	RedirectURL string        `name:"redirect-url" placeholder:"URL" help:"Where the browser goes at the end: one of the environment's connect_redirect_urls."`
	State       string        `placeholder:"TEXT" help:"A text of your own that comes back with the browser."`
	Scopes      []string      `placeholder:"SCOPE" help:"The OAuth scopes to request. Default: those of the provider configuration, or of the provider's definition."`
	UserID      string        `placeholder:"ID" help:"The member of the team whose connection it is, and who has to sign in on the page. Only their own requests use the credentials then."`
	ExpiresIn   time.Duration `name:"expires-in" placeholder:"DURATION" help:"How long the link can be used, from 1m to 24h. Default: the server's, 30m."`
	Open        bool          `default:"true" negatable:"" help:"Open the link in a browser, if the command runs at a terminal with a screen."`
	Wait        bool          `default:"true" negatable:"" help:"Wait until the account is connected, unless --json is given; exit with 1 if it is not. Ctrl-C ends only the wait."`
}

// terms returns the terms that flags give.
func (f *linkFlags) terms() (map[string]any, error) {
	terms := map[string]any{}
	for name, v := range map[string]string{"redirect_url": f.RedirectURL, "state": f.State, "user_id": f.UserID} {
		if v != "" {
			terms[name] = v
		}
	}
	if len(f.Scopes) > 0 {
		terms["scopes"] = f.Scopes
	}
	if f.ExpiresIn != 0 {
		if terms["expires_in"] = int64(f.ExpiresIn / time.Second); f.ExpiresIn < time.Second {
			return nil, usageError("--expires-in must be from 1m to 24h")
		}
	}
	return terms, nil
}

// linkRow holds the properties of a connection with a link.
type linkRow struct {
	connectionRow
	ConnectURL       *string    `json:"connect_url"`
	ConnectExpiresAt *time.Time `json:"connect_expires_at"`
	ConnectModes     []struct {
		Mode    string `json:"auth_mode"`
		Title   string `json:"title"`
		Offered bool   `json:"offered"`
	} `json:"connect_modes"`
}

// withoutClient notes what the page asks for instead, if the provider's first mode needs an OAuth client that is not
// there.
func (r *linkRow) withoutClient(e *env) {
	if len(r.ConnectModes) == 0 || r.ConnectModes[0].Offered {
		return
	}
	var offered []string
	for _, m := range r.ConnectModes {
		if m.Offered {
			offered = append(offered, m.Mode+" ("+m.Title+")")
		}
	}
	key := terminal.Inline(r.ProviderConfigKey)
	e.note("warning: the provider configuration %s has no OAuth client for %s, so the page does not offer that. "+
		"It offers: %s.\nAdd your client with sallyport provider-configs create --provider %s --client-id ID "+
		"--client-secret-file PATH --environment ID (or update %s, if it exists), and make another link.", key,
		terminal.Inline(r.ConnectModes[0].Mode), terminal.Inline(strings.Join(offered, ", ")),
		terminal.Inline(r.Provider), key)
}

// name names the connection for commands.
func (r *linkRow) name() connectionName { return connectionName{r.ProviderConfigKey, r.ConnectionID} }

// connected reports whether the connection has got credentials since before.
func (r *linkRow) connected(before *linkRow) bool {
	return r.Credentials != nil && (before.Credentials == nil ||
		!r.Credentials.StoredAt.Equal(before.Credentials.StoredAt))
}

// Errors of a link that no one has used.
var (
	errLinkExpired  = errors.New("the link has expired, and no account was connected")
	errLinkDisabled = errors.New("the connection was disabled, and no account was connected")
)

// follow shows the link in a response, opens it, and waits until an account is connected under it. It keeps waiting
// while the server is away. An interrupt ends the wait, and neither the link nor the connection.
func (f *linkFlags) follow(ctx context.Context, e *env, flags apiFlags, api *apiclient.Client,
	made apiclient.Response) error {
	if flags.JSON {
		return printRaw(e.stdout, made.Body)
	}
	before, err := into[linkRow](made.Body)
	if err != nil {
		return err
	}
	if before.ConnectURL == nil || before.ConnectExpiresAt == nil {
		return apiclient.ErrForeign
	}
	expires := clock.Wire(*before.ConnectExpiresAt)
	if err := e.printFields([][2]string{{"Connection", before.ProviderConfigKey + "/" + before.ConnectionID},
		{"Status", before.Status}, {"Connect URL", *before.ConnectURL}, {"Valid until", expires}}); err != nil {
		return err
	}
	before.withoutClient(e)
	if f.Open && e.browse != nil && e.browse(ctx, *before.ConnectURL) {
		e.note("The link was opened in a browser.")
	} else {
		e.note("Open the link in the browser of the person whose account it is.")
	}
	again := "sallyport connections reconnect " + terminal.Inline(before.ProviderConfigKey+" "+before.ConnectionID)
	if !f.Wait {
		e.note("Another link: %s", again)
		return nil
	}
	e.note("Waiting until the account is connected. Ctrl-C ends only the wait.")
	body, err := e.awaitAccount(ctx, api, &before, e.clock.Now().Add(left(&before, made.Header, e.clock.Now())))
	switch {
	case ctx.Err() != nil:
		e.note("The link can be used until %s. Another link: %s", expires, again)
		return exitError(exitFailed)
	case errors.Is(err, errLinkExpired):
		e.say("%s", err)
		e.note("Another link: %s", again)
		return exitError(exitFailed)
	case err != nil:
		return err
	}
	return flags.connection(e, body)
}

// left returns how long the link can be used. It goes by the server's clock, with which the response is dated.
func left(r *linkRow, header http.Header, now time.Time) time.Duration {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		now = at
	}
	return r.ConnectExpiresAt.Sub(now)
}

// awaitAccount returns the connection when an account is connected, and reports each attempt that failed.
func (e *env) awaitAccount(ctx context.Context, api *apiclient.Client, before *linkRow,
	deadline time.Time) (json.RawMessage, error) {
	reported := value(before.StatusReason)
	for away := false; ; {
		expired := !e.clock.Now().Before(deadline)
		a, err := e.poll(ctx, api, before.name().path())
		switch {
		case ctx.Err() == nil && apiclient.Temporary(err):
			if !away {
				e.note("%s Still waiting.", terminal.Inline(sentence(err.Error())))
			}
			away = true
			continue
		case err != nil:
			return nil, err
		}
		away = false
		r, err := into[linkRow](a.Body)
		switch reason := value(r.StatusReason); {
		case err != nil:
			return nil, err
		case r.connected(before):
			return a.Body, nil
		case r.Status == "disabled":
			return nil, errLinkDisabled
		case expired:
			return nil, errLinkExpired
		case r.Status == "pending" && reason != reported:
			reported = reason
			e.note("The last attempt failed: %s. Still waiting.", terminal.Inline(reason))
		}
	}
}

type connectionsReconnect struct {
	connectionName `embed:""`
	linkFlags      `embed:""`
	apiFlags       `embed:""`
}

// Run makes a link under which the account is connected again.
func (c *connectionsReconnect) Run(ctx context.Context, e *env) error {
	terms, err := c.terms()
	if err != nil {
		return err
	}
	body := map[string]any{"operation": "reconnect"}
	if len(terms) > 0 {
		body["connect"] = terms
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path(), Body: body})
		if err != nil {
			return err
		}
		return c.follow(ctx, e, c.apiFlags, api, a)
	})
}
