package outbound

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/suggest"
	"sallyport/internal/providers/oauth"
)

var kinds = []Kind{None, APIKey, Basic, Bearer, OAuth2, ClientCredentials, OAuth1, JWTBearer, ServiceAccount,
	GitHubApp, SessionToken, AWSSigV4, HMAC}

func (c *compiler) compileModes(list []Auth) {
	if len(list) == 0 || len(list) > maxModes {
		c.problems.add("auth", "needs 1 to %d modes", maxModes)
	}
	for i := range list {
		a, path := &list[i], at("auth", i)
		if !slices.Contains(kinds, a.Mode) {
			names := make([]string, len(kinds))
			for j, k := range kinds {
				names[j] = string(k)
			}
			if question := suggest.Question(string(a.Mode), names, nil); question != "" {
				c.problems.add(path+".mode", "is no mode of the format%s", question)
			} else {
				c.problems.add(path+".mode", "must be one of %s", strings.Join(names, ", "))
			}
			continue
		}
		m := c.compileMode(a, path)
		if _, taken := c.Mode(m.Name); taken && len(c.modes) > 0 {
			c.problems.add(path+".name", "must be a name that no other mode has; without one it is %s", a.Mode)
		}
		c.modes, c.declared, c.paths = append(c.modes, m), append(c.declared, a), append(c.paths, path)
	}
}

func (c *compiler) compileMode(a *Auth, path string) *Mode {
	m := &Mode{Name: a.Name, Kind: a.Mode, Title: a.Title, Description: a.Description, DocsURL: a.DocsURL,
		Setup: strings.TrimSpace(a.Setup), Fields: compileFields(a, path, &c.problems)}
	if m.Name == "" {
		m.Name = string(m.Kind)
	}
	if !fieldName.MatchString(m.Name) {
		c.problems.add(path+".name", "must be lower-case letters, digits and _, and begin with a letter")
	}
	if m.Title == "" {
		m.Title = kindTitle(m.Kind)
	}
	c.mode = m
	defer func() { c.mode = nil }()
	checkTexts(path, a.Title, a.Description, false, &c.problems)
	if u, wrong := parseURL(strings.SplitN(a.DocsURL, "#", 2)[0]); a.DocsURL != "" && (wrong != "" || u.Scheme !=
		"https") {
		c.problems.add(path+".docs_url", "must be an https URL")
	}
	if len(a.Setup) > maxSetup {
		c.problems.add(path+".setup", "must have at most 8 KiB")
	}
	c.checkMeaning(a, path)
	if a.BaseURL != nil {
		m.bases, m.BaseURLs = c.compileBases(path+".base_url", a.BaseURL, m)
		if len(a.BaseURL) == 0 {
			c.problems.add(path+".base_url", "needs 1 to %d URLs", maxBaseURLs)
		}
	}
	m.Client = m.Kind == OAuth2 || m.Kind == OAuth1 || m.Kind == GitHubApp
	m.ClientKey = m.Kind == GitHubApp || m.Client && a.ClientAuth == string(ClientAuthPrivateKeyJWT)
	c.compileEndpoints(m, a, path)
	c.compileOAuth(m, a, path)
	c.compileToken(m, a, path)
	c.compileSigning(m, a, path)
	return m
}

func kindTitle(k Kind) string {
	return map[Kind]string{ //nolint:gosec // titles, no credentials
		None: "No authentication", APIKey: "API key", Basic: "User name and password",
		Bearer: "Token", OAuth2: "OAuth", ClientCredentials: "OAuth client credentials", OAuth1: "OAuth 1.0a",
		JWTBearer: "Signed assertion", ServiceAccount: "Service account", GitHubApp: "GitHub App",
		SessionToken: "Login", AWSSigV4: "AWS access key", HMAC: "Signed requests",
	}[k]
}

