package connecting

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"slices"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/tokens"
)

// Return takes the query with which a provider sent a browser back, to the redirect URI of an environment's provider
// configuration.
// The error is a *Problem where words for the person exist.
func (s *Service) Return(ctx context.Context, env id.Environment, key string, v Visitor,
	query url.Values) (*Step, error) {
	browser := v.Browser
	if len(query["state"]) != 1 {
		return nil, s.counted(linkProblem(wordsState))
	}
	var f flow
	found := false
	state := secretbox.Secret(query.Get("state"))
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		if f, found, err = s.flows.take(ctx, tx, state, hashOf(browser)); err == nil && found {
			err = noteReturn(ctx, tx, &f, state)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return s.returned(ctx, env, key, browser, state)
	case !s.cfg.Clock.Now().Before(f.expiresAt):
		return nil, s.counted(linkProblem(wordsState))
	}
	l, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(f.environment)).
		And("id = ?", f.linkID))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, s.counted(linkProblem(wordsUnknown))
	case l.environment != env || l.providerConfigKey != key, // a mix-up: not the server that was asked (RFC 9700, 4.4)
		!l.isOf(browser):
		return nil, s.counted(linkProblem(wordsState))
	}
	o, err := s.lead(ctx, l, secretbox.Secret(f.Link))
	switch {
	case err != nil:
		return nil, s.counted(err)
	case o.connected: // by another window of the browser
		return s.connected(ctx, o)
	case o.owned() && o.signedInMillis == 0, f.SignIn:
		return nil, s.counted(linkProblem(wordsSignIn))
	}
	o.client = v.Client
	if _, err := s.actor(ctx, s.cfg.DB.Read(), o); err != nil {
		return nil, s.counted(err) // before a code becomes tokens that no one would use
	}
	page, err := s.page(ctx, o, f.Mode, nil)
	if err != nil {
		return nil, err
	}
	if page.Mode == nil || f.ClientID != o.config.ClientID {
		return nil, s.counted(linkProblem(wordsChanged))
	}
	if f.Granted != nil { // of a choice, which no provider knows
		return nil, s.counted(linkProblem(wordsState))
	}
	return s.arrive(ctx, o, page, &f, query)
}

// conclude is concluded for what a provider sent, for which there is no form. missing are scopes that were not granted.
func (s *Service) conclude(ctx context.Context, o *opened, page *Page, missing []string, err error) (*Step, error) {
	step, err := s.concluded(ctx, o, page, err)
	if err != nil {
		return nil, err
	}
	if step.Form != nil {
		p := &Problem{Code: codeProvider, Words: "The provider's response does not fit the settings of this connection. " +
			"Nothing was connected.", Back: o.back("failed", codeProvider), Retry: true}
		if o.token != "" {
			p.Again = PagePath + o.token.Reveal()
		}
		if err := o.noteFailure(ctx, s, p); err != nil {
			return nil, err
		}
		return nil, p
	}
	step.Missing = inWords(page.Mode, missing)
	return step, nil
}

// returned is for a browser that comes back with a state that is not there any more: it sees the end again if it has
// reached it with that state, because people load pages again.
func (s *Service) returned(ctx context.Context, env id.Environment, key string, browser,
	state secretbox.Secret) (*Step, error) {
	if hashOf(state) == nil {
		return nil, s.counted(linkProblem(wordsState))
	}
	l, found, err := findLink(ctx, s.cfg.DB.Read(), new(db.Where).And("environment_id = ?", string(env)).
		And("returned_state = ?", flowID(state)).And("returned_state <> ''")) // the index is of these
	if err != nil {
		return nil, err
	}
	if !found || !l.connected || l.providerConfigKey != key || !l.isOf(browser) {
		return nil, s.counted(linkProblem(wordsState))
	}
	o, err := s.lead(ctx, l, "")
	if err != nil {
		return nil, s.counted(err)
	}
	return s.connected(ctx, o)
}

