package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
)

// ifHeader adds a condition to a caller's requests: several values are several lines.
func ifHeader(c credentials, name string, values ...string) credentials {
	return func(h http.Header) {
		c(h)
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// withoutLimits lifts the rate limits.
func withoutLimits(c *config.Config) {
	c.RateLimitKeyPerSecond, c.RateLimitUserPerSecond, c.RateLimitAddressPerSecond = 100_000, 100_000, 100_000
	c.RateLimitKeyBurst, c.RateLimitUserBurst, c.RateLimitAddressBurst = 1_000_000, 1_000_000, 1_000_000
}

// changedPaths calls fn for each path whose resource a PATCH changes, with the samples of its operations by method.
func (w *world) changedPaths(f fixtures, fn func(byMethod map[string]sample)) {
	w.t.Helper()
	byPath := map[string]map[string]sample{}
	for _, s := range w.samples(f) {
		if byPath[s.op.Path] == nil {
			byPath[s.op.Path] = map[string]sample{}
		}
		if _, known := byPath[s.op.Path][s.op.Method]; !known {
			byPath[s.op.Path][s.op.Method] = s
		}
	}
	found := 0
	for _, byMethod := range byPath {
		if _, ok := byMethod[http.MethodPatch]; ok {
			found++
			fn(byMethod)
		}
	}
	require.Greater(w.t, found, 8)
}

const strongTag = `^"[A-Za-z0-9_-]{20}"$`

// tag returns the version that a response carries.
func (a response) tag(w *world) string {
	w.t.Helper()
	values := a.header.Values("ETag")
	require.Len(w.t, values, 1, "%s %s", a.method, a.path)
	require.Regexp(w.t, strongTag, values[0], "%s %s", a.method, a.path)
	return values[0]
}

// Everything that a PATCH changes has a version. A change for another version is refused and has no effect, also if it
// has no fields; one for the present version succeeds and returns the next one. A condition that cannot be read is an
// error, never one that holds.
func TestEveryUpdateTakesConditions(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		c := w.user(w.env)
		w.changedPaths(f, func(byMethod map[string]sample) {
			get, patch := byMethod[http.MethodGet], byMethod[http.MethodPatch]
			name := patch.op.ID
			require.NotEmpty(w.t, get.id, "%s: nothing returns what it changes", name)
			before := w.callSample(c, get).want(w, http.StatusOK)
			old := before.tag(w)
			require.Equal(w.t, old, w.callSample(c, get).tag(w), "%s: the version changes without a change", name)
			require.Equal(w.t, old, w.callSample(c, patch, object{}).want(w, http.StatusOK).tag(w), name)

			for _, values := range [][]string{{`"other"`}, {"W/" + old}, {`"other"`, `"` + strings.Trim(old, `"`) + `2"`}} {
				for _, body := range []object{patch.body, {}} {
					w.callSample(ifHeader(c, "If-Match", values...), patch, body).refused(w, http.StatusPreconditionFailed,
						apperr.CodePreconditionFailed)
				}
			}
			for _, values := range [][]string{{""}, {strings.Trim(old, `"`)}, {old + old}, {"*", old}} {
				require.Equal(w.t, []string{"header.If-Match format"},
					w.callSample(ifHeader(c, "If-Match", values...), patch).violations(w), values)
			}
			require.Equal(w.t, []string{"header.If-Match max_length"},
				w.callSample(ifHeader(c, "If-Match", strings.Repeat(old+",", 50)), patch).violations(w))
			after := w.callSample(c, get).want(w, http.StatusOK)
			require.Equal(w.t, old, after.tag(w), "%s: a refused change took effect", name)
			require.Equal(w.t, string(before.body), string(after.body), "%s: a refused change took effect", name)

			changed := w.callSample(ifHeader(c, "If-Match", `"other"`, `W/"weak", `+old), patch).want(w, http.StatusOK)
			require.NotEqual(w.t, old, changed.tag(w), "%s: the version survives a change", name)
			require.Equal(w.t, changed.tag(w), w.callSample(c, get).tag(w), name)
			w.callSample(ifHeader(c, "If-Match", old), patch).refused(w, http.StatusPreconditionFailed,
				apperr.CodePreconditionFailed)
			w.callSample(ifHeader(c, "If-Match", "*"), patch).want(w, http.StatusOK)

			if remove := byMethod[http.MethodDelete]; remove.id != "" {
				w.callSample(ifHeader(c, "If-Match", old), remove).refused(w, http.StatusPreconditionFailed,
					apperr.CodePreconditionFailed)
				w.callSample(c, get).want(w, http.StatusOK)
			}
			// A resource that does not exist has no version, and that is what its caller should know first.
			if missing := patch; len(patch.path) > 0 {
				missing.path = map[string]string{}
				for name := range patch.path {
					missing.path[name] = "nothing"
				}
				w.callSample(ifHeader(c, "If-Match", old), missing).want(w, http.StatusNotFound)
			}
		})
	}, withoutLimits)
}