// checkMeaning reports the fields that mean nothing for the mode, and those that it needs.
func (c *compiler) checkMeaning(a *Auth, path string) {
	oauth := []Kind{OAuth2}
	tokens := []Kind{OAuth2, ClientCredentials, JWTBearer, ServiceAccount}
	minted := append([]Kind{GitHubApp, SessionToken}, tokens...)
	for _, f := range []struct {
		name  string
		given bool
		kinds []Kind
		need  []Kind
	}{
		{"authorize_url", a.AuthorizeURL != "", []Kind{OAuth2, OAuth1}, []Kind{OAuth2, OAuth1}},
		{"token_url", a.TokenURL != "", append([]Kind{OAuth1, GitHubApp}, tokens...),
			[]Kind{OAuth2, ClientCredentials, OAuth1, ServiceAccount, GitHubApp}},
		{"refresh_url", a.RefreshURL != "", oauth, nil},
		{"request_token_url", a.RequestTokenURL != "", []Kind{OAuth1}, []Kind{OAuth1}},
		{"revoke_url", a.RevokeURL != "", tokens, nil},
		{"revoke", a.Revoke != nil, append([]Kind{APIKey, Bearer, OAuth1}, minted...), nil},
		{"login", a.Login != nil, []Kind{SessionToken}, []Kind{SessionToken}},
		{"issuer", a.Issuer != "", oauth, nil},
		{"pkce", a.PKCE != "", oauth, nil},
		{"scope_separator", a.ScopeSeparator != "", tokens, nil},
		{"default_scopes", a.DefaultScopes != nil, append([]Kind{OAuth1}, tokens...), nil},
		{"param_rename", a.ParamRename != nil, []Kind{OAuth2}, nil},
		{"authorize_params", a.AuthorizeParams != nil, []Kind{OAuth2, OAuth1}, nil},
		{"token_params", a.TokenParams != nil, tokens, nil},
		{"refresh_params", a.RefreshParams != nil, oauth, nil},
		{"client_auth", a.ClientAuth != "", []Kind{OAuth2, ClientCredentials}, nil},
		{"body_format", a.BodyFormat != "", tokens, nil},
		{"code_param", a.CodeParam != "", oauth, nil},
		{"redirect_metadata", a.RedirectMetadata != nil, oauth, nil},
		{"token_metadata", a.TokenMetadata != nil, minted, nil},
		{"token", a.Token != nil, minted, []Kind{SessionToken}},
		{"refresh", a.Refresh != nil, oauth, nil},
		{"jwt", a.JWT != nil, []Kind{JWTBearer}, []Kind{JWTBearer}},
		{"aws", a.AWS != nil, []Kind{AWSSigV4}, []Kind{AWSSigV4}},
		{"signature", a.Signature != nil, []Kind{HMAC}, []Kind{HMAC}},
		{"signature_method", a.SignatureMethod != "", []Kind{OAuth1}, nil},
		{"fields", a.Fields != nil, slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k == None }), nil},
	} {
		switch {
		case f.given && !slices.Contains(f.kinds, a.Mode):
			c.problems.add(path+"."+f.name, "has no meaning for the mode %s", a.Mode)
		case !f.given && slices.Contains(f.need, a.Mode):
			c.problems.add(path+"."+f.name, "is needed by the mode %s", a.Mode)
		}
	}
	if a.RevokeURL != "" && a.Revoke != nil {
		c.problems.add(path+".revoke", "contradicts revoke_url: one of them is enough")
	}
	if a.Request.UserAgent != "" || a.Request.FollowRedirects != "" {
		c.problems.add(path+".request", "can have headers and query only; user_agent and follow_redirects are the "+
			"definition's")
	}
}

// credNames returns the names of a mode's credentials, with or without the secret ones.
func credNames(m *Mode, secrets bool) map[string]bool {
	out := map[string]bool{}
	for i := range m.Fields {
		if f := &m.Fields[i]; secrets || !f.Secret {
			out[f.Name] = f.Secret
		}
	}
	return out
}

// all returns everything that a mode's own requests may contain.
func (c *compiler) all(m *Mode) scope {
	s := c.config.with(spaceCred, credNames(m, true))
	if m.Client {
		s = s.with(spaceClient, clientNames())
	}
	return s
}

// visible returns what may stand in a URL or in a parameter that others see: no secrets.
func (c *compiler) visible(m *Mode) scope {
	s := c.public().with(spaceCred, credNames(m, false))
	if m.Client {
		s = s.with(spaceClient, map[string]bool{"id": false})
	}
	return s
}

