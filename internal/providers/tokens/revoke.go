package tokens

import (
	"context"
	"errors"
	"net/http"

	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
)

// ErrNoRevocation says that the provider has no way to revoke credentials of the mode.
var ErrNoRevocation = errors.New("the provider has no way to revoke these credentials")

// Revoke revokes the credentials of a connection at the provider. It returns nil if they are revoked, now or before,
// and ErrNoRevocation if the definition has no request for it.
func (p *Protocol) Revoke(ctx context.Context, s Source) error {
	o, err := p.open(s)
	if err != nil {
		return err
	}
	req, err := o.engine.Revocation(ctx, o.values)
	if err != nil {
		return wrongSettings(err)
	}
	if req != nil {
		resp, err := p.send(o, req, nil)
		if err != nil {
			return err
		}
		if o.mode.JudgeRevocation(resp) {
			return nil
		}
		refused := func(int, http.Header, []byte) bool { return false }
		return p.judgeRevocation(o, resp, refused)
	}
	if o.endpoints.RevokeURL == "" {
		return ErrNoRevocation
	}
	// The end of a refresh token ends its access tokens (RFC 7009, section 2.1).
	token, hint := o.credential(RefreshToken), RefreshToken
	if token == "" {
		token, hint = o.credential(AccessToken), AccessToken
	}
	req, err = o.endpoint(o.endpoints.RevokeURL).Revoke(ctx, o.client(), token, hint, o.values.Now)
	resp, err := p.send(o, req, err)
	if err != nil {
		return err
	}
	return p.judgeRevocation(o, resp, nil)
}

// judgeRevocation reads the response to a revocation. With success, that decides, and not the rules of RFC 7009.
func (p *Protocol) judgeRevocation(o *opened, r outbound.Response, success oauth.Test) error {
	//nolint:wrapcheck // it is a *oauth.TokenError, as is documented
	return oauth.ParseRevocation(oauth.RevocationSpec{Sent: o.secrets, SuccessWhen: success}, r.Status, r.Header, r.Body,
		p.clock.Now())
}

// tokenError returns the error as one of the protocol, or nil.
func tokenError(err error) *oauth.TokenError {
	var e *oauth.TokenError
	if errors.As(err, &e) {
		return e
	}
	return nil
}
