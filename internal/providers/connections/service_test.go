package connections_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
)

// A caller gets every validation error of a request in one response, each at its place with its rule, and nothing is
// stored.
func TestEveryViolationInOneResponse(t *testing.T) {
	t.Parallel()
	none := connections.Change{}
	standard := func(ch connections.Change) connections.NewConnection {
		return connections.NewConnection{Provider: ptr("standard-webhooks"), Change: ch}
	}
	many := map[string]*string{}
	for i := range 11 {
		many[fmt.Sprintf("k%d", i)] = ptr("v")
	}
	cases := []struct {
		name string
		in   connections.NewConnection
		want []string // location rule
	}{
		{"nothing", connections.NewConnection{}, []string{"provider required"}},
		{"unknown provider", connections.NewConnection{Provider: ptr("nobody")}, []string{"provider exists"}},
		{"empty provider", connections.NewConnection{ProviderConfigKey: ptr("")}, []string{"provider_config_key exists"}},
		{"reserved key", connections.NewConnection{ProviderConfigKey: ptr("imports")},
			[]string{"provider_config_key reserved"}},
		{"two providers", connections.NewConnection{Provider: ptr("github"), ProviderConfigKey: ptr("standard-webhooks")},
			[]string{"provider_config_key equal"}},
		{"id form", connections.NewConnection{Provider: ptr("github"), ConnectionID: ptr("-a")},
			[]string{"connection_id pattern"}},
		{"empty id", connections.NewConnection{Provider: ptr("github"), ConnectionID: ptr("")},
			[]string{"connection_id pattern"}},
		{"long id", connections.NewConnection{Provider: ptr("github"), ConnectionID: ptr(strings.Repeat("a", 256))},
			[]string{"connection_id pattern"}},
		{"id like a token", connections.NewConnection{Provider: ptr("github"), ConnectionID: ptr("whk_x")},
			[]string{"connection_id reserved"}},
		{"id like a UUID", connections.NewConnection{Provider: ptr("github"),
			ConnectionID: ptr("0190163D8694739BAEA5966C26F8AD91")}, []string{"connection_id reserved"}},
		{"conflict choice", connections.NewConnection{Provider: ptr("github"), OnConflict: "replace"},
			[]string{"on_conflict enum"}},
		{"secret encoding", standard(connections.Change{Secret: patch.To(secretbox.Secret("whsec_not base64"))}),
			[]string{"webhook_secret format"}},
		{"empty secret", standard(connections.Change{Secret: patch.To(secretbox.Secret(""))}),
			[]string{"webhook_secret min_length"}},
		{"long secret", connections.NewConnection{Provider: ptr("github"), Change: connections.Change{
			Secret: patch.To(secretbox.Secret(strings.Repeat("x", 4097)))}}, []string{"webhook_secret max_length"}},
		{"unknown parameter", standard(connections.Change{Params: patch.To(map[string]*string{"colour": ptr("red")})}),
			[]string{"webhook.params.colour unknown"}},
		{"tags", connections.NewConnection{Provider: ptr("github"),
			Change: connections.Change{Tags: patch.To(map[string]*string{
				"ok": ptr(strings.Repeat("ü", 255)), "long": ptr(strings.Repeat("v", 256)), "BAD": ptr("v"), "": ptr("v"),
				strings.Repeat("k", 64): ptr("v")})}}, []string{"tags pattern", "tags pattern", "tags pattern",
			"tags.long max_length"}},
		{"many tags", connections.NewConnection{Provider: ptr("github"), Change: connections.Change{Tags: patch.To(many)}},
			[]string{"tags max_properties"}},
		{"everything", connections.NewConnection{Provider: ptr("github"), ConnectionID: ptr("a b"),
			Change: connections.Change{
				Secret: patch.To(secretbox.Secret("")), Alias: patch.To("whk_y"),
				Params:              patch.To(map[string]*string{"x": ptr("y")}),
				DedupeWindowSeconds: patch.To(int64(-1)), MaxBodyBytes: ptr(connections.MaxBodyBytes + 1),
				SameBodyNewID: ptr(connections.SameBody("maybe")),
				Metadata:      patch.To(patch.Object{"x": strings.Repeat("x", connections.MaxMetadataBytes)})}},
			[]string{"connection_id pattern", "webhook.alias reserved", "webhook.dedupe_window_seconds minimum",
				"webhook.max_body_bytes maximum", "webhook.same_body_new_id enum", "metadata max_length",
				"webhook_secret min_length", "webhook.params.x unknown"}},
		{"limits", connections.NewConnection{Provider: ptr("github"), Change: connections.Change{
			DedupeWindowSeconds: patch.To(int64(30*24*3600 + 1)), MaxBodyBytes: ptr(int64(0))}},
			[]string{"webhook.dedupe_window_seconds maximum", "webhook.max_body_bytes minimum"}},
		{"fine", standard(none), nil},
		{"fine at the limits", connections.NewConnection{Provider: ptr("github"), ProviderConfigKey: ptr("github"),
			Change: connections.Change{
				Secret:              patch.To(secretbox.Secret(strings.Repeat("x", 4096))),
				DedupeWindowSeconds: patch.To(int64(30 * 24 * 3600)), MaxBodyBytes: ptr(connections.MaxBodyBytes),
				Metadata: patch.To(patch.Object{"x": strings.Repeat("x", connections.MaxMetadataBytes-len(`{"x":""}`))})}},
			nil},
	}
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		for _, c := range cases {
			before := count(t, w, "SELECT count(*) FROM connections")
			_, _, err := w.svc.Create(t.Context(), w.a, c.in)
			if c.want == nil {
				require.NoError(t, err, c.name)
				continue
			}
			requireViolations(t, c.name, c.want, err)
			require.Equal(t, before, count(t, w, "SELECT count(*) FROM connections"), c.name)
		}
	})
}