func (c *compiler) compileEndpoints(m *Mode, a *Auth, path string) {
	visible := c.visible(m)
	m.authorizeURL = c.url(path+"."+fieldAuthorize, a.AuthorizeURL, visible, true)
	m.tokenURL = c.url(path+"."+fieldToken, a.TokenURL, visible, true)
	m.refreshURL = c.url(path+"."+fieldRefresh, a.RefreshURL, visible, true)
	m.requestTokenURL = c.url(path+"."+fieldRequestToken, a.RequestTokenURL, visible, true)
	m.revokeURL = c.url(path+"."+fieldRevoke, a.RevokeURL, visible, true)
	m.revoke = c.compileExchange(m, a.Revoke, path+".revoke", true)
	m.login = c.compileExchange(m, a.Login, path+".login", false)
}

func (c *compiler) compileExchange(m *Mode, x *Exchange, path string, revokes bool) *exchange {
	if x == nil {
		return nil
	}
	names := c.all(m)
	if !revokes { // there is no token yet
		delete(names, name{spaceCred, AccessToken})
	}
	out := &exchange{method: x.Method, url: c.url(path+".url", x.URL, names, true),
		headers: c.headers(path+".headers", x.Headers, names), form: c.pairs(path+".form", x.Form, names, scope{}),
		json: c.pairs(path+".json", x.JSON, names, scope{}), ok: compileStatuses(path+".ok", x.OK, &c.problems),
		gone:        compileStatuses(path+".gone", x.Gone, &c.problems),
		successWhen: compileCondition(path+".success_when", x.SuccessWhen, &c.problems),
		goneWhen:    compileConditions(path+".gone_when", x.GoneWhen, &c.problems)}
	if out.method == "" {
		out.method = "POST"
	}
	if len(out.ok) == 0 {
		out.ok = statusSet{-2: true}
	}
	switch {
	case !slices.Contains([]string{"GET", "POST", "PUT", "DELETE"}, out.method):
		c.problems.add(path+".method", "must be GET, POST, PUT or DELETE")
	case x.Form != nil && x.JSON != nil:
		c.problems.add(path+".json", "contradicts form: one of them is enough")
	case x.URL == "":
		c.problems.add(path+".url", "is needed")
	case !revokes && (x.Gone != nil || x.GoneWhen != nil):
		c.problems.add(path+".gone", "is for revoke")
	}
	if out.url == nil { // so that later checks need not look
		return nil
	}
	return out
}

func (c *compiler) compileOAuth(m *Mode, a *Auth, path string) {
	choose := func(field, given, usual string, allowed ...string) string {
		if given == "" {
			return usual
		}
		if !slices.Contains(allowed, given) {
			c.problems.add(path+"."+field, "must be %s", strings.Join(allowed, ", "))
		}
		return given
	}
	m.OAuth = OAuthRules{PKCE: choose("pkce", a.PKCE, "S256", "S256", "none") == "S256" && m.Kind == OAuth2,
		ScopeSeparator: a.ScopeSeparator, DefaultScopes: slices.Clone(a.DefaultScopes),
		ParamRename: maps.Clone(a.ParamRename), CodeParam: a.CodeParam,
		ClientAuth:       ClientAuth(choose("client_auth", a.ClientAuth, "body", "basic", "body", "private_key_jwt", "none")),
		JSONBody:         choose("body_format", a.BodyFormat, "form", "form", "json") == "json",
		RedirectMetadata: maps.Clone(a.RedirectMetadata)}
	m.SignatureMethod = choose("signature_method", a.SignatureMethod, "HMAC-SHA1", "HMAC-SHA1", "HMAC-SHA256")
	if m.OAuth.ScopeSeparator == "" {
		m.OAuth.ScopeSeparator = " "
	}
	if m.OAuth.CodeParam == "" {
		m.OAuth.CodeParam = "code"
	}
	if len(m.OAuth.ScopeSeparator) > 1 || hasControl(m.OAuth.ScopeSeparator) {
		c.problems.add(path+".scope_separator", "must be one character")
	}
	for i, s := range a.DefaultScopes {
		if s == "" || len(a.DefaultScopes) > maxEntries || hasControl(s) || strings.Contains(s, m.OAuth.ScopeSeparator) {
			c.problems.add(at(path+".default_scopes", i), "must be one scope, without the separator")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.ParamRename)) {
		if a.ParamRename[key] == "" || !slices.Contains([]string{"client_id", "redirect_uri", "response_type", "scope",
			"state", "code_challenge", "code_challenge_method"}, key) || key == "state" {
			c.problems.add(path+".param_rename."+short(key), "must rename client_id, redirect_uri, response_type, "+
				"scope, code_challenge or code_challenge_method")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.TokenMetadata)) {
		compilePointer(path+".token_metadata."+key, a.TokenMetadata[key], &c.problems)
	}
	visible := c.visible(m)
	if a.Issuer != "" {
		m.issuer = c.text(path+".issuer", a.Issuer, visible)
	}
	m.authorizeParams = c.params(path+".authorize_params", a.AuthorizeParams, visible)
	m.tokenParams = c.params(path+".token_params", a.TokenParams, c.all(m))
	m.refreshParams = c.params(path+".refresh_params", a.RefreshParams, c.all(m))
}

