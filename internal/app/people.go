package app

import (
	"context"
	"database/sql"
	"net/url"
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/sso"
	"sallyport/internal/identity/sso/ssohttp"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// belongings make the connections of members follow the members' state.
type belongings struct{ owners connections.Owners }

// Follow implements members.Belongings.
func (b belongings) Follow(ctx context.Context, tx *sql.Tx, actor access.Principal, user string,
	state members.State) (func(), error) {
	list, err := team.ReadEnvironments(ctx, tx, actor.Team)
	if err != nil {
		return func() {}, err
	}
	in := make([]id.Environment, len(list))
	for i := range list {
		in[i] = list[i].ID
	}
	switch state {
	case members.Active:
		return b.owners.Resume(ctx, tx, actor, in, user)
	case members.Disabled:
		return b.owners.Suspend(ctx, tx, actor, in, user)
	default:
		return b.owners.Release(ctx, tx, actor, in, user)
	}
}

// people finds out for the pages of links who is at a browser.
type people struct {
	ids       *identity.Services
	sso       *sso.Service
	clock     clock.Clock
	publicURL string
}

// Member implements connecting.People.
func (p people) Member(ctx context.Context, q db.Querier, t id.Team, env id.Environment, user string) (string, bool,
	error) {
	who, found, err := members.ReadPrincipal(ctx, q, t, user, "", p.clock.Now())
	return who.Name, found && who.Rights.Enters(env), err
}

// ByPassword implements connecting.People.
func (p people) ByPassword(ctx context.Context, c access.Client, email string,
	password, code secretbox.Secret) (access.Principal, error) {
	return signin.NewIdentifier(p.ids.SignIn).Identify(ctx, c, signin.Credentials{Email: email, Password: password,
		Code: code})
}

// BySession implements connecting.People.
func (p people) BySession(ctx context.Context, token secretbox.Secret) (access.Principal, error) {
	return signin.NewIdentifier(p.ids.SignIn).Holder(ctx, token)
}

// EndedSince implements connecting.People.
func (p people) EndedSince(ctx context.Context, q db.Querier, user string, since time.Time) (bool, error) {
	return signin.NewIdentifier(p.ids.SignIn).EndedSince(ctx, q, user, since)
}

// Providers implements connecting.People.
func (p people) Providers(ctx context.Context, t id.Team) ([]connecting.IdentityProvider, error) {
	list, err := p.sso.Enabled(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make([]connecting.IdentityProvider, len(list))
	for i := range list {
		out[i] = connecting.IdentityProvider{ID: list[i].ID, Name: list[i].Name}
	}
	return out, nil
}

// StartURL implements connecting.People.
func (p people) StartURL(provider, returnTo string) string {
	return p.publicURL + ssohttp.StartPath(provider) + "?" + url.Values{"return_to": {returnTo}}.Encode()
}
