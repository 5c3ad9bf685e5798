package configs_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
)

func page10(t *testing.T) page.Request {
	t.Helper()
	p, err := page.Query{Order: "desc"}.Parse("", nil)
	require.NoError(t, err)
	return p
}

// A configuration is stored as it was given, and found by its key, its provider and the beginning of its key. Its
// secrets are sealed: only OpenClient returns them, and neither the table nor the audit trail has them.
func TestConfigsAreStored(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		in := full("github-eu")
		c := w.create(t, w.a, in)
		got, err := w.svc.Get(t.Context(), w.a.Environment, "github-eu")
		require.NoError(t, err)
		require.Equal(t, c, got)
		require.Equal(t, "9f3a", got.SecretHint)
		require.Equal(t, &configs.RateLimit{Requests: 5000, PerSeconds: 3600}, got.RateLimit)
		require.Equal(t, []string{"repo", "read:org"}, got.Scopes)
		client, err := w.svc.OpenClient(&got, nil)
		require.NoError(t, err)
		require.Equal(t, configs.Client{ID: "Iv1.8a61", Secret: clientSecret, PrivateKey: in.PrivateKey.Value,
			KeyID: "2026-11"}, client)

		w.create(t, w.a, configs.NewConfig{Provider: "slack"})
		for _, tt := range []struct {
			filter configs.Filter
			want   int
		}{{configs.Filter{}, 2}, {configs.Filter{Providers: []string{"slack"}}, 1},
			{configs.Filter{Providers: []string{"slack", "github"}}, 2}, {configs.Filter{Prefix: "git"}, 1},
			{configs.Filter{Prefix: "Git"}, 0}, {configs.Filter{Prefix: "a%"}, 0}} {
			rows, err := w.svc.List(t.Context(), w.a.Environment, tt.filter, page10(t))
			require.NoError(t, err)
			require.Len(t, rows, tt.want, "%+v", tt.filter)
		}

		_, err = w.svc.Create(t.Context(), w.a, full("github-eu"))
		requireCode(t, apperr.CodeProviderConfigExists, err)
		w.uses.Store(1)
		err = w.svc.Delete(t.Context(), w.a, "github-eu")
		requireCode(t, apperr.CodeProviderConfigInUse, err)
		require.Contains(t, err.Error(), "1 connection belongs")
		w.uses.Store(2)
		require.Contains(t, w.svc.Delete(t.Context(), w.a, "github-eu").Error(), "2 connections belong")
		w.uses.Store(0)
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github-eu"))
		_, err = w.svc.Get(t.Context(), w.a.Environment, "github-eu")
		requireCode(t, apperr.CodeNotFound, err)

		var actions []string
		rows, err := s.DB.Read().QueryContext(t.Context(), `SELECT action, changes, details FROM audit_events ORDER BY id`)
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var action, changes, details string
			require.NoError(t, rows.Scan(&action, &changes, &details))
			actions = append(actions, action)
			require.NotContains(t, changes+details, clientSecret)
			require.NotContains(t, changes+details, "PRIVATE KEY")
		}
		require.NoError(t, rows.Err())
		require.Equal(t, []string{"provider_config.create", "provider_config.create", "provider_config.delete"}, actions)
	})
}