// compileScopes gives modes what their scopes permit.
func compileScopes(words map[string]string, modes []*Mode, ps *problems) {
	requests := func(m *Mode) bool {
		return slices.Contains([]Kind{OAuth2, OAuth1, ClientCredentials, JWTBearer, ServiceAccount}, m.Kind)
	}
	switch {
	case len(words) > maxScopes:
		ps.add("scopes", "has more than %d entries", maxScopes)
	case words != nil && !slices.ContainsFunc(modes, requests):
		ps.add("scopes", "has no meaning: no mode of auth requests scopes")
	}
	for _, scope := range slices.Sorted(maps.Keys(words)) {
		switch text := words[scope]; {
		case scope == "" || len(scope) > maxScope || hasControl(scope) || strings.Contains(scope, " "):
			ps.add("scopes."+short(scope), "must be the name of one scope")
		case text == "" || !isLine(text, maxDescription) || strings.HasSuffix(text, "."):
			ps.add("scopes."+scope, "must be one line of 1 to %d characters, without spaces around it and without a full stop",
				maxDescription)
		}
	}
	shared := maps.Clone(words)
	for _, m := range modes {
		m.Scopes = shared
	}
}

// Limits of the scopes that are described.
const (
	maxScopes = 500
	maxScope  = 255
)

// params reads additional parameters. Those of the protocol itself are not the definition's to set.
func (c *compiler) params(field string, m map[string]string, names scope) []pair {
	for _, key := range []string{"state", "code", "code_verifier", "code_challenge", "redirect_uri", "refresh_token",
		"client_secret", "client_assertion", "assertion"} {
		if _, ok := m[key]; ok {
			c.problems.add(under(field, key), "is a parameter that the gateway sets")
		}
	}
	return c.pairs(field, m, names, scope{})
}

func (c *compiler) compileToken(m *Mode, a *Auth, path string) {
	d := Token{}
	if a.Token != nil {
		d = *a.Token
	}
	pointer := func(field, given, usual string) string {
		if given == "" {
			return usual
		}
		compilePointer(path+".token."+field, given, &c.problems)
		return given
	}
	m.Token = oauth.TokenSpec{Access: pointer("access", d.Access, "/access_token"),
		Alternate: pointer("alternate", d.Alternate, ""), Refresh: pointer("refresh", d.Refresh, "/refresh_token"),
		ExpiresIn: pointer("expires_in", d.ExpiresIn, "/expires_in"), Scope: pointer("scope", d.Scope, "/scope"),
		DefaultTTL: c.duration(path+".token.default_ttl", d.DefaultTTL, 0), Unit: time.Second,
		Metadata: maps.Clone(a.TokenMetadata)}
	m.TokenBuffer = c.duration(path+".token.buffer", d.Buffer, 15*time.Minute)
	if d.SuccessWhen != nil {
		m.Token.SuccessWhen = c.responseTest(path+".token.success_when", d.SuccessWhen)
	}
	switch d.Unit {
	case "", "s":
	case "ms":
		m.Token.Unit = time.Millisecond
	default:
		c.problems.add(path+".token.unit", "must be s or ms")
	}
	if d.ExpiresAt != "" {
		m.Token.ExpiresAt = pointer("expires_at", d.ExpiresAt, "")
	}
	if d.ExpiresIn != "" && d.ExpiresAt != "" {
		c.problems.add(path+".token.expires_at", "contradicts expires_in: one of them is enough")
	}
	if a.Refresh == nil {
		return
	}
	switch a.Refresh.Grant {
	case "", "refresh_token":
	case "reauth":
		m.Refresh.Reauth = true
	default:
		c.problems.add(path+".refresh.grant", "must be refresh_token or reauth")
	}
	m.Refresh.Rotating = a.Refresh.Rotating
	m.Refresh.MaxIdle = c.duration(path+".refresh.max_idle", a.Refresh.MaxIdle, 0)
	for i := range a.Refresh.DeadWhen {
		m.Token.DeadWhen = append(m.Token.DeadWhen,
			c.responseTest(at(path+".refresh.dead_when", i), &a.Refresh.DeadWhen[i]))
	}
	if m.Refresh.Reauth && (a.RefreshURL != "" || a.RefreshParams != nil || a.Refresh.Rotating || a.Refresh.MaxIdle !=
		"" || a.Refresh.DeadWhen != nil) {
		c.problems.add(path+".refresh.grant", "contradicts other fields: with reauth nothing is refreshed")
	}
}

