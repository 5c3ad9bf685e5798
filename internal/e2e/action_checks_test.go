package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
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

// shopDefinition has an action that the provider recognises by a key, and one that changes something with GET.
const shopDefinition = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.example.com"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: bearer
health:
  probes: [{path: /me, account: {id: /id}}]
request:
  follow_redirects: reads
idempotency: {header: Idempotency-Key, methods: [POST]}
actions:
  inline:
    create_order: {title: Create an order, method: POST, path: /orders}
    cancel_order: {title: Cancel an order, method: GET, path: /cancel, risk: {level: high, operation: update}}
    list_orders: {title: List orders, method: GET, path: /list}
`

// An error says what may have happened on any attempt, not on the last one alone. A call that writes with GET follows
// no redirect, as that would be another request for something that is done.
func TestEffectsOfSeveralRequests(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		var mu sync.Mutex
		seen := map[string]int{}
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[r.URL.Path]++
			first := seen[r.URL.Path] == 1
			mu.Unlock()
			out.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/orders":
				if first {
					out.WriteHeader(http.StatusBadGateway)
				} else {
					out.WriteHeader(http.StatusBadRequest)
				}
			case "/cancel", "/list":
				http.Redirect(out, r, "/moved", http.StatusFound)
			default:
				_, _ = io.WriteString(out, `{"id":"1"}`)
			}
		}))
		await.Close(w.t, server)
		count := func(path string) int {
			mu.Lock()
			defer mu.Unlock()
			return seen[path]
		}
		w.connect(w.dev(), object{"provider": "acme", "connection_id": "shop",
			"connection_config": object{"base_url": server.URL}, "credentials": object{"token": "good"}})
		run := func(action string) (got response) {
			responses := make(chan response, 1)
			go func() {
				responses <- w.call(w.dev(), http.MethodPost, "/actions/execute", object{"provider": "acme",
					"connection_id": "shop", "action": action})
			}()
			w.ticking(action, func() bool {
				select {
				case got = <-responses:
					return true
				default:
					return false
				}
			})
			return got
		}
		e := run("create_order").failedCall(w, 424, apperr.CodeProviderError)
		require.Len(w.t, e.Attempts, 2)
		require.Equal(w.t, "unknown", e.Effect, "the first attempt may have made the order")
		run("cancel_order").failedCall(w, 424, apperr.CodeProviderError)
		require.Equal(w.t, []int{1, 0}, []int{count("/cancel"), count("/moved")})
		run("list_orders").want(w, http.StatusOK)
		require.Equal(w.t, []int{1, 1}, []int{count("/list"), count("/moved")})
	}, definitionsFolder(shopDefinition))
}
