package subscriptions_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// A match carries the filter of its subscription, and other processes see a change of it as they see every other.
func TestMatchesCarryFilters(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		reader := w.process()
		asked := func(s *subscriptions.Service) (texts []string) {
			for _, m := range w.match(t, s, "issue.created", "issue.closed") {
				if m.Filter != nil {
					texts = append(texts, m.Filter.String())
				}
			}
			return texts
		}
		filtered := func(text string, patterns ...string) string {
			ch := change(patterns...)
			ch.Filter = patch.To(text)
			sub, _, err := w.Create(t.Context(), w.p, ch)
			require.NoError(t, err)
			require.Equal(t, text, sub.Filter)
			return sub.ID
		}
		w.create(t, "*")
		require.Empty(t, asked(w.Service))
		first := filtered(`event.type == "a"`, "issue.*")
		filtered(`event.type == "a"`, "*")
		filtered(`event.type == "b"`, "push")
		require.Equal(t, []string{`event.type == "a"`, `event.type == "a"`}, asked(w.Service))
		require.Equal(t, []string{`event.type == "a"`, `event.type == "a"`}, asked(reader))

		require.NoError(t, reader.Refresh(t.Context()))
		_, err := w.Update(t.Context(), w.p, first,
			subscriptions.Change{Settings: subscriptions.Settings{Filter: patch.To(`event.type == "c"`)}})
		require.NoError(t, err)
		require.Equal(t, []string{`event.type == "c"`, `event.type == "a"`}, asked(w.Service))
		require.Equal(t, []string{`event.type == "a"`, `event.type == "a"`}, asked(reader),
			"the other process has not looked yet")
		require.NoError(t, reader.Refresh(t.Context()))
		require.Equal(t, []string{`event.type == "c"`, `event.type == "a"`}, asked(reader))

		sub, err := w.Update(t.Context(), w.p, first,
			subscriptions.Change{Settings: subscriptions.Settings{Filter: patch.Clear[string]()}})
		require.NoError(t, err)
		require.Empty(t, sub.Filter)
		require.Equal(t, []string{`event.type == "a"`}, asked(w.Service))
		for _, m := range w.match(t, w.Service, "issue.created") {
			require.Equal(t, m.ID == first || m.Filter == nil, m.Filter == nil)
		}
		_, changes := w.audited(t, first)
		require.JSONEq(t, `{"filter":{"before":"event.type == \"c\"","after":null}}`, changes[2])
	})
}

// A change of one subscription leaves the compiled filters of the others as they are.
func TestFiltersSurviveChangesOfOthers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ch := change("*")
		ch.Filter = patch.To("true")
		_, _, err := w.Create(t.Context(), w.p, ch)
		require.NoError(t, err)
		one := func() *filters.Filter {
			found := w.match(t, w.Service, "a")
			require.NotNil(t, found[0].Filter)
			return found[0].Filter
		}
		before := one()
		w.create(t, "*")
		require.Same(t, before, one())
	})
}
