package tokens

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/requestsigning"
)

// Mint gets an access token of a mode that mints them: see outbound.Mode.Mints. Scopes replace those of the definition
// unless they are nil.
func (p *Protocol) Mint(ctx context.Context, s Source, scopes []string) (*Grant, error) {
	o, err := p.open(s)
	if err != nil {
		return nil, err
	}
	scopes = o.scopes(scopes)
	spec := o.mode.Token
	var req *http.Request
	switch o.mode.Kind {
	case outbound.ClientCredentials:
		req, err = o.endpoint(o.endpoints.TokenURL).ClientCredentials(ctx, o.client(), scopes, o.values.Now)
	case outbound.JWTBearer:
		return p.mintAssertion(ctx, o, scopes)
	case outbound.ServiceAccount:
		req, err = o.serviceAccount(ctx, scopes)
	case outbound.GitHubApp:
		spec.DeadStatuses = oauth.InstallationTokenSpec().DeadStatuses
		spec.ClientStatuses = oauth.InstallationTokenSpec().ClientStatuses
		req, err = o.installation(ctx)
	case outbound.SessionToken:
		// Nothing but the user name and the password is sent, so that a refusal is about them.
		spec.DeadStatuses = []int{http.StatusBadRequest, http.StatusUnauthorized}
		judge := o.mode.Token.SuccessWhen
		spec.SuccessWhen = func(status int, header http.Header, body []byte) bool {
			return o.mode.JudgeLogin(outbound.Response{Status: status, Header: header, Body: body}) &&
				(judge == nil || judge(status, header, body))
		}
		req, err = o.engine.Login(ctx, o.values)
	default:
		return nil, misconfigured("the mode mints no tokens")
	}
	g, err := p.grant(o, req, err, spec)
	return g, o.own(err)
}

// own makes a refused client a dead grant where the client is the connection's own, and no one else's.
func (o *opened) own(err error) error {
	if e := tokenError(err); e != nil && e.Kind == oauth.ClientRefused && !o.mode.Client {
		mine := *e
		mine.Kind = oauth.GrantDead
		return &mine
	}
	return err
}

// mintAssertion exchanges an assertion for a token. Without a token endpoint the assertion is the token.
func (p *Protocol) mintAssertion(ctx context.Context, o *opened, scopes []string) (*Grant, error) {
	a, err := o.engine.Assertion(o.values)
	if err != nil {
		return nil, wrongSettings(err)
	}
	if o.endpoints.TokenURL == "" {
		token, err := requestsigning.SignJWT(requestsigning.JWT{Algorithm: a.Algorithm, Key: a.Key, KeyID: a.KeyID,
			Claims: a.Claims})
		if err != nil {
			return nil, misconfigured(err.Error())
		}
		return &Grant{Values: map[string]secretbox.Secret{AccessToken: token}, ExpiresAt: a.Expires}, nil
	}
	claims := maps.Clone(a.Claims)
	take := func(name string) string {
		text, _ := claims[name].(string)
		delete(claims, name)
		return text
	}
	assertion := oauth.Assertion{Algorithm: a.Algorithm, Key: a.Key, KeyID: a.KeyID, Issuer: take("iss"),
		Subject: take("sub"), Audience: take("aud"), Lifetime: a.Expires.Sub(o.values.Now), Claims: claims}
	delete(claims, "iat")
	delete(claims, "exp")
	req, err := o.endpoint(o.endpoints.TokenURL).JWTBearer(ctx, oauth.Client{}, assertion, scopes, o.values.Now)
	g, err := p.grant(o, req, err, o.mode.Token)
	return g, o.own(err)
}

// serviceAccount makes the request of a service account. Its scopes are a claim of the assertion.
func (o *opened) serviceAccount(ctx context.Context, scopes []string) (*http.Request, error) {
	account, err := oauth.ParseServiceAccount(o.credential("key"))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong with the file
	}
	return o.endpoint(o.endpoints.TokenURL).JWTBearer(ctx, oauth.Client{},
		account.Assertion(o.credential("subject").Reveal(), scopes), nil, o.values.Now)
}

// installation makes the request for the token of an installation of a GitHub App.
func (o *opened) installation(ctx context.Context) (*http.Request, error) {
	number := o.credential("installation_id").Reveal()
	base, found := strings.CutSuffix(o.endpoints.TokenURL, "/app/installations/"+number+"/access_tokens")
	if !found {
		return nil, misconfigured("the token endpoint is not that of an installation")
	}
	return oauth.InstallationToken(ctx, oauth.GitHubApp{BaseURL: base, AppID: o.values.Client.ID,
		Key: o.values.Client.PrivateKey, InstallationID: number}, o.values.Now)
}
