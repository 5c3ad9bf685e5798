package subscriptions_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// A subscription gets the very next event after the response to its creation, also when it is paused. A deleted one
// gets none. Each is found once, however many of its patterns and of the event's types match.
func TestChangesShowInTheNextMatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		require.Empty(t, w.match(t, w.Service, "issue.created"))
		first := w.create(t, "issue.*", "*")
		second := w.create(t, "issue.created")
		w.create(t, "push")
		require.Equal(t, []subscriptions.Matched{{ID: first.ID, Enabled: true}, {ID: second.ID, Enabled: true}},
			w.match(t, w.Service, "issue.created", "issue.closed"))
		_, err := w.Update(t.Context(), w.p, second.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(false)}})
		require.NoError(t, err)
		require.NoError(t, w.Delete(t.Context(), w.p, first.ID))
		require.Equal(t, []subscriptions.Matched{{ID: second.ID}}, w.match(t, w.Service, "issue.created"))
	})
}

// A subscription narrowed to a provider configuration or a connection sees nothing else.
func TestScopesNarrow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("*")
		ch.ProviderConfigKey, ch.ConnectionID = patch.To("github"), patch.To("acme")
		sub, _, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		for _, event := range [][2]string{{"github", "acme"}, {"github", "other"}, {"slack", "acme"}} {
			found, _, err := w.Match(t.Context(), w.p.Environment, subscriptions.Origin{Provider: event[0],
				ProviderConfigKey: event[0], ConnectionID: event[1]}, []string{"a"})
			require.NoError(t, err)
			require.Equal(t, event == [2]string{"github", "acme"}, len(found) == 1, "%v", event)
		}
		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{ProviderConfigKey: patch.Clear[string]()}})
		require.NoError(t, err)
		found, _, err := w.Match(t.Context(), w.p.Environment, origin("slack", "acme"), []string{"a"})
		require.NoError(t, err)
		require.Len(t, found, 1)
	})
}

// Changes of another process apply from the next Refresh on, in matches and targets alike.
func TestRefreshSeesOtherProcesses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		reader := w.process()
		require.Len(t, w.match(t, reader, "a"), 1)
		known, err := reader.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)

		require.NoError(t, reader.Refresh(t.Context()))
		same, err := reader.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.Same(t, known, same, "nothing has changed, so nothing is read again")

		w.create(t, "*")
		require.NoError(t, w.Disable(t.Context(), w.p.Environment, sub.ID, "the target answered 410 Gone"))
		require.Len(t, w.match(t, reader, "a"), 1, "the other process has not looked yet")
		require.NoError(t, reader.Refresh(t.Context()))
		require.Len(t, w.match(t, reader, "a"), 2)
		now, err := reader.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.False(t, now.Enabled)
	})
}

// An attempt gets everything it needs, decoded. A new secret signs immediately. A deleted subscription is reported as
// deleted so that its deliveries can be cancelled.
func TestTarget(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("issues.*")
		ch.ForwardURL = patch.Some("https://198.51.99.7/hook?token=s3cret")
		ch.Headers = patch.To(map[string]*string{"X-Team": ptr("blue"), "Authorization": ptr("Bearer abcdefghijkl")})
		ch.RetrySchedule, ch.TimeoutMs = patch.Some([]float64{0.1, 5}), patch.Some(int64(2500))
		ch.PayloadMode = patch.Some(subscriptions.Raw)
		sub, secret, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret.Reveal(), "whsec_"))
		require.NoError(t, err)
		require.Len(t, key, 32)

		target, err := w.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.Equal(t, "198.51.99.7", target.URL.Host)
		require.Nil(t, target.Refused)
		require.Equal(t, "https://198.51.99.7/hook?token=s3cret", target.RawURL)
		require.Equal(t, key, target.SigningKey)
		require.Equal(t, []subscriptions.Header{{Name: "Authorization", Value: "Bearer abcdefghijkl"},
			{Name: "X-Team", Value: "blue"}}, target.Headers)
		require.Equal(t, []time.Duration{100 * time.Millisecond, 5 * time.Second}, target.Schedule)
		require.Equal(t, 2500*time.Millisecond, target.Timeout)
		require.Equal(t, subscriptions.Raw, target.PayloadMode)
		require.Equal(t, "issues.opened", target.TypeOf("github", []string{"push", "issues.opened"}))
		require.Equal(t, "push", target.TypeOf("github", []string{"push", "fork"}), "without a match it is the first")
		require.True(t, target.Enabled)
		require.False(t, target.Deleted)

		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{SigningSecret: patch.To(
				secretbox.Secret("sixteen bytes at least"))}})
		require.NoError(t, err)
		target, err = w.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.Equal(t, "sixteen bytes at least", string(target.SigningKey))

		require.NoError(t, w.Delete(t.Context(), w.p, sub.ID))
		target, err = w.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.True(t, target.Deleted)
	})
}