// A PATCH changes what it names. A new secret replaces the old one and nothing else, and removing the client removes
// its secrets. A change that changes nothing leaves no trace.
func TestConfigsChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		in := full("github-eu")
		before := w.create(t, w.a, in)
		update := func(ch configs.Change) configs.Config {
			t.Helper()
			after, err := w.svc.Update(t.Context(), w.a, "github-eu", ch)
			require.NoError(t, err)
			stored, err := w.svc.Get(t.Context(), w.a.Environment, "github-eu")
			require.NoError(t, err)
			require.Equal(t, after, stored)
			return after
		}
		after := update(configs.Change{ClientSecret: patch.To(secretbox.Secret(nextSecret))})
		require.NotEqual(t, before.Version(), after.Version())
		client, err := w.svc.OpenClient(&after, nil)
		require.NoError(t, err)
		require.Equal(t, configs.Client{ID: "Iv1.8a61", Secret: nextSecret, PrivateKey: in.PrivateKey.Value,
			KeyID: "2026-11"}, client)
		old, err := w.svc.OpenClient(&before, nil)
		require.NoError(t, err, "a reader of the old row has the whole old client")
		require.Equal(t, secretbox.Secret(clientSecret), old.Secret)
		require.Equal(t, "77b2", after.SecretHint)

		after = update(configs.Change{PrivateKey: patch.To(secretbox.Secret(privateKey())), KeyID: patch.To("2027-01")})
		require.Equal(t, "2027-01", after.KeyID)
		require.Equal(t, "2027-01", update(configs.Change{PrivateKey: in.PrivateKey}).KeyID, "members merge")
		require.Empty(t, update(configs.Change{PrivateKey: patch.Clear[secretbox.Secret]()}).KeyID, "it goes with its key")
		after = update(configs.Change{PrivateKey: in.PrivateKey, KeyID: in.KeyID})

		same := update(configs.Change{DisplayName: patch.To("GitHub of the European unit")})
		require.Equal(t, after, same)
		require.Equal(t, int64(100), update(configs.Change{RateLimit: patch.To(configs.RateLimitChange{
			Requests: patch.Some[int64](100)})}).RateLimit.Requests, "members merge")
		after = update(configs.Change{DisplayName: patch.Clear[string](), Scopes: patch.Clear[[]string](),
			BaseURL: patch.Clear[string](), RateLimit: patch.Clear[configs.RateLimitChange](),
			ClientID: patch.Clear[string]()})
		require.False(t, after.HasSecret() || after.HasPrivateKey())
		require.Empty(t, after.SecretHint+after.ClientID+after.KeyID+after.DisplayName+after.BaseURL)
		require.Nil(t, after.Scopes)
		require.Nil(t, after.RateLimit)
		var n int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
			`SELECT count(*) FROM audit_events WHERE action = 'provider_config.update'`).Scan(&n))
		require.Equal(t, 7, n)
	})
}

// A stored secret gets no further host unless it is given again, and none without a client. Fewer hosts need no secret.
func TestHostsOfTheClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		in := full("github-eu")
		in.ClientHosts = patch.To([]string{"b.example", "a.example"})
		c := w.create(t, w.a, in)
		require.Equal(t, []string{"a.example", "b.example"}, c.ClientHosts)
		update := func(ch configs.Change) error {
			_, err := w.svc.Update(t.Context(), w.a, "github-eu", ch)
			return err
		}
		more := configs.Change{ClientHosts: patch.To([]string{"a.example", "c.example"})}
		requireViolations(t, []string{"oauth.client_secret coherent", "oauth.private_key coherent"}, update(more))
		more.ClientSecret, more.PrivateKey = in.ClientSecret, patch.Clear[secretbox.Secret]()
		require.NoError(t, update(more))
		require.NoError(t, update(configs.Change{ClientHosts: patch.To([]string{"c.example"})}))
		c, err := w.svc.Get(t.Context(), w.a.Environment, "github-eu")
		require.NoError(t, err)
		require.Equal(t, []string{"c.example"}, c.ClientHosts)
		_, err = w.svc.OpenClient(&c, []string{"c.example"})
		require.NoError(t, err)
		_, err = w.svc.OpenClient(&c, []string{"c.example", "a.example"})
		requireCode(t, apperr.CodeProviderNotConfigured, err)
		require.Contains(t, err.Error(), "a.example")
		require.NoError(t, update(configs.Change{ClientID: patch.Clear[string]()}))
		c, err = w.svc.Get(t.Context(), w.a.Environment, "github-eu")
		require.NoError(t, err)
		require.Empty(t, c.ClientHosts)
	})
}

