package identitytest

import (
	"database/sql"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// Wants requires that an error has a code.
func Wants(t *testing.T, code apperr.Code, err error, what string) {
	t.Helper()
	require.True(t, apperr.Is(err, code), "%s: %v", what, err)
}

// Owner creates the team with its first owner and returns them as the actor of a request.
func (w World) Owner(t *testing.T) (access.Principal, members.Profile) {
	t.Helper()
	p, err := w.Setup.CreateOwner(t.Context(), access.System("test"), "", Email, Password)
	require.NoError(t, err)
	return access.Principal{Kind: access.KindUser, ID: p.User.ID, Name: p.User.Email, Team: p.Team.ID, Rights: p.Rights}, p
}

// LogIn signs in from the address of Client.
func (w World) LogIn(t *testing.T, email string, password secretbox.Secret) (signin.SignIn, error) {
	t.Helper()
	return w.SignIn.Login(t.Context(), Client(), signin.Credentials{Email: email, Password: password}, "")
}

// SignedIn signs the owner in.
func (w World) SignedIn(t *testing.T) signin.SignIn {
	t.Helper()
	in, err := w.LogIn(t, Email, Password)
	require.NoError(t, err)
	return in
}

// Refreshed exchanges a refresh token that must hold.
func (w World) Refreshed(t *testing.T, token signin.RefreshToken) signin.SignIn {
	t.Helper()
	in, err := w.SignIn.Refresh(t.Context(), Client(), token)
	require.NoError(t, err)
	return in
}

// SessionsOf returns the user's sessions, newest first.
func (w World) SessionsOf(t *testing.T, actor access.Principal) []signin.Session {
	t.Helper()
	list, err := w.SignIn.ListSessions(t.Context(), actor, page.Request{Limit: page.MaxLimit})
	require.NoError(t, err)
	return list
}

// Bearer returns who is behind an access token that must hold.
func (w World) Bearer(t *testing.T, token secretbox.Secret) access.Principal {
	t.Helper()
	p, err := w.Principals.Bearer(t.Context(), token.Reveal())
	require.NoError(t, err)
	return p
}

// Refused requires that an access token does not hold.
func (w World) Refused(t *testing.T, token secretbox.Secret) {
	t.Helper()
	_, err := w.Principals.Bearer(t.Context(), token.Reveal())
	require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
}

// Key creates a key of an environment and returns it with its text.
func (w World) Key(t *testing.T, actor access.Principal, env id.Environment,
	grants ...apikeys.Grant) (apikeys.Key, string) {
	t.Helper()
	k, secret, err := w.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "service", Environment: env,
		Grants: grants})
	require.NoError(t, err)
	return k, secret.Reveal()
}

// Allow returns a grant that opens routes.
func Allow(routes ...access.Route) apikeys.Grant {
	return apikeys.Grant{Effect: apikeys.Allow, Routes: routes}
}

// Deny returns a grant that closes routes.
func Deny(routes ...access.Route) apikeys.Grant {
	return apikeys.Grant{Effect: apikeys.Deny, Routes: routes}
}

// Foreign adds another team with one environment and one key, and returns its owner as an actor.
func (w World) Foreign(t *testing.T) (access.Principal, id.Environment, apikeys.Key) {
	t.Helper()
	other, env := id.Team(id.New(id.PrefixTeam)), id.Environment(id.New(id.PrefixEnvironment))
	w.Exec(t, "INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Others', 1)", other)
	w.Exec(t, "INSERT INTO environments (id, team_id, name, type, created_ms) VALUES ($1, $2, $3, $4, 1)", env, other,
		team.Development, team.Test)
	actor := w.Person(t, other, "owner@others.test", access.Owner)
	k, _ := w.Key(t, actor, env)
	return actor, env, k
}

// Person adds a member with roles in the whole team and returns them as the actor of a request.
func (w World) Person(t *testing.T, teamID id.Team, email string, roles ...access.Role) access.Principal {
	t.Helper()
	user := members.User{ID: id.New(id.PrefixUser), Email: email}
	require.NoError(t, w.Store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, members.AddUser(t.Context(), tx, user, "x", 1))
		return members.AddMembership(t.Context(), tx, teamID, user.ID, 1)
	}))
	for _, r := range roles {
		w.Bind(t, teamID, user.ID, r, "", nil)
	}
	return w.Actor(t, teamID, user.ID)
}

// Bind gives a user a role straight in the database; env is empty for the team, expires nil for never.
func (w World) Bind(t *testing.T, teamID id.Team, user string, role access.Role, env id.Environment,
	expires *int64) string {
	t.Helper()
	bindingID := id.New(id.PrefixBinding)
	var in any
	if env != "" {
		in = env
	}
	w.Exec(t, `INSERT INTO role_bindings (id, team_id, principal_type, principal_id, role, environment_id, created_ms,
			expires_ms) VALUES ($1, $2, 'user', $3, $4, $5, $6, $7)`, bindingID, teamID, user, role, in,
		clock.Millis(w.Clock.Now()), expires)
	return bindingID
}

// BindingOf returns the id of the binding that gives a user a role.
func (w World) BindingOf(t *testing.T, user string, role access.Role) string {
	t.Helper()
	var bindingID string
	require.NoError(t, w.Store.DB.Read().QueryRowContext(t.Context(),
		"SELECT id FROM role_bindings WHERE principal_id = $1 AND role = $2", user, role).
		Scan(&bindingID))
	return bindingID
}

// Actor returns a member with the rights that they have now.
func (w World) Actor(t *testing.T, teamID id.Team, user string) access.Principal {
	t.Helper()
	p, ok, err := members.ReadPrincipal(t.Context(), w.Store.DB.Read(), teamID, user, "", w.Clock.Now())
	require.NoError(t, err)
	require.True(t, ok)
	return p
}

// Invited invites a person.
func (w World) Invited(t *testing.T, actor access.Principal, email string,
	g members.RoleGrant) invitations.SentInvitation {
	t.Helper()
	sent, err := w.Invitations.Invite(t.Context(), actor, invitations.NewInvitation{Email: email, Role: g.Role,
		Environment: g.Environment})
	require.NoError(t, err)
	return sent
}

// ResetToken asks for a link to reset a password and returns the token that was mailed; empty where no mail was.
func (w World) ResetToken(t *testing.T, p *Postbox, c access.Client, email string) signin.ResetToken {
	t.Helper()
	before := len(p.Mails)
	require.NoError(t, w.SignIn.RequestReset(t.Context(), c, email))
	require.Len(t, p.Mails, before, "nobody waits for a mail to be written")
	w.SendResets(t)
	if len(p.Mails) == before {
		return ""
	}
	require.Len(t, p.Mails, before+1)
	found := regexp.MustCompile(regexp.QuoteMeta(Issuer) + `/password-reset#(spr_[0-9a-z]{26})\n`).FindStringSubmatch(
		p.Mails[before].Text)
	require.NotNil(t, found, p.Mails[before].Text)
	return signin.ResetToken(found[1])
}

// SendResets does what the worker of password resets does.
func (w World) SendResets(t *testing.T) {
	t.Helper()
	_, err := w.SignIn.SendResets(t.Context())
	require.NoError(t, err)
	require.Zero(t, w.Count(t, "password_reset_requests"))
}
