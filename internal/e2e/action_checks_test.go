package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A check is right about keys, inputs and states of connections: the execution that follows ends as it has said. The
// check sends nothing.
func TestChecksOfActions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := newAPI(w.t)
		for _, name := range []string{"active", "off"} {
			w.apiConnection(w.dev(), a, name)
		}
		w.call(w.dev(), http.MethodPost, "/connections/http/off", object{"operation": "disable"}).want(w, http.StatusOK)
		of := func(more object) object {
			g := object{"routes": []string{"actions"}}
			for name, value := range more {
				g[name] = value
			}
			return g
		}
		keys := []credentials{w.dev(), w.user(w.env), byKey(w.newKey(w.env, of(object{"max_risk": "low"})).Key),
			byKey(w.newKey(w.env, of(object{"connections": []string{"active"}})).Key),
			byKey(w.newKey(w.env, allow("actions"), of(object{"effect": "deny", "methods": []string{"POST"}})).Key)}
		inputs := []string{`{"path":"a"}`, `{}`, `{"path":1}`, `{"path":"a/../b"}`, `{"path":"a","nothing":1}`, `[]`}
		outcomes := map[string]int{}
		for _, key := range keys {
			for _, connection := range []string{"active", "off", "nothing"} {
				for _, action := range []string{"get", "post", "delete", "nothing"} {
					for _, input := range inputs {
						sent := a.count("/a")
						checked := w.call(key, http.MethodPost, "/actions/http/"+action+"/policy-check",
							raw(`{"connection_id":"`+connection+`","input":`+input+`}`))
						require.Equal(w.t, sent, a.count("/a"))
						run := w.call(key, http.MethodPost, "/actions/execute", raw(`{"provider":"http","connection_id":"`+
							connection+`","action":"`+action+`","input":`+input+`}`))
						name := connection + " " + action + " " + input
						if checked.status != http.StatusOK {
							require.Equal(w.t, checked.status, run.status, name)
							require.Equal(w.t, checked.problem(w), run.problem(w), name)
							outcomes["refused"]++
							continue
						}
						var c struct {
							Decision   string
							InputValid bool `json:"input_valid"`
							Connection struct {
								Ready bool
								Code  string
							}
						}
						checked.into(w, &c)
						require.Equal(w.t, "allow", c.Decision)
						switch {
						case !c.InputValid:
							require.Equal(w.t, http.StatusUnprocessableEntity, run.status, name)
							outcomes["input"]++
						case !c.Connection.Ready:
							require.Equal(w.t, http.StatusConflict, run.status, name)
							require.Equal(w.t, c.Connection.Code, run.problem(w)[0], name)
							outcomes["not ready"]++
						default:
							run.want(w, http.StatusOK)
							outcomes["run"]++
						}
					}
				}
			}
		}
		require.Len(w.t, outcomes, 4, "%v", outcomes)
		var open struct {
			InputValid *bool `json:"input_valid"`
			Details    []any
		}
		w.call(w.dev(), http.MethodPost, "/actions/http/post/policy-check", object{"connection_id": "active"}).
			want(w, http.StatusOK).into(w, &open)
		require.Nil(w.t, open.InputValid)
		require.Empty(w.t, open.Details)
	})
}

// problem returns the code and the message of an error.
func (a response) problem(w *world) []string {
	w.t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	a.into(w, &e)
	return []string{e.Error.Code, e.Error.Message}
}
