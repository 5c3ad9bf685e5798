package e2e_test

import (
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

type connectionFixtures struct {
	// first takes GitHub's deliveries, and has two webhook secrets; secret is the id of one. There is another connection
	// of the name with "-second".
	first  connection
	secret string
	// enrolling is a connection whose enrolment holds a secret that awaits confirmation.
	enrolling connection
}

func (f fixtures) connection() connection { return part[connectionFixtures](f).first }

// Connections covers connections, their webhook secrets and enrolments.
func (capabilities) Connections() capability {
	return capability{
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			own := connectionFixtures{first: w.connect(c, object{"provider": "github", "connection_id": f.name,
				"webhook_secret": githubSecret})}
			w.connect(c, object{"provider": "generic-hmac", "connection_id": f.name + "-second", "tags": object{"a": "b"}})
			own.secret = w.created(c, "/connections/github/"+f.name+"/webhook-secrets",
				object{"secret": githubSecret + " next"})
			own.enrolling = w.connect(c, object{"provider": "notion", "connection_id": f.name + "-enrolling"})
			w.call(c, http.MethodPost, "/connections/notion/"+own.enrolling.ConnectionID+"/webhook-enrolment", nil).want(w,
				http.StatusCreated)
			w.call(anonymous, http.MethodPost, "/webhook/"+own.enrolling.pathToken(),
				raw(`{"verification_token":"secret_of_the_handshake"}`)).want(w, http.StatusOK)
			// No probe of the provider http leaves the machine: it has none.
			w.connect(c, object{"provider": "http", "connection_id": f.name + "-api", "credentials": object{"token": "secret"},
				"connection_config": object{"base_url": "https://api.example.com"}})
			issuer := fixtureServers().issuer
			w.connect(c, object{"provider": "http", "connection_id": f.name + "-tokens",
				"auth_mode": "oauth2_client_credentials", "credentials": object{"client_id": "me", "client_secret": "secret"},
				"connection_config": object{"base_url": issuer, "token_url": issuer + "/token"}})
			f.put(own)
		},
		samples: connectionSamples,
		lists: map[string]map[string]string{
			"list-connections": {"provider": "github", "status": "active", "health": "healthy",
				"auth_mode": "none", "owner_user_id": "usr_00000000000000000000000000", "tag.a": "b", "q": "a"},
		},
		references: map[string]func(r foreign, operation, field string){
			"create-connection connection_id": func(foreign, string, string) {}, // names what is made; see TestSameNames
			"create-connection user_id": func(r foreign, operation, _ string) {
				r.w.t.Helper()
				a := r.change(r.inside, operation, object{"user_id": r.stranger()}, "connect")
				require.Contains(r.w.t, a.violations(r.w), "body.connect.user_id exists")
			},
			"operate-connection user_id": func(r foreign, operation, _ string) {
				r.w.t.Helper()
				a := r.w.callSample(r.inside, r.samples[operation], object{"operation": "reconnect",
					"connect": object{"user_id": r.stranger()}})
				require.Equal(r.w.t, []string{"body.connect.user_id coherent"}, a.violations(r.w))
			},
		},
		private: func(f fixtures) []string { return []string{f.connection().UUID, f.connection().pathToken()} },
	}
}

// stranger is the owner of another team.
func (r foreign) stranger() string {
	r.w.t.Helper()
	var me struct {
		User struct{ ID string } `json:"user"`
	}
	r.w.call(byToken(r.otherToken, ""), http.MethodGet, "/team/me", nil).want(r.w, http.StatusOK).into(r.w, &me)
	return me.User.ID
}

// connection requires that a field that names a connection finds none of another environment.
func (r foreign) connection(operation, field string) {
	r.w.t.Helper()
	r.missing(operation, field, r.own.connection().ConnectionID)
}

func connectionSamples(_ *world, f fixtures) []sample {
	own := part[connectionFixtures](f)
	path := map[string]string{"provider": "github", "connection_id": own.first.ConnectionID}
	enrolling := map[string]string{"provider": "notion", "connection_id": own.enrolling.ConnectionID}
	tokens := map[string]string{"provider": "http", "connection_id": f.name + "-tokens"}
	return []sample{
		{id: "create-connection", body: object{"provider": "github", "on_conflict": "update", "connection_id": "sample-" +
			strings.ToLower(f.environment[4:])}, status: http.StatusCreated},
		{id: "create-connection", body: object{"provider": "http", "auth_mode": "bearer", "connect": object{"state": "s"},
			"connection_config": object{"base_url": "https://api.example.com"}}, status: http.StatusCreated},
		{id: "list-connections", status: http.StatusOK},
		{id: "get-connection", path: path, status: http.StatusOK},
		{id: "test-connection", path: map[string]string{"provider": "http", "connection_id": f.name + "-api"},
			status: http.StatusOK, unrecorded: "a test changes nothing that anyone has set"},
		{id: "update-connection", path: path, body: object{"tags": object{"sample": "yes"}}, status: http.StatusOK},
		{id: "list-webhook-secrets", path: path, status: http.StatusOK},
		{id: "create-webhook-secret", path: path, body: object{"secret": "0123456789abcdef", "label": "sample"},
			status: http.StatusCreated},
		{id: "delete-webhook-secret", path: map[string]string{"provider": "github",
			"connection_id": own.first.ConnectionID, "secret_id": own.secret}, status: http.StatusNoContent},
		{id: "send-webhook-sample", path: path, body: object{"event_type": "push"}, status: http.StatusCreated},
		{id: "get-webhook-enrolment", path: enrolling, status: http.StatusOK},
		{id: "confirm-webhook-enrolment", path: enrolling, status: http.StatusOK},
		{id: "open-webhook-enrolment", path: enrolling, status: http.StatusCreated},
		{id: "delete-webhook-enrolment", path: enrolling, status: http.StatusNoContent},
		{id: "operate-connection", path: path, body: object{"tags": object{"sample": nil}}, status: http.StatusOK},
		{id: "operate-connection", path: tokens, body: object{"operation": "refresh"}, status: http.StatusOK},
		{id: "operate-connection", path: tokens, body: object{"operation": "reconnect", "connect": object{"state": "s"}},
			status: http.StatusOK},
		{id: "operate-connection", path: tokens, body: object{"operation": "revoke"}, status: http.StatusOK,
			stage: removes},
		{id: "operate-connection", path: path, body: object{"operation": "disable"}, status: http.StatusOK,
			stage: removes},
		{id: "delete-connection", path: path, status: http.StatusNoContent, stage: removes},
	}
}
