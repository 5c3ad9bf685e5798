package e2e_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

type auditEvent struct {
	ID    string `json:"id"`
	Seq   int    `json:"seq"`
	Actor struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		IP   string `json:"ip"`
	} `json:"actor"`
	Action    string                    `json:"action"`
	Target    struct{ Type, ID string } `json:"target"`
	RequestID string                    `json:"request_id"`
	Changes   struct {
		Before *string `json:"before_digest"`
		After  *string `json:"after_digest"`
		Diff   map[string]struct {
			Before json.RawMessage `json:"before"`
			After  json.RawMessage `json:"after"`
		} `json:"diff"`
	} `json:"changes"`
}

// trail waits until the trail has n events and returns it, oldest first.
func (w *world) trail(query string, n int) []auditEvent {
	w.t.Helper()
	var list []auditEvent
	w.ticking("audit events", func() bool {
		list = nil
		w.call(w.user(""), http.MethodGet, "/admin/audit-events?limit=250&order=asc&"+query, nil).want(w, http.StatusOK).into(
			w, &list)
		return len(list) >= n
	})
	require.Len(w.t, list, n)
	return list
}

// Every change is recorded with who did what to which object, numbered without gaps within its trail, without any
// secret. The trail can be exported as a whole, in either form, from where the last export ended. Records of an
// environment outlive it.
func TestAuditTrail(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		before := len(w.trail("", 0+w.trailLength("")))
		var env struct {
			ID string `json:"id"`
		}
		w.call(w.user(""), http.MethodPost, "/team/environments", object{"name": "audited"}).want(w, http.StatusCreated).into(
			w, &env)
		in := w.user(env.ID)
		c := w.connect(in, object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		w.call(in, http.MethodPatch, "/connections/github/acme", object{"tags": object{"team": "a,\"b\"\n"}}).want(w,
			http.StatusOK)
		w.call(in, http.MethodDelete, "/connections/github/acme", nil).want(w, http.StatusNoContent)
		var key struct {
			ID, Key string
		}
		w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "=1+1", "environment_id": env.ID,
			"grants": []object{{"effect": "allow", "routes": []string{"connections"}, "connections": []string{"*"}}}}).want(
			w, http.StatusCreated).into(w, &key)
		w.call(byKey(key.Key), http.MethodPost, "/connections", object{"provider": "github", "connection_id": "by-key"}).want(
			w, http.StatusCreated)
		w.call(in, http.MethodDelete, "/connections/github/by-key", nil).want(w, http.StatusNoContent)
		w.call(w.user(""), http.MethodDelete, "/api-keys/"+key.ID, nil).want(w, http.StatusNoContent)
		w.call(w.user(""), http.MethodDelete, "/team/environments/"+env.ID, nil).want(w, http.StatusNoContent)

		own := "environment_id=" + env.ID
		list := w.trail(own, 9)
		actions := []string{}
		for i, e := range list {
			require.Equal(w.t, i+1, e.Seq)
			require.Equal(w.t, map[bool]string{true: "api_key", false: "user"}[i == 5], e.Actor.Type)
			require.Equal(w.t, "127.0.0.1", e.Actor.IP)
			actions = append(actions, e.Action)
		}
		require.Equal(w.t, []string{"environment.create", "connection.create", "connection.update", "connection.delete",
			"api_key.create", "connection.create", "connection.delete", "api_key.delete", "environment.delete"}, actions)
		require.Equal(w.t, c.UUID, list[1].Target.ID)
		require.JSONEq(w.t, `"[redacted]"`, string(list[1].Changes.Diff["webhook.path"].After))
		require.JSONEq(w.t, `{"team":"a,\"b\"\n"}`, string(list[2].Changes.Diff["tags"].After))
		w.trail("", before)

		get := func(query string) response {
			return w.call(w.user(""), http.MethodGet, "/admin/audit-events"+query, nil)
		}
		count := func(query string) int {
			var found []auditEvent
			get("?"+own+query).want(w, http.StatusOK).into(w, &found)
			return len(found)
		}
		require.Equal(w.t, 5, count("&action=connection.*"))
		require.Equal(w.t, 1, count("&action=connection.update&actor_type=user&outcome=success"))
		require.Equal(w.t, 3, count("&target_id="+c.UUID))
		require.Equal(w.t, 1, count("&actor_type=api_key"))
		require.Zero(w.t, count("&time_after="+w.clk.Now().Add(time.Hour).UTC().Format(time.RFC3339)))

		whole := get("/export?"+own).want(w, http.StatusOK)
		lines := strings.Split(strings.TrimSuffix(string(whole.body), "\n"), "\n")
		require.Len(w.t, lines, 9)
		require.NotContains(w.t, string(whole.body), githubSecret)
		rest := get("/export?"+own+"&after_seq=3").want(w, http.StatusOK)
		require.Equal(w.t, strings.Join(lines[3:], "\n")+"\n", string(rest.body))
		require.Empty(w.t, get("/export?"+own+"&after_seq=9").want(w, http.StatusOK).body)
		table := get("/export?"+own+"&format=csv").want(w, http.StatusOK)
		rows, err := csv.NewReader(strings.NewReader(string(table.body))).ReadAll()
		require.NoError(w.t, err)
		require.Len(w.t, rows, 10)
		require.Equal(w.t, "seq", rows[0][0])
		require.Equal(w.t, "'=1+1", rows[6][6], "no formula for a spreadsheet")
		for i, row := range rows[1:] {
			require.Equal(w.t, strconv.Itoa(i+1), row[0])
			require.Equal(w.t, list[i].ID, row[1])
		}

		for query, violation := range map[string]string{
			"?action=connection": "query.action[0] pattern", "?outcome=good": "query.outcome[0] enum",
			"?environment_id=": "query.environment_id empty", "/export?format=xml": "query.format enum",
			"/export?after_seq=-1": "query.after_seq minimum", "?cursor=x": "query.cursor cursor",
		} {
			require.Equal(w.t, []string{violation}, get(query).violations(w), query)
		}
		_, otherToken := w.otherTeam()
		for _, path := range []string{"/admin/audit-events?", "/admin/audit-events/export?"} {
			w.call(byToken(otherToken, ""), http.MethodGet, path+own, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
			w.call(w.dev(), http.MethodGet, path+own, nil).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		}
	})
}