// A policy that has become stricter since refuses the target with its reason, and no attempt goes there.
func TestTargetUnderAStricterPolicy(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		lax := w.cfg
		lax.Targets = egress.New(egress.Policy{AllowHTTP: true, AllowLoopback: true}, egress.Options{})
		s := subscriptions.New(lax)
		ch := change("*")
		ch.ForwardURL = patch.Some("https://127.0.0.1/hook")
		sub, _, err := s.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		target, err := w.Target(t.Context(), w.p.Environment, sub.ID)
		require.NoError(t, err)
		require.Nil(t, target.URL)
		require.Equal(t, egress.CodeTargetRefused, target.Refused.Code)
	})
}

// URL, secret and headers are unreadable in the database and in the audit trail, and each is bound to its place.
func TestSealedAtRest(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("*")
		ch.ForwardURL = patch.Some("https://198.51.99.7/CLEARTEXT")
		ch.SigningSecret = patch.To(secretbox.Secret("CLEARTEXT-signing-secret"))
		ch.Headers = patch.To(map[string]*string{"X-A": ptr("CLEARTEXT-header")})
		sub, generated, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		require.Empty(t, generated, "the caller has this secret")
		require.Equal(t, "cret", sub.SecretHint)
		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{SigningSecret: patch.To(
				secretbox.Secret("CLEARTEXT-second-secret"))}})
		require.NoError(t, err)

		for _, c := range subscriptions.SealedColumns() {
			var sealed []byte
			require.NoError(t, store.DB.Read().QueryRowContext(t.Context(),
				"SELECT "+c.Column+" FROM "+c.Table+" WHERE "+c.IDColumn+" = $1", sub.ID).Scan(&sealed))
			require.NotContains(t, string(sealed), "CLEARTEXT")
			plain, err := w.cfg.Box.Open(sealed, secretbox.AD{Table: c.Table, Column: c.Column, RowID: sub.ID})
			require.NoError(t, err)
			require.Contains(t, string(plain), "CLEARTEXT")
		}
		actions, changes := w.audited(t, sub.ID)
		require.Equal(t, []string{"webhook_subscription.create", "webhook_subscription.update"}, actions)
		require.NotContains(t, strings.Join(changes, ""), "CLEARTEXT")
		require.Contains(t, changes[0], `"forward_url":{"after":"[redacted]"}`)
	})
}