// arrive exchanges what the provider sent for tokens. It connects, or asks for which of several accounts.
func (s *Service) arrive(ctx context.Context, o *opened, page *Page, f *flow, query url.Values) (*Step, error) {
	m := page.Mode
	if o.differs(f.Given) {
		return s.conclude(ctx, o, page, nil, errSettings())
	}
	grant, config, err := s.grant(ctx, o, m, f, query)
	if err != nil {
		return s.conclude(ctx, o, page, nil, err)
	}
	got := granted{Values: map[string]string{}, Scopes: grant.Scopes}
	for name, value := range grant.Values {
		got.Values[name] = value.Reveal()
	}
	if !grant.ExpiresAt.IsZero() {
		got.ExpiresMillis = clock.Millis(grant.ExpiresAt)
	}
	field, choices, err := s.cfg.Connections.Choices(ctx, &o.connection, o.engine, m.Name, o.given(config), grant.Values)
	if errors.Is(err, connections.ErrNoList) {
		err = errUnnamed // the test would take the first account
	}
	if err != nil {
		return s.conclude(ctx, o, page, nil, err)
	}
	chosen := o.given(config)[field]
	switch known := slices.ContainsFunc(choices, func(c outbound.Choice) bool { return c.ID == chosen }); {
	case chosen == "" && len(choices) > 1 && o.token != "":
		return s.ask(ctx, o, page, &flow{flowSecrets: flowSecrets{Mode: m.Name, ClientID: f.ClientID, Given: config,
			Scopes: f.Scopes, Link: f.Link, Granted: &got, Field: field, Choices: choices}})
	case chosen != "" && len(choices) > 0 && !known:
		return s.conclude(ctx, o, page, nil, errMismatch)
	}
	return s.accept(ctx, o, page, &got, f.Scopes, config)
}

// ask keeps a grant for as long as a browser may stay at a provider, and shows the accounts that it can be used for.
func (s *Service) ask(ctx context.Context, o *opened, page *Page, f *flow) (*Step, error) {
	state := newToken()
	f.linkID, f.environment, f.expiresAt = o.id, o.environment, s.cfg.Clock.Now().Add(flowLifetime)
	sealed, err := s.flows.seal(f, state)
	if err != nil {
		return nil, err
	}
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return insertFlow(ctx, tx, f, state, sealed) })
	if err != nil {
		return nil, err
	}
	page.Choices, page.Choosing, page.Path = f.Choices, state.Reveal(), PagePath+o.token.Reveal()
	return &Step{Form: page}, nil
}

// choose connects the account that a person has chosen. state names the grant.
func (s *Service) choose(ctx context.Context, o *opened, state secretbox.Secret, account string) (*Step, error) {
	var f flow
	found := false
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		f, found, err = s.flows.take(ctx, tx, state, o.browserHash)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found, f.linkID != o.id, f.Granted == nil, !s.cfg.Clock.Now().Before(f.expiresAt):
		return nil, s.counted(linkProblem(wordsState))
	}
	page, err := s.page(ctx, o, f.Mode, nil)
	if err != nil {
		return nil, err
	}
	if page.Mode == nil || f.ClientID != o.config.ClientID {
		return nil, s.counted(linkProblem(wordsChanged))
	}
	if !slices.ContainsFunc(f.Choices, func(c outbound.Choice) bool { return c.ID == account }) {
		page.Errors = append(page.Errors, "Choose one of the accounts.")
		return s.ask(ctx, o, page, &f)
	}
	if o.differs(f.Given) {
		return s.conclude(ctx, o, page, nil, errSettings())
	}
	config := maps.Clone(f.Given)
	if config == nil {
		config = map[string]string{}
	}
	config[f.Field] = account
	return s.accept(ctx, o, page, f.Granted, f.Scopes, config)
}