// Operations that create, or change what has a version, return it. Those that change something and cannot compare
// versions refuse a condition instead of ignoring it; reading ignores If-Match.
func TestConditionsOfOtherOperations(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		c := w.user(w.env)
		locations := map[string]bool{}
		w.changedPaths(f, func(byMethod map[string]sample) { locations[byMethod[http.MethodPatch].op.Path] = true })
		for _, s := range w.samples(f) {
			conditional := ifHeader(c, "If-Match", `"other"`)
			switch {
			case s.op.Public || s.op.Method == http.MethodGet || s.op.Method == http.MethodPatch:
				continue
			case s.op.IfMatch:
				w.callSample(conditional, s).refused(w, http.StatusPreconditionFailed, apperr.CodePreconditionFailed)
			default:
				require.Contains(w.t, w.callSample(conditional, s).violations(w), "header.If-Match unsupported", s.id)
			}
			if item := s.op.Path + "/{id}"; s.op.Method == http.MethodPost && (locations[item] || s.id == "create-connection") {
				w.callSample(c, s).want(w, s.status).tag(w)
			}
		}
		for _, path := range []string{"/team", "/api-keys/" + f.key()} {
			w.call(ifHeader(c, "If-Match", `"other"`), http.MethodGet, path, nil).want(w, http.StatusOK)
		}
	}, withoutLimits)
}

// A client that has a resource's version gets 304 without a body, until the resource changes. Where the response shows
// more than the version covers, such as the last use of a key, it is always sent.
func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		c := w.user(w.env)
		var compared []string
		w.changedPaths(f, func(byMethod map[string]sample) {
			get := byMethod[http.MethodGet]
			old := w.callSample(c, get).want(w, http.StatusOK).tag(w)
			known := ifHeader(c, "If-None-Match", `"other"`, "W/"+old)
			if !get.op.IfNoneMatch {
				require.NotEmpty(w.t, w.callSample(known, get).want(w, http.StatusOK).body)
				return
			}
			compared = append(compared, get.id)
			a := w.callSample(known, get).want(w, http.StatusNotModified)
			require.Equal(w.t, old, a.tag(w))
			require.Empty(w.t, a.body)
			require.Empty(w.t, a.header.Values("Content-Type"))
			w.callSample(ifHeader(c, "If-None-Match", "*"), get).want(w, http.StatusNotModified)
			require.Equal(w.t, []string{"header.If-None-Match format"},
				w.callSample(ifHeader(c, "If-None-Match", "x"), get).violations(w))
			w.callSample(c, byMethod[http.MethodPatch]).want(w, http.StatusOK)
			require.NotEmpty(w.t, w.callSample(known, get).want(w, http.StatusOK).body)
		})
		slices.Sort(compared)
		require.Equal(w.t, []string{"get-environment", "get-member", "get-role", "get-role-binding", "get-team"}, compared)
	}, withoutLimits)
}

// concurrentUpdates returns, for each PATCH, a body that is different for each n.
func (w *world) concurrentUpdates() map[string]func(n int) object {
	name := func(n int) object { return object{"name": fmt.Sprintf("Number %d", n)} }
	return map[string]func(n int) object{
		"update-team":        name,
		"update-environment": func(n int) object { return object{"payload_retention_days": n + 1} },
		"update-api-key":     name,
		"update-role":        name,
		"update-role-binding": func(n int) object {
			return object{"expires_at": w.clk.Now().Add(time.Duration(n+1) * time.Hour)}
		},
		"update-member":          func(n int) object { return object{"disabled": n%2 == 0} },
		"update-sso-provider":    name,
		"update-provider-config": func(n int) object { return object{"display_name": fmt.Sprintf("Number %d", n)} },
		"update-connection":      func(n int) object { return object{"metadata": object{fmt.Sprint("n", n): n}} },
		"update-webhook-subscription": func(n int) object {
			return object{"metadata": object{fmt.Sprint("n", n): n}, "enabled": n%2 == 0,
				"signing_secret": fmt.Sprintf("a shared secret %02d", n)}
		},
	}
}

const concurrent = 40

// Updates of one resource at the same time wait for each other, on all nodes: each succeeds, and none undoes another.
// With one version in If-Match, exactly one of them succeeds.
func TestEveryUpdateWaitsForOthers(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		nodes := []*world{w}
		if w.databaseURL != "" {
			nodes = append(nodes, w.node())
		}
		bodies, c := w.concurrentUpdates(), w.user(w.env)
		send := func(c credentials, s sample, first int) (statuses map[int]int) {
			all := make([]response, concurrent)
			var group sync.WaitGroup
			for n := range concurrent {
				group.Go(func() { all[n] = nodes[n%len(nodes)].callSample(c, s, bodies[s.id](first+n)) })
			}
			group.Wait()
			statuses = map[int]int{}
			for _, a := range all {
				statuses[a.status]++
			}
			return statuses
		}
		w.changedPaths(f, func(byMethod map[string]sample) {
			get, s := byMethod[http.MethodGet], byMethod[http.MethodPatch]
			require.Contains(w.t, bodies, s.id)
			require.Equal(w.t, map[int]int{http.StatusOK: concurrent}, send(c, s, 0), s.id)
			var now struct {
				Metadata map[string]int `json:"metadata"`
			}
			a := w.callSample(c, get).want(w, http.StatusOK)
			if a.into(w, &now); now.Metadata != nil {
				require.Len(w.t, now.Metadata, concurrent, "%s: one update undid another", s.id)
			}
			if s.id == "update-member" {
				return // half of the updates change nothing
			}
			version := w.callSample(c, get).tag(w)
			require.Equal(w.t, map[int]int{http.StatusOK: 1, http.StatusPreconditionFailed: concurrent - 1},
				send(ifHeader(c, "If-Match", version), s, concurrent), s.id)
		})
	}, withoutLimits)
}