// Hooks learn in the transaction of a change that the client is another one, and of nothing else.
func TestChangesOfTheClientAreReported(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.create(t, w.a, full("github-eu"))
		w.create(t, w.a, configs.NewConfig{Provider: "slack"})
		of := func(before, after string) configs.AccessChange {
			return configs.AccessChange{Environment: w.a.Environment, Key: "github-eu", Provider: "github", Before: before,
				After: after}
		}
		update := func(ch configs.Change) error {
			_, err := w.svc.Update(t.Context(), w.a, "github-eu", ch)
			return err
		}
		require.NoError(t, update(configs.Change{ClientSecret: patch.To(secretbox.Secret(nextSecret))}))
		require.Equal(t, []configs.AccessChange{of("", "Iv1.8a61")}, w.changes)
		w.failing = true
		require.ErrorIs(t, update(configs.Change{ClientID: patch.To("other")}), errHook)
		c, ok, err := w.svc.Resolve(t.Context(), w.a.Environment, "github-eu")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "Iv1.8a61", c.ClientID, "an error of the hook undoes the change")
		w.failing = false
		require.NoError(t, update(configs.Change{ClientID: patch.To("other")}))
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github-eu"))
		require.Equal(t, []configs.AccessChange{of("", "Iv1.8a61"), of("Iv1.8a61", "other"), of("other", "")}, w.changes)
	})
}

// Another environment's configuration does not exist, for reads and for changes.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		c := w.create(t, w.a, full("github-eu"))
		env := w.b.Environment
		_, err := w.svc.Get(t.Context(), env, "github-eu")
		requireCode(t, apperr.CodeNotFound, err)
		_, err = w.svc.Update(t.Context(), w.b, "github-eu", configs.Change{DisplayName: patch.To("mine")})
		requireCode(t, apperr.CodeNotFound, err)
		requireCode(t, apperr.CodeNotFound, w.svc.Delete(t.Context(), w.b, "github-eu"))
		rows, err := w.svc.List(t.Context(), env, configs.Filter{}, page10(t))
		require.NoError(t, err)
		require.Empty(t, rows)
		_, ok, err := w.svc.Resolve(t.Context(), env, "github-eu")
		require.NoError(t, err)
		require.False(t, ok)
		keys, err := w.svc.KeysOf(t.Context(), env, "github")
		require.NoError(t, err)
		require.Equal(t, []string{"github"}, keys)
		require.NotContains(t, w.svc.Suggest(t.Context(), env, "github-eo"), "github-eu")
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			held, err := w.svc.Hold(t.Context(), tx, env, "github-eu", "github")
			require.False(t, held)
			return err
		}))
		require.NotEqual(t, c.ID, w.create(t, w.b, full("github-eu")).ID)
		kept, err := w.svc.Get(t.Context(), w.a.Environment, "github-eu")
		require.NoError(t, err)
		require.Equal(t, c, kept)

		_, err = s.DB.Write().ExecContext(t.Context(), `UPDATE environments SET deleted_ms = 1 WHERE id = $1`, string(env))
		require.NoError(t, err)
		_, err = w.svc.Create(t.Context(), w.b, configs.NewConfig{Provider: "slack"})
		requireCode(t, apperr.CodeNotFound, err)
	})
}