// accept connects with what a provider has granted.
func (s *Service) accept(ctx context.Context, o *opened, page *Page, got *granted, requested []string,
	config map[string]string) (*Step, error) {
	given := connections.Credentials{Values: map[string]secretbox.Secret{}, Requested: requested, Scopes: got.Scopes}
	for name, value := range got.Values {
		given.Values[name] = secretbox.Secret(value)
	}
	switch {
	case got.Scopes == nil:
		given.Scopes = requested // RFC 6749, section 5.1
	case len(got.Scopes) == 0 && len(requested) > 0:
		given.Scopes = nil // a token without any scope is none that a provider makes: it does not say
	}
	if got.ExpiresMillis != 0 {
		at := clock.FromMillis(got.ExpiresMillis)
		given.ExpiresAt = &at
	}
	if page.Mode.Kind != outbound.OAuth2 {
		given.Requested, given.Scopes = nil, nil
	}
	err := s.connect(ctx, o, page.Mode, config, given)
	return s.conclude(ctx, o, page, NotGranted(given.Requested, given.Scopes), err)
}

// grant exchanges what the provider sent for tokens. config has all settings that were entered or found.
func (s *Service) grant(ctx context.Context, o *opened, m *outbound.Mode, f *flow, query url.Values) (
	grant *tokens.Grant, config map[string]string, err error) {
	config = o.given(f.Given)
	if m.Kind == outbound.OAuth1 {
		token, verifier, err := oauth.ParseOAuth1Callback(query)
		if err != nil {
			return nil, nil, err
		}
		if token.Reveal() != f.Token {
			return nil, nil, oauth.ErrCallback
		}
		target, err := s.cfg.Connections.Where(ctx, &o.connection, o.engine, m.Name, config)
		if err != nil {
			return nil, nil, err
		}
		grant, err = s.cfg.Protocol.AccessToken(ctx, s.source(o, target), oauth.OAuth1Token{Token: token,
			Secret: secretbox.Secret(f.Secret)}, verifier)
		if err != nil {
			return nil, nil, err
		}
	} else if grant, err = s.exchange(ctx, o, m, f, query, config); err != nil {
		return nil, nil, err
	}
	for name, value := range grant.Config {
		// A value that a person chose stands for the account; others are what the provider says about it.
		i := slices.IndexFunc(m.Config, func(f outbound.Field) bool { return f.Name == name })
		if chosen := i >= 0 && m.Config[i].Source == outbound.SourceUser; chosen && config[name] != "" &&
			config[name] != value {
			return nil, nil, errMismatch
		}
		config[name] = value
	}
	for name, value := range config {
		if o.connection.Config[name] == value {
			delete(config, name)
		}
	}
	return grant, config, nil
}

// exchange exchanges a code. It adds to config what came with the redirect.
func (s *Service) exchange(ctx context.Context, o *opened, m *outbound.Mode, f *flow, query url.Values,
	config map[string]string) (*tokens.Grant, error) {
	back, refused := oauth.ParseCallback(oauth.CallbackSpec{CodeParam: m.OAuth.CodeParam,
		Metadata: m.OAuth.RedirectMetadata}, query)
	if refused == nil {
		accepted, _ := o.engine.ResolveConfig(m.Name, back.Metadata)
		for name := range back.Metadata {
			switch value := accepted[name].Reveal(); config[name] {
			case "":
				if value != "" {
					config[name] = value
				}
			case value:
			default: // anyone who has the browser can write it: what the operator or an earlier account has set stays
				return nil, errMismatch
			}
		}
	}
	target, err := s.cfg.Connections.Where(ctx, &o.connection, o.engine, m.Name, config)
	if err != nil {
		return nil, err
	}
	source := s.source(o, target)
	issuer, err := s.cfg.Protocol.Issuer(source)
	if err != nil {
		return nil, err
	}
	// An error is as foreign as a code, so its issuer is compared, too.
	if back.State != "" {
		if err := oauth.CheckIssuer(issuer, back.Issuer, issuer != ""); err != nil {
			return nil, err
		}
	}
	if refused != nil {
		return nil, refused
	}
	grant, err := s.cfg.Protocol.Exchange(ctx, source, oauth.Code{Code: back.Code, Param: m.OAuth.CodeParam,
		RedirectURI: configs.RedirectURI(s.cfg.PublicURL, o.environment, o.providerConfigKey),
		Verifier:    secretbox.Secret(f.Verifier)})
	return grant, err
}
