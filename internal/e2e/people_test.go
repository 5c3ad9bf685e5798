package e2e_test

import (
	"database/sql"
	"net/http"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// apiKey is a key as its creation shows it.
type apiKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

// newKey creates a key of an environment with grants, each an object as in the API.
func (w *world) newKey(environment string, grants ...object) apiKey {
	w.t.Helper()
	body := object{"name": "test", "environment_id": environment}
	if len(grants) > 0 {
		body["grants"] = grants
	}
	var k apiKey
	w.call(w.user(""), http.MethodPost, "/api-keys", body).want(w, http.StatusCreated).into(w, &k)
	return k
}

func allow(routes ...string) object { return object{"effect": "allow", "routes": routes} }

func deny(routes ...string) object { return object{"effect": "deny", "routes": routes} }

// member adds a user with a role to a team, with the owner's password, and returns their token. No operation adds users
// yet.
func (w *world) member(team, email, role string) string {
	w.t.Helper()
	w.addMember(team, email, role)
	return w.login(email, w.password)
}

// addMember is member without a sign-in; it returns the user's id.
func (w *world) addMember(team, email, role string) string {
	w.t.Helper()
	now, user := clock.Millis(w.clk.Now()), id.New(id.PrefixUser)
	w.change(`INSERT INTO users (id, email, password_hash, created_ms, updated_ms) SELECT $1, $2, password_hash, $3, $4
		FROM users WHERE email = $5`,
		user, email, now, now, w.email)
	w.change(`INSERT INTO memberships (team_id, user_id, role, created_ms) VALUES ($1, $2, '', $3)`, team, user, now)
	w.change(`INSERT INTO role_bindings (id, team_id, principal_type, principal_id, role, created_ms)
		VALUES ($1, $2, 'user', $3, $4, $5)`,
		id.New(id.PrefixBinding), team, user, role, now)
	return user
}

// invitation is one as its creation shows it.
type invitation struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Token  string `json:"token"`
	Mailed bool   `json:"mailed"`
}

// invite invites a person as a viewer.
func (w *world) invite(email string, scope object) invitation {
	w.t.Helper()
	var i invitation
	w.call(w.user(""), http.MethodPost, "/team/invitations", object{"email": email, "role": "viewer",
		"scope": scope}).want(w, http.StatusCreated).into(w, &i)
	return i
}

// removeMember takes a user out of their team.
func (w *world) removeMember(email string) {
	w.t.Helper()
	w.change(`DELETE FROM memberships WHERE user_id IN (SELECT id FROM users WHERE email = $1)`, email)
}

// team returns the id of the team that development mode made.
func (w *world) team() string {
	w.t.Helper()
	var me struct {
		Team struct {
			ID string `json:"id"`
		} `json:"team"`
	}
	w.call(w.user(""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
	return me.Team.ID
}

// otherTeam makes a team with one environment and an owner, and returns the environment and the owner's token. No
// operation makes a second team, but nothing may rest on there being one.
func (w *world) otherTeam() (environment, token string) {
	w.t.Helper()
	now, team := clock.Millis(w.clk.Now()), id.New(id.PrefixTeam)
	environment = id.New(id.PrefixEnvironment)
	w.change(`INSERT INTO teams (id, name, created_ms) VALUES ($1, $2, $3)`, team, "Others", now)
	w.change(`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $3, $4)`, environment, team,
		"development", now)
	return environment, w.member(team, "other@example.test", "owner")
}

func (w *world) change(statement string, args ...any) {
	w.t.Helper()
	require.NoError(w.t, w.database().Tx(w.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(w.t.Context(), statement, args...)
		return err
	}))
}
