package outbound

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Endpoints are the rendered URLs and parameters of a mode's token protocol. Every URL is on an allowed host; those
// that the definition does not have are empty.
type Endpoints struct {
	AuthorizeURL, TokenURL, RefreshURL, RequestTokenURL, RevokeURL string
	// Issuer is what the provider sends as iss (RFC 9207); empty if it sends none.
	Issuer string
	// AuthorizeParams go into the authorization request, TokenParams into every request to the token endpoint, and
	// RefreshParams into a refresh. They may have secrets.
	AuthorizeParams map[string]string
	TokenParams     map[string]secretbox.Secret
	RefreshParams   map[string]secretbox.Secret
}

// Endpoints renders the URLs and parameters of a mode. The error is a *ConfigError.
func (e *Engine) Endpoints(v Values) (*Endpoints, error) {
	m, ok := e.Mode(v.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	r := e.renderer(&v, m)
	out := &Endpoints{}
	for _, endpoint := range []struct {
		field string
		url   *urlTemplate
		to    *string
	}{
		{fieldAuthorize, m.authorizeURL, &out.AuthorizeURL}, {fieldToken, m.tokenURL, &out.TokenURL},
		{fieldRefresh, m.refreshURL, &out.RefreshURL}, {fieldRequestToken, m.requestTokenURL, &out.RequestTokenURL},
		{fieldRevoke, m.revokeURL, &out.RevokeURL},
	} {
		if endpoint.url == nil {
			continue
		}
		u, err := e.endpoint(r, endpoint.field, endpoint.url)
		if err != nil {
			return nil, err
		}
		*endpoint.to = u.String()
	}
	if out.RefreshURL == "" {
		out.RefreshURL = out.TokenURL
	}
	var err error
	if m.issuer != nil {
		if out.Issuer, err = r.text(m.issuer); err != nil {
			return nil, err
		}
	}
	authorize, err := r.params(m.authorizeParams)
	if err != nil {
		return nil, err
	}
	out.AuthorizeParams = map[string]string{}
	for key, value := range authorize {
		out.AuthorizeParams[key] = value.Reveal()
	}
	if out.TokenParams, err = r.params(m.tokenParams); err != nil {
		return nil, err
	}
	out.RefreshParams, err = r.params(m.refreshParams)
	return out, err
}

// endpoint renders a URL and checks its host.
func (e *Engine) endpoint(r *renderer, field string, t *urlTemplate) (*url.URL, error) {
	r.blame = field
	u, err := t.render(r)
	return e.allowed(r, field, u, err)
}

// params renders parameters; those without a value are left out.
func (r *renderer) params(pairs []pair) (map[string]secretbox.Secret, error) {
	out := map[string]secretbox.Secret{}
	for _, p := range pairs {
		r.blame = p.field
		value, err := r.entry(p.value, false)
		if err != nil {
			return nil, err
		}
		if key, _ := p.name.literal(); value != "" {
			out[key] = secretbox.Secret(value)
		}
	}
	return out, nil
}

// Login renders the request that mints the token of a session_token. The response is read by Token of the mode, and
// JudgeLogin judges it.
func (e *Engine) Login(ctx context.Context, v Values) (*http.Request, error) {
	m, ok := e.Mode(v.Mode)
	if !ok || m.login == nil {
		return nil, refuse("mode", "has no login")
	}
	return e.exchange(ctx, &v, m, "login.url", m.login)
}

// JudgeLogin reports whether a login succeeded.
func (m *Mode) JudgeLogin(r Response) bool { return m.login != nil && m.login.succeeded(&r) }

// Revocation renders the request of the provider's own that revokes a connection's credentials. It returns nil without
// an error if the definition has none; an endpoint of RFC 7009 is in Endpoints.
func (e *Engine) Revocation(ctx context.Context, v Values) (*http.Request, error) {
	m, ok := e.Mode(v.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	if m.revoke == nil {
		return nil, nil //nolint:nilnil // documented: there is nothing to send
	}
	return e.exchange(ctx, &v, m, "revoke.url", m.revoke)
}

// RevokesByToken reports whether Revocation has the access token, which must not have expired then.
func (m *Mode) RevokesByToken() bool {
	if m.revoke == nil {
		return false
	}
	x := m.revoke
	templates := []*template{x.url.path, x.url.query}
	for _, p := range slices.Concat(x.headers, x.form, x.json) {
		templates = append(templates, p.value)
	}
	return slices.ContainsFunc(templates, func(t *template) bool {
		return slices.Contains(t.names(), name{spaceCred, AccessToken})
	})
}

// JudgeRevocation reports whether the credentials are revoked after a response to Revocation: now, or before.
func (m *Mode) JudgeRevocation(r Response) bool {
	return m.revoke != nil && (m.revoke.gone.has(r.Status) || holdsAny(m.revoke.goneWhen, &r) || m.revoke.succeeded(&r))
}

func (x *exchange) succeeded(r *Response) bool {
	return x.ok.has(r.Status) && (x.successWhen == nil || x.successWhen.Holds(r))
}

// exchange renders a request of the provider's own.
func (e *Engine) exchange(ctx context.Context, v *Values, m *Mode, field string, x *exchange) (*http.Request, error) {
	r := e.renderer(v, m)
	u, err := e.endpoint(r, field, x.url)
	if err != nil {
		return nil, err
	}
	body, contentType, err := r.body(x)
	if err != nil {
		return nil, err
	}
	req, err := newRequest(ctx, x.method, u, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("User-Agent", defaultUserAgent)
	if e.userAgent != "" {
		req.Header.Set("User-Agent", e.userAgent)
	}
	return req, r.setHeaders(x.headers, req.Header)
}

// body renders the body of an exchange.
func (r *renderer) body(x *exchange) (body []byte, contentType string, err error) {
	switch {
	case x.form != nil:
		values, err := r.params(x.form)
		if err != nil {
			return nil, "", err
		}
		form := url.Values{}
		for key, value := range values {
			form.Set(key, value.Reveal())
		}
		return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
	case x.json != nil:
		values, err := r.params(x.json)
		if err != nil {
			return nil, "", err
		}
		plain := map[string]string{}
		for key, value := range values {
			plain[key] = value.Reveal()
		}
		body, err := json.Marshal(plain)
		if err != nil { // strings always have a form in JSON
			return nil, "", refuse(r.blame, "cannot be written as JSON")
		}
		return body, "application/json", nil
	default:
		return nil, "", nil
	}
}

// Assertion is what a JSON Web Token of the mode jwt_bearer is made of.
type Assertion struct {
	Algorithm, KeyID string
	Claims           map[string]any
	// Key is the credential that signs: PEM, or the secret of HS256.
	Key secretbox.Secret
	// Expires is the time in the claim exp.
	Expires time.Time
}

// Assertion renders the assertion of a connection. Without a token endpoint it is the access token itself.
func (e *Engine) Assertion(v Values) (*Assertion, error) {
	m, ok := e.Mode(v.Mode)
	if !ok || m.jwt == nil {
		return nil, refuse("mode", "has no assertion")
	}
	r := e.renderer(&v, m)
	out := &Assertion{Algorithm: m.jwt.algorithm, Key: v.Credentials["key"], Expires: v.Now.Add(m.jwt.lifetime),
		Claims: map[string]any{"iat": v.Now.Unix(), "exp": v.Now.Add(m.jwt.lifetime).Unix()}}
	if out.Key == "" {
		return nil, refuse("credentials.key", "is missing")
	}
	r.blame = "jwt"
	for key, t := range map[string]*template{"iss": m.jwt.issuer, "sub": m.jwt.subject, "aud": m.jwt.audience,
		"": m.jwt.keyID} {
		text, err := r.entry(t, false)
		switch {
		case err != nil:
			return nil, err
		case key == "":
			out.KeyID = text
		case text != "":
			out.Claims[key] = text
		}
	}
	claims, err := r.params(m.jwt.claims)
	if err != nil {
		return nil, err
	}
	for key, value := range claims {
		out.Claims[key] = value.Reveal()
	}
	return out, nil
}