// A subscription of another environment does not exist, to every method; nor does an id that cannot be one.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		stranger := w.p
		stranger.Environment = w.other
		for _, subscriptionID := range []string{sub.ID, "sub_\x00", "no id"} {
			_, err := w.Get(t.Context(), access.Whole(w.other), subscriptionID)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
			_, err = w.Update(t.Context(), stranger, subscriptionID,
				subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(false)}})
			require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
			require.True(t, apperr.Is(w.Delete(t.Context(), stranger, subscriptionID), apperr.CodeNotFound))
			require.True(t, apperr.Is(w.Disable(t.Context(), w.other, subscriptionID, "x"), apperr.CodeNotFound))
			_, err = w.Target(t.Context(), w.other, subscriptionID)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
		}
		found, _, err := w.Match(t.Context(), w.other, origin("github", "acme"), []string{"a"})
		require.NoError(t, err)
		require.Empty(t, found)
		request, err := page.Query{}.Parse("", id.Matcher(id.PrefixSubscription))
		require.NoError(t, err)
		rows, err := w.List(t.Context(), access.Whole(w.other), subscriptions.Filter{}, request)
		require.NoError(t, err)
		require.Empty(t, rows)
		require.Len(t, w.match(t, w.Service, "a"), 1, "nothing was changed from outside")
		require.Empty(t, w.control.held)
	})
}

// Pausing holds, deleting cancels, each inside the change's transaction: when that fails, nothing has changed.
func TestDeliveriesFollowInTheSameTransaction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		w.control.fail = errors.New("store lost")
		pause := subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(false)}}
		_, err := w.Update(t.Context(), w.p, sub.ID, pause)
		require.ErrorIs(t, err, w.control.fail)
		require.ErrorIs(t, w.Disable(t.Context(), w.p.Environment, sub.ID, "gone"), w.control.fail)
		require.ErrorIs(t, w.Delete(t.Context(), w.p, sub.ID), w.control.fail)
		got, err := w.Get(t.Context(), access.Whole(w.p.Environment), sub.ID)
		require.NoError(t, err)
		require.Equal(t, sub, got)
		actions, _ := w.audited(t, sub.ID)
		require.Equal(t, []string{"webhook_subscription.create"}, actions)

		w.control.fail, w.control.held, w.control.cancelled = nil, nil, nil
		woken := w.control.woken.Load()
		_, err = w.Update(t.Context(), w.p, sub.ID, pause)
		require.NoError(t, err)
		_, err = w.Update(t.Context(), w.p, sub.ID, pause)
		require.NoError(t, err, "pausing what is paused changes nothing")
		_, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("on leave")}})
		require.NoError(t, err)
		require.Equal(t, []string{sub.ID}, w.control.held, "only the pause itself holds")
		require.Greater(t, w.control.woken.Load(), woken)
		require.NoError(t, w.Delete(t.Context(), w.p, sub.ID))
		require.Equal(t, []string{sub.ID}, w.control.cancelled)
		actions, _ = w.audited(t, sub.ID)
		require.Equal(t, []string{"webhook_subscription.create", "webhook_subscription.update", "webhook_subscription.update",
			"webhook_subscription.delete"}, actions)
		_, err = w.Get(t.Context(), access.Whole(w.p.Environment), sub.ID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		require.True(t, apperr.Is(w.Delete(t.Context(), w.p, sub.ID), apperr.CodeNotFound))
	})
}

// The service's own pause has a reason that its owner reads, is audited once, and ends with enabled: true.
func TestDisable(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		for range 2 {
			require.NoError(t, w.Disable(t.Context(), w.p.Environment, sub.ID, "the target answered 410 Gone"))
		}
		require.Equal(t, []string{sub.ID}, w.control.held)
		got, err := w.Get(t.Context(), access.Whole(w.p.Environment), sub.ID)
		require.NoError(t, err)
		require.False(t, got.Enabled)
		require.Equal(t, "the target answered 410 Gone", got.DisabledReason)
		require.True(t, got.UpdatedAt.After(sub.UpdatedAt))
		actions, changes := w.audited(t, sub.ID)
		require.Equal(t, []string{"webhook_subscription.create", "webhook_subscription.disable"}, actions)
		require.JSONEq(t, `{"enabled":{"before":true,"after":false},
			"disabled_reason":{"before":null,"after":"the target answered 410 Gone"}}`, changes[1])
		got, err = w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(true)}})
		require.NoError(t, err)
		require.True(t, got.Enabled)
		require.Empty(t, got.DisabledReason)
		require.NoError(t, w.Delete(t.Context(), w.p, sub.ID))
		require.NoError(t, w.Disable(t.Context(), w.p.Environment, sub.ID, "x"), "a deleted subscription needs no pause")
	})
}