// responseTest compiles a condition as the package oauth takes it.
func (c *compiler) responseTest(field string, d *Condition) oauth.Test {
	test := compileCondition(field, d, &c.problems)
	return func(status int, header http.Header, body []byte) bool {
		return test.Holds(&Response{Status: status, Header: header, Body: body})
	}
}

// compileAWS reads the scope of signatures; nil without one.
func (c *compiler) compileAWS(path string, s *AWS, names scope) *awsTemplate {
	if s == nil {
		return nil
	}
	if s.Region == "" || s.Service == "" {
		c.problems.add(path, "needs region and service")
	}
	return &awsTemplate{region: c.text(path+".region", s.Region, names), service: c.text(path+".service", s.Service,
		names)}
}

func (c *compiler) compileSigning(m *Mode, a *Auth, path string) {
	names := c.visible(m)
	if j := a.JWT; j != nil {
		t := &assertionTemplate{algorithm: j.Algorithm, keyID: c.text(path+".jwt.key_id", j.KeyID, names),
			issuer: c.text(path+".jwt.iss", j.Issuer, names), subject: c.text(path+".jwt.sub", j.Subject, names),
			audience: c.text(path+".jwt.aud", j.Audience, names),
			claims:   c.pairs(path+".jwt.claims", j.Claims, names, scope{}),
			lifetime: c.duration(path+".jwt.lifetime", j.Lifetime, 5*time.Minute)}
		m.jwt = t
		if !slices.Contains([]string{"RS256", "RS384", "RS512", "PS256", "ES256", "EdDSA", "HS256"}, j.Algorithm) {
			c.problems.add(path+".jwt.algorithm", "must be RS256, RS384, RS512, PS256, ES256, EdDSA or HS256")
		}
		if t.lifetime > time.Hour {
			c.problems.add(path+".jwt.lifetime", "must be at most 1h")
		}
		for _, key := range []string{"iss", "sub", "aud", "iat", "exp", "jti"} {
			if _, ok := j.Claims[key]; ok {
				c.problems.add(path+".jwt.claims."+key, "has a field of its own, or is set by the gateway")
			}
		}
	}
	m.aws = c.compileAWS(path+".aws", a.AWS, names)
	s := a.Signature
	if s == nil {
		return
	}
	signed := map[string]bool{}
	for _, key := range requestNames() {
		signed[key] = false
	}
	encoding := s.Encoding
	if encoding == "" {
		encoding = "hex"
	}
	m.signature = &signatureTemplate{algorithm: s.Algorithm, key: s.Key, encoding: encoding,
		content: c.text(path+".signature.content", s.Content, names.with(spaceRequest, signed)),
		header:  c.text(path+".signature.header", s.Header, c.public()),
		prefix:  c.text(path+".signature.prefix", s.Prefix, names)}
	if !slices.Contains([]string{"sha1", "sha256", "sha512"}, s.Algorithm) {
		c.problems.add(path+".signature.algorithm", "must be sha1, sha256 or sha512")
	}
	if !slices.Contains([]string{"", "utf8", "hex", "base64"}, s.Key) {
		c.problems.add(path+".signature.key", "must be utf8, hex or base64")
	}
	if !slices.Contains([]string{"", "hex", "base64"}, s.Encoding) {
		c.problems.add(path+".signature.encoding", "must be hex or base64")
	}
	if s.Content == "" {
		c.problems.add(path+".signature.content", "is needed")
	}
	if text, ok := m.signature.header.literal(); ok && !OwnableHeader(text) { // an empty one, too
		c.problems.add(path+".signature.header", "is not the name of a header that a definition can set")
	}
}