// The header Environment-Id selects a trail as the parameter does, also on further pages, and must not contradict it.
// With neither, the trail is that of the team.
func TestTrailOfTheHeader(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connect(w.user(w.env), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		w.call(w.user(w.env), http.MethodDelete, "/connections/github/acme", nil).want(w, http.StatusNoContent)
		own := "environment_id=" + w.env
		n := len(w.trail(own, w.trailLength(own)))
		for _, path := range []string{"/admin/audit-events?limit=250", "/admin/audit-events/export?format=jsonl"} {
			get := func(c credentials, query string) response { return w.call(c, http.MethodGet, path+query, nil) }
			want := get(w.user(""), "&"+own).want(w, http.StatusOK)
			require.Equal(w.t, string(want.body), string(get(w.user(w.env), "").want(w, http.StatusOK).body))
			require.Equal(w.t, string(want.body), string(get(w.user(w.env), "&"+own).want(w, http.StatusOK).body))
			require.NotEqual(w.t, string(want.body), string(get(w.user(""), "").want(w, http.StatusOK).body))
			other := w.environment("production")
			require.Equal(w.t, []string{"query.environment_id equal"}, get(w.user(other), "&"+own).violations(w))
			twice := ifHeader(w.user(""), "Environment-Id", w.env, w.env)
			require.Equal(w.t, []string{"header.Environment-Id single"}, get(twice, "").violations(w))
			get(w.user("env_nothing"), "").refused(w, http.StatusNotFound, apperr.CodeNotFound)
		}
		found := 0
		for next := "/admin/audit-events?limit=1"; next != ""; found++ {
			a := w.call(w.user(w.env), http.MethodGet, next, nil).want(w, http.StatusOK)
			if next = ""; a.header.Get("X-Next-Cursor") != "" {
				next = "/admin/audit-events?limit=1&cursor=" + a.header.Get("X-Next-Cursor")
			}
		}
		require.Equal(w.t, n, found)
	})
}

// Every operation that changes something leaves an event of its request: a new object without a before, a deleted one
// without an after, a changed one with both and with the fields that differ. The before of an event equals the after of
// the one before it.
func TestEveryChangeIsOnRecord(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		made := map[string]sample{}
		for _, s := range w.samples(f) {
			if s.op.ID == "logout" {
				break // without its session no one may read the trail
			}
			a := w.callSample(w.user(w.env), s).want(w, s.status)
			if s.op.Method != http.MethodGet {
				made[a.header.Get("X-Request-Id")] = s
			}
		}
		list := []auditEvent{}
		var environments []struct{ ID string }
		w.call(w.user(""), http.MethodGet, "/team/environments", nil).want(w, http.StatusOK).into(w, &environments)
		environments = append(environments, struct{ ID string }{part[teamFixtures](f).spare})
		list = append(list, w.trail("", w.trailLength(""))...)
		for _, env := range environments {
			query := "environment_id=" + env.ID
			list = append(list, w.trail(query, w.trailLength(query))...)
		}
		recorded, last := map[string]bool{}, map[string]*string{}
		for _, e := range list {
			recorded[made[e.RequestID].id] = true
			c := e.Changes
			if before, known := last[e.Target.ID]; known && (c.Before != nil || c.After != nil) {
				require.Equal(w.t, before, c.Before, "%s: nothing changed it unrecorded", e.Action)
			}
			if c.Before != nil || c.After != nil {
				last[e.Target.ID] = c.After
			}
			if _, verb, _ := strings.Cut(e.Action, "."); verb == "create" && e.Target.Type != "session" {
				require.Nil(w.t, c.Before, e.Action)
				require.NotNil(w.t, c.After, e.Action)
			} else if verb == "delete" {
				require.NotNil(w.t, c.Before, e.Action)
				require.Nil(w.t, c.After, e.Action)
			} else if verb == "update" {
				require.NotEqual(w.t, c.Before, c.After, e.Action)
				require.NotEmpty(w.t, c.Diff, e.Action)
			}
		}
		for _, s := range made {
			require.NotEqual(w.t, s.unrecorded != "", recorded[s.id], s.id)
		}
	})
}

// trailLength waits until the trail no longer grows by itself, and returns its length.
func (w *world) trailLength(query string) int {
	w.t.Helper()
	seen := []int{}
	w.ticking("a settled trail", func() bool {
		var list []auditEvent
		w.call(w.user(""), http.MethodGet, "/admin/audit-events?limit=250&"+query, nil).want(w, http.StatusOK).into(w, &list)
		seen = append(seen, len(list))
		return len(seen) > 3 && slices.Equal(seen[len(seen)-3:], slices.Repeat(seen[len(seen)-1:], 3)) &&
			seen[len(seen)-1] > 0
	})
	return seen[len(seen)-1]
}
