package e2e_test

import (
	"net/http"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

type actionFixtures struct {
	// connection is the id of a connection of the provider http, and execution that of an execution with an output.
	connection, execution string
}

// execution is an execution, as far as tests look at it.
type execution struct {
	ID       string `json:"execution_id"`
	Status   string `json:"status"`
	Version  string `json:"version"`
	Output   any    `json:"output"`
	Replayed bool   `json:"idempotent_replay"`
	Stored   bool   `json:"output_stored"`
	Cut      bool   `json:"output_truncated"`
	URL      string `json:"output_url"`
	Input    object `json:"input"`
	Attempts []callAttempt
	Upstream callUpstream
	Policy   struct {
		DecisionID string `json:"decision_id"`
		Decision   string `json:"decision"`
	} `json:"policy"`
	Error   callError `json:"error"`
	Request struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	} `json:"request"`
}

type callAttempt struct {
	Number, Status int
	Code           string
	Sent           bool
}

type callUpstream struct {
	Status    int
	Message   string
	Body      any
	Truncated bool `json:"body_truncated"`
}

// callError is the error of a call.
type callError struct {
	Code, Message, Source, Effect string
	Retryable                     bool
	RetryAfterMS                  int64  `json:"retry_after_ms"`
	ExecutionID                   string `json:"execution_id"`
	Attempts                      []callAttempt
	Upstream                      callUpstream
}

// Actions covers executions of actions, and the log of calls.
func (capabilities) Actions() capability {
	return capability{
		create: func(w *world, c credentials, f fixtures) {
			w.t.Helper()
			own := actionFixtures{connection: f.name + "-calls"}
			w.connect(c, object{"provider": "http", "connection_id": own.connection,
				"credentials": object{"token": "secret-token-" + f.name}, "auth_mode": "bearer",
				"connection_config": object{"base_url": fixtureServers().issuer}})
			var e execution
			w.call(c, http.MethodPost, "/actions/execute", own.post()).want(w, http.StatusOK).into(w, &e)
			require.Equal(w.t, "succeeded", e.Status)
			own.execution = e.ID
			w.call(c, http.MethodPost, "/actions/execute", own.post()).want(w, http.StatusOK).into(w, &e)
			w.awaitRecorded(f.environment, e.ID) // lists have a second page
			w.awaitRecorded(f.environment, own.execution)
			f.put(own)
		},
		samples: func(_ *world, f fixtures) []sample {
			own := part[actionFixtures](f)
			path := map[string]string{"id": own.execution}
			return []sample{
				{id: "execute-action", body: own.post(), status: http.StatusOK,
					unrecorded: "calls are recorded in the log of calls"},
				{id: "check-action", path: map[string]string{"provider": "http", "action_name": "post"},
					body: object{"connection_id": own.connection, "input": own.post()["input"]}, status: http.StatusOK,
					unrecorded: "it changes nothing"},
				{id: "list-executions", status: http.StatusOK},
				{id: "get-execution", path: path, status: http.StatusOK},
				{id: "get-execution-output", path: path, status: http.StatusOK},
				{id: "list-decisions", status: http.StatusOK},
				{id: "get-decision", path: path, status: http.StatusOK},
			}
		},
		references: map[string]func(r foreign, operation, field string){
			"execute-action connection_id": func(r foreign, operation, field string) {
				r.w.t.Helper()
				r.change(r.inside, operation, part[actionFixtures](r.own).connection, field).refused(r.w, http.StatusNotFound,
					apperr.CodeConnectionNotFound)
			},
			"check-action connection_id": func(r foreign, operation, field string) {
				r.w.t.Helper()
				r.change(r.inside, operation, part[actionFixtures](r.own).connection, field).refused(r.w, http.StatusNotFound,
					apperr.CodeConnectionNotFound)
			},
			"execute-action agent_id": func(foreign, string, string) {}, // it is recorded, and names nothing
			"check-action agent_id":   func(foreign, string, string) {}, // it names nothing
		},
		lists: map[string]map[string]string{
			"list-executions": {"provider": "http", "connection_id": "a", "action": "post", "status": "failed",
				"error_code": "provider_error", "created_after": "2026-01-01T00:00:00.000Z",
				"created_before": "2026-01-01T00:00:00.000Z"},
			"list-decisions": {"provider": "http", "connection_id": "a", "action": "post",
				"execution_id": "01980000-0000-7000-8000-000000000000", "principal_id": "key_1", "effect": "deny",
				"outcome": "failed", "risk": "high", "after": "2026-01-01T00:00:00.000Z",
				"before": "2026-01-01T00:00:00.000Z"},
		},
	}
}

func (f actionFixtures) post() object {
	return object{"provider": "http", "connection_id": f.connection, "action": "post",
		"input": object{"path": "things", "body": object{"name": "a"}}}
}

// awaitRecorded waits until the end of an execution is stored, and returns it.
func (w *world) awaitRecorded(environment, executionID string) (e execution) {
	w.t.Helper()
	w.ticking("the record of an execution", func() bool {
		a := w.call(w.user(environment), http.MethodGet, "/actions/executions/"+executionID, nil)
		if a.status != http.StatusOK {
			return false
		}
		e = execution{}
		a.into(w, &e)
		return e.Status != "running"
	})
	return e
}
