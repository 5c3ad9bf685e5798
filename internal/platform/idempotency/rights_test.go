package idempotency_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// A response is returned again exactly to callers who have all the rights with which it was made: the connections of an
// API key, and the permissions of a user in the environment of the operation or, without one, everywhere.
func TestResponsesNeedTheirRights(t *testing.T) {
	t.Parallel()
	connections := []string{"", "a", "b", "c"} // empty for data without a connection
	permissions := []access.Permission{access.EventsRead, access.EventsReplay, access.ConnectionsRead}
	scopes := []id.Environment{"", "env_1", "env_2"}
	each(t, func(w *world) {
		rapid.Check(w.t, func(rt *rapid.T) {
			key := func() (p access.Principal, has func(string) bool) {
				names := rapid.SliceOfDistinct(rapid.SampledFrom(connections[1:]), rapid.ID).Draw(rt, "connections")
				p = access.Principal{Kind: access.KindAPIKey, ID: "key_1", Environment: "env_1", Connections: access.Only(names...)}
				if rapid.Bool().Draw(rt, "except") {
					p.Connections = access.All().Minus(p.Connections)
				}
				return p, p.Connections.Contains
			}
			inOne := rapid.Bool().Draw(rt, "in one environment")
			user := func() (p access.Principal, has func(string) bool) {
				p = access.Principal{Kind: access.KindUser, ID: "usr_1"}
				if inOne {
					p.Environment = "env_1"
				}
				for _, env := range scopes {
					p.Rights.Add(env, rapid.SliceOf(rapid.SampledFrom(permissions)).Draw(rt, "permissions"))
				}
				return p, func(text string) bool {
					env, permission := id.Environment(text[:len(text)-1]), permissions[text[len(text)-1]-'0']
					return inOne && env != "env_1" || p.Rights.Has(env, permission)
				}
			}
			caller, things := key, connections
			if rapid.Bool().Draw(rt, "user") {
				caller, things = user, nil
				for _, env := range scopes {
					things = append(things, string(env)+"0", string(env)+"1", string(env)+"2")
				}
			}
			before, had := caller()
			now, has := caller()
			r := request()
			r.Principal, r.Key = before, r.Key+id.NewUUID()
			run, _, err := w.store.Begin(w.t.Context(), r)
			require.NoError(rt, err)
			require.NoError(rt, run.Finish(w.t.Context(), created()))
			r.Principal = now
			again, response, err := w.other.Begin(w.t.Context(), r)
			require.Nil(rt, again, "the request has its effect once")
			if slices.ContainsFunc(things, func(thing string) bool { return had(thing) && !has(thing) }) {
				require.True(rt, apperr.Is(err, apperr.CodeGrantDenied) || apperr.Is(err, apperr.CodeForbidden), "%v", err)
				require.Nil(rt, response)
				return
			}
			require.NoError(rt, err)
			require.Equal(rt, created(), *response)
		})
	})
}