// Every validation error of a request comes in one response, at the field that has it.
func TestRules(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		long := func(n int) string { return strings.Repeat("x", n) }
		secret := func(text string) patch.Field[secretbox.Secret] { return patch.To(secretbox.Secret(text)) }
		github := func(key string, ch configs.Change) configs.NewConfig {
			return configs.NewConfig{Provider: "github", Key: &key, Change: ch}
		}
		rate := func(requests, seconds int64) patch.Field[configs.RateLimitChange] {
			return patch.To(configs.RateLimitChange{Requests: patch.Some(requests), PerSeconds: patch.Some(seconds)})
		}
		for name, tt := range map[string]struct {
			in   configs.NewConfig
			want []string
		}{
			"provider":     {configs.NewConfig{Provider: "githb"}, []string{"provider exists"}},
			"form":         {github("GitHub", configs.Change{}), []string{"provider_config_key pattern"}},
			"hyphen":       {github("-a", configs.Change{}), []string{"provider_config_key pattern"}},
			"empty":        {github("", configs.Change{}), []string{"provider_config_key pattern"}},
			"long":         {github(long(64), configs.Change{}), []string{"provider_config_key pattern"}},
			"reserved":     {github("execute", configs.Change{}), []string{"provider_config_key reserved"}},
			"own events":   {github("sallyport", configs.Change{}), []string{"provider_config_key reserved"}},
			"foreign slug": {github("slack", configs.Change{}), []string{"provider_config_key slug"}},
			"blank name": {github("a", configs.Change{DisplayName: patch.To(" ")}),
				[]string{"display_name min_length"}},
			"long name": {github("a", configs.Change{DisplayName: patch.To(long(101))}),
				[]string{"display_name max_length"}},
			"control": {github("a", configs.Change{DisplayName: patch.To("a\x00b")}),
				[]string{"display_name pattern"}},
			"client id": {github("a", configs.Change{ClientID: patch.To("ä")}),
				[]string{"oauth.client_id pattern"}},
			"no client id": {github("a", configs.Change{ClientSecret: secret("x")}),
				[]string{"oauth.client_id required"}},
			"only a key": {github("a", configs.Change{PrivateKey: secret(privateKey())}),
				[]string{"oauth.client_id required"}},
			"copied blanks": {github("a", configs.Change{ClientID: patch.To("x"), ClientSecret: secret("x ")}),
				[]string{"oauth.client_secret pattern"}},
			"line break": {github("a", configs.Change{ClientID: patch.To("x"), ClientSecret: secret("x\n")}),
				[]string{"oauth.client_secret pattern"}},
			"public key": {github("a",
				configs.Change{ClientID: patch.To("x"), PrivateKey: secret(publicKey)}),
				[]string{"oauth.private_key pem"}},
			"a name without its key": {github("a", configs.Change{ClientID: patch.To("x"), KeyID: patch.To("k")}),
				[]string{"oauth.private_key_id coherent"}},
			"name": {github("a", configs.Change{ClientID: patch.To("x"), PrivateKey: secret(privateKey()),
				KeyID: patch.To("k\n")}), []string{"oauth.private_key_id pattern"}},
			"long name of a key": {github("a", configs.Change{ClientID: patch.To("x"), PrivateKey: secret(privateKey()),
				KeyID: patch.To(long(256))}), []string{"oauth.private_key_id pattern"}},
			"two keys": {github("a",
				configs.Change{ClientID: patch.To("x"), PrivateKey: secret(privateKey() + privateKey())}),
				[]string{"oauth.private_key pem"}},
			"hosts without a client": {github("a", configs.Change{ClientHosts: patch.To([]string{"git.example"})}),
				[]string{"oauth.client_id required"}},
			"hosts": {github("a", configs.Change{ClientID: patch.To("x"), ClientHosts: patch.To([]string{"git.example:8443",
				"git.example:8443", "Git.example", "git.example:443", "git.example/a", "u@git.example", "*.example",
				"https://git.example", "git.example.", "", "http://git.example", "127.0.0.1"})}),
				[]string{"oauth.hosts[1] unique", "oauth.hosts[2] pattern", "oauth.hosts[3] pattern", "oauth.hosts[4] pattern",
					"oauth.hosts[5] userinfo_refused", "oauth.hosts[6] pattern", "oauth.hosts[7] pattern",
					"oauth.hosts[8] pattern", "oauth.hosts[9] pattern", "oauth.hosts[10] scheme_refused",
					"oauth.hosts[11] target_refused"}},
			"many hosts": {github("a", configs.Change{ClientID: patch.To("x"), ClientHosts: patch.To(make([]string, 21))}),
				[]string{"oauth.hosts max_items"}},
			"scopes": {github("a", configs.Change{Scopes: patch.To([]string{"a", "a", "b c", ""})}),
				[]string{"scopes[1] unique", "scopes[2] pattern", "scopes[3] pattern"}},
			"many scopes": {github("a", configs.Change{Scopes: patch.To(make([]string, 101))}),
				[]string{"scopes max_items"}},
			"rate": {github("a", configs.Change{RateLimit: rate(0, 86_401)}),
				[]string{"rate_limit.requests range", "rate_limit.per_seconds range"}},
			"half a rate": {github("a", configs.Change{RateLimit: patch.To(configs.RateLimitChange{
				Requests: patch.Some[int64](1)})}),
				[]string{"rate_limit.per_seconds range"}},
			"http": {github("a", configs.Change{BaseURL: patch.To("http://198.51.99.7/api")}),
				[]string{"base_url scheme_refused"}},
			"loopback": {github("a", configs.Change{BaseURL: patch.To("https://127.0.0.1/api")}),
				[]string{"base_url target_refused"}},
			"elsewhere": {github("a", configs.Change{BaseURL: patch.To("https://198.51.99.8/api")}),
				[]string{"base_url allowed_hosts"}},
			"query": {github("a", configs.Change{BaseURL: patch.To(apiURL + "?")}), []string{"base_url url"}},
			"slash": {github("a", configs.Change{BaseURL: patch.To(apiURL + "/")}), []string{"base_url url"}},
			"user": {github("a", configs.Change{BaseURL: patch.To("https://u@198.51.99.7/api")}),
				[]string{"base_url userinfo_refused"}},
			"no outbound half": {configs.NewConfig{Provider: "slack", Change: full("").Change},
				[]string{"oauth mode", "scopes mode", "base_url api", "rate_limit api"}},
			"several": {github("slack", configs.Change{DisplayName: patch.To(""), ClientID: patch.To(long(513))}),
				[]string{"provider_config_key slug", "display_name min_length", "oauth.client_id pattern"}},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := w.svc.Create(t.Context(), w.a, tt.in)
				requireViolations(t, tt.want, err)
				require.NotContains(t, err.Error(), clientSecret)
			})
		}
		w.create(t, w.a, configs.NewConfig{Provider: "github"})
		for _, tt := range []struct {
			change configs.Change
			want   []string
		}{
			{configs.Change{ClientSecret: secret(clientSecret)}, []string{"oauth.client_id required"}},
			{configs.Change{ClientID: patch.Clear[string](), ClientSecret: secret(clientSecret)},
				[]string{"oauth.client_id coherent"}},
			{configs.Change{RateLimit: rate(1, 0), BaseURL: patch.To("x")},
				[]string{"rate_limit.per_seconds range", "base_url url_invalid"}},
		} {
			_, err := w.svc.Update(t.Context(), w.a, "github", tt.change)
			requireViolations(t, tt.want, err)
		}
		_, err := w.svc.Update(t.Context(), w.a, "github", configs.Change{ClientID: patch.To("x"),
			BaseURL: patch.To(apiURL)})
		require.NoError(t, err)
	})
}

// An environment cannot have more configurations than fit into memory together.
func TestLimit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		for i := range configs.MaxConfigs {
			w.create(t, w.a, configs.NewConfig{Provider: "slack", Key: ptr(fmt.Sprintf("slack-%d", i))})
		}
		_, err := w.svc.Create(t.Context(), w.a, configs.NewConfig{Provider: "slack"})
		requireCode(t, apperr.CodeProviderConfigsLimit, err)
		w.create(t, w.b, configs.NewConfig{Provider: "slack"})
	})
}
