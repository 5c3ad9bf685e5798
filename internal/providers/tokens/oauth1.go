package tokens

import (
	"context"
	"net/http"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

// TemporaryToken gets the temporary token of OAuth 1.0a with which a browser is sent to the provider, and the URL to
// send it to. Scopes replace those of the definition unless they are nil.
func (p *Protocol) TemporaryToken(ctx context.Context, s Source, callback string, scopes []string) (oauth.OAuth1Token,
	string, error) {
	o, err := p.open(s)
	if err != nil {
		return oauth.OAuth1Token{}, "", err
	}
	req, err := o.oauth1().TemporaryToken(ctx, o.endpoints.RequestTokenURL, callback, o.values.Now)
	token, err := p.oauth1Token(o, req, err, true)
	if err != nil {
		return oauth.OAuth1Token{}, "", err
	}
	params := o.endpoints.AuthorizeParams
	if list := o.scopes(scopes); len(list) > 0 {
		if _, own := params["scope"]; !own {
			params["scope"] = strings.Join(list, o.mode.OAuth.ScopeSeparator)
		}
	}
	url, err := oauth.OAuth1AuthorizeURL(o.endpoints.AuthorizeURL, token.Token, params)
	if err != nil {
		return oauth.OAuth1Token{}, "", wrongSettings(err)
	}
	return token, url, nil
}

// AccessToken exchanges the temporary token and the verifier of the callback for the token of the account.
func (p *Protocol) AccessToken(ctx context.Context, s Source, temporary oauth.OAuth1Token,
	verifier secretbox.Secret) (*Grant, error) {
	o, err := p.open(s)
	if err != nil {
		return nil, err
	}
	o.hide(temporary.Token, temporary.Secret, verifier)
	req, err := o.oauth1().AccessToken(ctx, o.endpoints.TokenURL, temporary, verifier, o.values.Now)
	token, err := p.oauth1Token(o, req, err, false)
	if err != nil {
		return nil, err
	}
	o.hide(token.Token, token.Secret)
	return &Grant{Values: map[string]secretbox.Secret{OAuth1Token: token.Token, OAuth1Secret: token.Secret},
		Config: o.settings(token.Metadata)}, nil
}

func (o *opened) oauth1() oauth.OAuth1 {
	return oauth.OAuth1{ConsumerKey: o.values.Client.ID, ConsumerSecret: o.values.Client.Secret,
		Method: o.mode.SignatureMethod}
}

func (p *Protocol) oauth1Token(o *opened, req *http.Request, err error, temporary bool) (oauth.OAuth1Token, error) {
	resp, err := p.send(o, req, err)
	if err != nil {
		return oauth.OAuth1Token{}, err
	}
	return oauth.ParseOAuth1Token(oauth.OAuth1Spec{Temporary: temporary, //nolint:wrapcheck // as documented
		Metadata: o.mode.Token.Metadata, Sent: o.secrets}, resp.Status, resp.Header, resp.Body, p.clock.Now())
}