// No simultaneous change is lost: the second of two starts again from the result of the first.
func TestConcurrentChangesKeepBoth(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		raced := w.cfg
		once := false
		raced.Targets = lookups{w.cfg.Targets, func() {
			if once {
				return
			}
			once = true
			_, err := w.Update(t.Context(), w.p, sub.ID,
				subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("first")}})
			require.NoError(t, err)
		}}
		s := subscriptions.New(raced)
		got, err := s.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{ForwardURL: patch.Some("https://198.51.99.8/")})
		require.NoError(t, err)
		require.Equal(t, "first", got.Description)
		stored, err := w.Get(t.Context(), access.Whole(w.p.Environment), sub.ID)
		require.NoError(t, err)
		require.Equal(t, got, stored)
		require.Equal(t, "https://198.51.99.8/", stored.ForwardURL)
	})
}

// Headers and metadata merge as RFC 7396 says, because a caller cannot send again the values that are not shown.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("*")
		ch.Headers = patch.To(map[string]*string{"X-A": ptr("1"), "X-B": ptr("2"), "X-C": ptr("3")})
		ch.Metadata = patch.To(patch.Object{"big": json.Number("9007199254740993"), "in": map[string]any{"a": "1",
			"b": "2"}, "none": nil})
		sub, _, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		require.Contains(t, sub.Metadata, "none")
		got, err := w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Headers: patch.To(map[string]*string{"x-a": ptr("new"), "X-B": nil}),
				Settings: subscriptions.Settings{Metadata: patch.To(patch.Object{"in": map[string]any{"a": nil},
					"more": []any{true}})}})
		require.NoError(t, err)
		require.Equal(t, []subscriptions.Header{{Name: "X-C", Value: "3"}, {Name: "x-a", Value: "new"}}, got.Headers)
		stored, err := w.Get(t.Context(), access.Whole(w.p.Environment), sub.ID)
		require.NoError(t, err)
		require.Equal(t, got, stored)
		require.Equal(t, map[string]any{"big": json.Number("9007199254740993"), "in": map[string]any{"b": "2"}, "none": nil,
			"more": []any{true}}, stored.Metadata)
		stored, err = w.Update(t.Context(), w.p, sub.ID, subscriptions.Change{Headers: patch.Clear[map[string]*string](),
			Settings: subscriptions.Settings{Metadata: patch.Clear[patch.Object]()}})
		require.NoError(t, err)
		require.Empty(t, stored.Headers)
		require.Empty(t, stored.Metadata)
	})
}

// An id that was unknown is looked up again when it is asked for again, and sealed values do not open in a row they
// were not sealed for.
func TestTargetOfAnUnknownIDIsNotRemembered(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		unknown := id.New(id.PrefixSubscription)
		_, err := w.Target(t.Context(), w.p.Environment, unknown)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		sub := w.create(t, "*")
		w.exec(t, "UPDATE webhook_subscriptions SET id = $1 WHERE id = $2", unknown, sub.ID)
		_, err = w.Target(t.Context(), w.p.Environment, unknown)
		require.ErrorIs(t, err, secretbox.ErrDecrypt, "the row is read now, and its values are bound to the other id")
	})
}

func ptr(s string) *string { return &s }

// A request that was let into an environment before it was removed leaves nothing in it.
func TestCreateInARemovedEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.exec(t, `UPDATE environments SET deleted_ms = 1 WHERE id = $1`, string(w.p.Environment))
		_, _, err := w.Create(t.Context(), w.p, change("*"))
		require.True(t, apperr.Is(err, apperr.CodeNotFound), err)
		require.Empty(t, w.match(t, w.Service, "issues"))
	})
}