func requireViolations(t *testing.T, name string, want []string, err error) {
	t.Helper()
	var e *apperr.Error
	require.ErrorAs(t, err, &e, name)
	var got []string
	for _, d := range e.Details {
		got = append(got, d.Location+" "+d.Rule)
		require.NotEmpty(t, d.Message, name)
	}
	require.Equal(t, want, got, name)
}

// A change that leaves the stored secret unusable is refused where the change was made, and an unchanged field causes
// no error.
func TestChangeIsCheckedAgainstTheStoredSecret(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		in := connections.NewConnection{Provider: ptr("generic-hmac"), ConnectionID: ptr("acme"),
			Change: connections.Change{Secret: patch.To(secretbox.Secret("not hexadecimal"))}}
		w.create(t, w.a, in)
		params := func(name, value string) connections.Change {
			return connections.Change{Params: patch.To(map[string]*string{name: ptr(value)})}
		}
		_, err := w.svc.Update(t.Context(), w.a, "generic-hmac", "acme", params("secret_encoding", "hex"))
		requireViolations(t, "", []string{"webhook.params format"}, err)
		_, err = w.svc.Update(t.Context(), w.a, "generic-hmac", "acme", params("encoding", "base64"))
		require.NoError(t, err)

		both := params("secret_encoding", "hex")
		both.Secret = patch.To(secretbox.Secret("00ff00ff00ff00ff"))
		c, err := w.svc.Update(t.Context(), w.a, "generic-hmac", "acme", both)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"secret_encoding": "hex", "encoding": "base64"}, c.Webhook.Params)

		_, err = s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET webhook = $1`,
			`{"params":{"gone":"x"},"max_body_bytes":1}`)
		require.NoError(t, err)
		_, err = w.svc.Update(t.Context(), w.a, "generic-hmac", "acme",
			connections.Change{Tags: patch.To(map[string]*string{"k": ptr("v")})})
		require.NoError(t, err)
	})
}

// A change merges: a field that it does not name stays, null removes, and numbers of metadata come back digit for
// digit.
func TestChangesMerge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		in := github("acme")
		in.Tags = patch.To(map[string]*string{"team": ptr("a"), "tier": ptr("1")})
		in.Metadata = patch.To(patch.Object{"n": json.Number("12345678901234567890"),
			"o": map[string]any{"x": "1", "y": "<&>"}, "gone": nil})
		in.DedupeWindowSeconds = patch.To(int64(0))
		c := w.create(t, w.a, in)
		require.Equal(t, w.clock.Now(), c.CreatedAt)
		require.Equal(t, connections.WebhookConfig{Params: map[string]string{}, DedupeWindowSeconds: ptr(int64(0)),
			RedeliverOnDuplicate: true, MaxBodyBytes: connections.DefaultMaxBodyBytes,
			SameBodyNewID: connections.SameBodyAccept}, c.Webhook)

		w.clock.Advance(time.Minute)
		got, err := w.svc.Update(t.Context(), w.a, "github", "acme", connections.Change{
			Tags:                 patch.To(map[string]*string{"team": nil, "new": ptr("n")}),
			Metadata:             patch.To(patch.Object{"o": map[string]any{"x": nil, "z": []any{"1"}}}),
			DedupeWindowSeconds:  patch.Clear[int64](),
			RedeliverOnDuplicate: ptr(false),
			MaxBodyBytes:         ptr(int64(1)),
			SameBodyNewID:        ptr(connections.SameBodyRefuse),
		})
		require.NoError(t, err)
		want := c
		want.UpdatedAt = w.clock.Now()
		want.Tags = map[string]string{"tier": "1", "new": "n"}
		want.Metadata = map[string]any{"n": json.Number("12345678901234567890"), "o": map[string]any{"y": "<&>",
			"z": []any{"1"}}}
		want.Webhook = connections.WebhookConfig{Params: map[string]string{}, MaxBodyBytes: 1,
			SameBodyNewID: connections.SameBodyRefuse}
		require.Equal(t, want, got)
		stored, err := w.svc.Get(t.Context(), access.Whole(w.a.Environment), "github", "acme")
		require.NoError(t, err)
		require.Equal(t, got, stored)

		cleared, err := w.svc.Update(t.Context(), w.a, "github", "acme", connections.Change{
			Tags: patch.Clear[map[string]*string](), Metadata: patch.Clear[patch.Object]()})
		require.NoError(t, err)
		require.Empty(t, cleared.Tags)
		require.Empty(t, cleared.Metadata)
	})
}

// Creating what exists is refused, unless the caller asks to change it: then it keeps its identity, and limits hold for
// what the change leads to.
func TestOnConflict(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		in := github("acme")
		in.Tags = patch.To(map[string]*string{"k": ptr("v")})
		c := w.create(t, w.a, in)
		_, _, err := w.svc.Create(t.Context(), w.a, in)
		requireCode(t, apperr.CodeConnectionExists, err)

		in = github("acme")
		in.OnConflict, in.Alias = connections.ConflictUpdate, patch.To("renamed")
		changed, created, err := w.svc.Create(t.Context(), w.a, in)
		require.NoError(t, err)
		require.False(t, created)
		require.Equal(t, []string{c.UUID, c.PathToken, "renamed"}, []string{changed.UUID, changed.PathToken, *changed.Alias})
		require.Equal(t, c.Tags, changed.Tags)

		in.Tags = patch.To(map[string]*string{})
		for i := range 10 {
			in.Tags.Value[fmt.Sprintf("t%d", i)] = ptr("v")
		}
		_, _, err = w.svc.Create(t.Context(), w.a, in)
		requireViolations(t, "", []string{"tags max_properties"}, err)
	})
}

// Every change is in the trail once, by what it changed; an act that changed nothing is not.
func TestTrail(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		c := w.create(t, w.a, github("acme"))
		update := func(ch connections.Change) {
			_, err := w.svc.Update(t.Context(), w.a, "github", "acme", ch)
			require.NoError(t, err)
		}
		update(connections.Change{})
		update(connections.Change{Alias: patch.To("acme"), RedeliverOnDuplicate: ptr(true),
			Tags: patch.To(map[string]*string{"absent": nil})})
		update(connections.Change{MaxBodyBytes: ptr(int64(5)),
			Metadata: patch.To(patch.Object{"person": "somebody"})})
		for _, status := range []connections.Status{connections.Active, connections.Disabled, connections.Disabled,
			connections.Active} {
			_, err := w.svc.SetStatus(t.Context(), w.a, "github", "acme", status)
			require.NoError(t, err)
		}
		_, err := w.svc.RotatePath(t.Context(), w.a, "github", "acme")
		require.NoError(t, err)
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github", "acme"))

		rows, err := s.DB.Read().QueryContext(t.Context(), `SELECT action, changes, details FROM audit_events
			WHERE environment_id = $1 AND target_type = 'connection' AND target_id = $2 AND actor_id = 'key_a' ORDER BY id`,
			string(w.a.Environment), c.UUID)
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		var got []string
		for rows.Next() {
			var action, changes, details string
			require.NoError(t, rows.Scan(&action, &changes, &details))
			if action == "connection.create" || action == "connection.delete" {
				changes = `{"diff":{}}` // every field
			}
			got = append(got, action+" "+testkit.AuditDiff(t, changes, details))
		}
		require.NoError(t, rows.Err())
		require.Equal(t, []string{
			`connection.create {}`,
			`connection.update {"metadata":{"before":[],"after":["person"]},"webhook.max_body_bytes":{"before":10485760,` +
				`"after":5}}`,
			`connection.disable {"status":{"before":"active","after":"disabled"}}`,
			`connection.enable {"status":{"before":"disabled","after":"active"}}`,
			`connection.rotate_webhook_path {"webhook.path":{"before":"[redacted]","after":"[redacted]"}}`,
			`connection.delete {}`,
		}, got)
		versions, err := s.DB.Versions(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, len(got), versions[connections.Collection])
	})
}

// Lists page by creation without losing a row or showing it twice, and filters narrow exactly: a prefix is taken
// literally and case counts.
func TestList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		for _, name := range []string{"a_1", "ab1", "A_1", "a_2", "b"} {
			w.create(t, w.a, github(name))
		}
		w.create(t, w.a, connections.NewConnection{Provider: ptr("standard-webhooks"), ConnectionID: ptr("a_1")})
		_, err := w.svc.SetStatus(t.Context(), w.a, "github", "a_2", connections.Disabled)
		require.NoError(t, err)
		_, err = w.svc.Update(t.Context(), w.a, "github", "b", connections.Change{Tags: patch.To(map[string]*string{
			"team": ptr("a,\"b\""), "k": ptr("<v>")})})
		require.NoError(t, err)

		names := func(f connections.Filter, q page.Query) []string {
			var all []string
			for range 10 {
				r, err := q.Parse("scope", func(string) bool { return true })
				require.NoError(t, err)
				rows, err := w.svc.List(t.Context(), access.Whole(w.a.Environment), f, r)
				require.NoError(t, err)
				rows, headers := page.Cut(r, rows, r.Limit, "", func(c *connections.Connection) string { return c.UUID },
					&url.URL{Path: "/"})
				for _, c := range rows {
					all = append(all, c.ConnectionID)
				}
				if q.Cursor = headers.NextCursor; q.Cursor == "" {
					return all
				}
			}
			return nil
		}
		for _, limit := range []int{1, 2, 5, 6, 50} {
			require.Equal(t, []string{"a_1", "b", "a_2", "A_1", "ab1", "a_1"},
				names(connections.Filter{}, page.Query{Limit: limit, Order: "desc"}))
			require.Equal(t, []string{"a_1", "ab1", "A_1", "a_2", "b", "a_1"},
				names(connections.Filter{}, page.Query{Limit: limit, Order: "asc"}))
		}
		asc := page.Query{Order: "asc"}
		for _, c := range []struct {
			f    connections.Filter
			want []string
		}{
			{connections.Filter{Prefix: "a_"}, []string{"a_1", "a_2", "a_1"}},
			{connections.Filter{Prefix: "a%"}, nil},
			{connections.Filter{ProviderConfigKeys: []string{"github"}, Prefix: "a_"}, []string{"a_1", "a_2"}},
			{connections.Filter{ProviderConfigKeys: []string{"github", "standard-webhooks"},
				Statuses: []connections.Status{connections.Active}, Prefix: "a_"}, []string{"a_1", "a_1"}},
			{connections.Filter{Statuses: []connections.Status{connections.Active, connections.Disabled}},
				[]string{"a_1", "ab1", "A_1", "a_2", "b", "a_1"}},
			{connections.Filter{Statuses: []connections.Status{connections.Disabled}}, []string{"a_2"}},
			{connections.Filter{ProviderConfigKeys: []string{"no\x00body"}}, nil},
			{connections.Filter{AuthModes: []string{"none"}, Prefix: "b"}, []string{"b"}},
			{connections.Filter{AuthModes: []string{"oauth2"}}, nil},
			{connections.Filter{Health: []probes.Status{probes.Healthy}}, nil},
			{connections.Filter{Tags: []connections.Tag{{"team", "a,\"b\""}}}, []string{"b"}},
			{connections.Filter{Tags: []connections.Tag{{"team", "a,\"b\""}, {"k", "<v>"}}}, []string{"b"}},
			{connections.Filter{Tags: []connections.Tag{{"team", "a"}}}, nil},
			{connections.Filter{Tags: []connections.Tag{{"team", "A,\"b\""}}}, nil},
			{connections.Filter{Tags: []connections.Tag{{"eam", "a,\"b\""}}}, nil},
			{connections.Filter{Tags: []connections.Tag{{"k", "<v>\x00"}}}, nil},
			{connections.Filter{ProviderConfigKeys: []string{"nobody"}}, nil},
		} {
			require.Equal(t, c.want, names(c.f, asc), "%+v", c.f)
		}
	})
}

// A request that was let into an environment before it was removed leaves and changes nothing in it.
func TestCreateInARemovedEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.create(t, w.a, github("stays"))
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE environments SET deleted_ms = 1 WHERE id = $1`,
			string(w.a.Environment))
		require.NoError(t, err)
		for _, conflict := range []connections.OnConflict{"", connections.ConflictUpdate} {
			for _, name := range []string{"fresh", "stays"} {
				in := github(name)
				in.OnConflict = conflict
				in.Tags = patch.To(map[string]*string{"a": ptr("b")})
				if name == "stays" && conflict == "" {
					continue
				}
				_, _, err := w.svc.Create(t.Context(), w.a, in)
				requireCode(t, apperr.CodeNotFound, err)
			}
		}
		require.Equal(t, 1, count(t, w, `SELECT count(*) FROM connections`))
		require.Equal(t, 1, count(t, w, `SELECT count(*) FROM audit_events`))
	})
}
