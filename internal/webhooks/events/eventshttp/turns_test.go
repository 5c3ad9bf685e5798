package eventshttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
)

// While the lists of one environment fill their places and more of them wait, the requests of another environment,
// reads by key of the same one, and readiness are served; the lists that wait are served afterwards.
func TestListsOfOneEnvironmentLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		uuid := s.event(t, nil)
		foreign := s.event(t, func(e *events.NewEvent) { e.Environment = s.other })
		end := testkit.FillLists(t, store.DB, string(s.env))
		lists := []string{path, path + "?provider=nothing", path + "?include=body,headers,deliveries",
			path + "/" + uuid + "/attempts"}
		statuses := make(chan int, len(lists))
		for _, list := range lists {
			go func() { statuses <- s.get(t, list).Status }()
		}
		await.Condition(t, "the lists to wait", func() bool {
			return testkit.Metric(t, store.DB.Metrics(), "sallyport_database_lists_waiting") == float64(len(lists))
		})
		require.Empty(t, statuses, "a list has not taken its turn")
		require.Equal(t, http.StatusOK, s.get(t, path+"/"+uuid).Status)
		require.Equal(t, http.StatusOK, s.Do(t, "foreign", http.MethodGet, path+"/"+foreign, "").Status)
		require.NoError(t, store.DB.Ping(t.Context()))
		if store.DB.Engine() == db.Postgres { // SQLite may have a single place
			require.Equal(t, []string{foreign}, uuidsOf(t, s.Do(t, "foreign", http.MethodGet, path+"?include=body", "")))
		}
		end()
		require.Equal(t, []string{foreign}, uuidsOf(t, s.Do(t, "foreign", http.MethodGet, path, "")))
		for range lists {
			require.Equal(t, http.StatusOK, <-statuses)
		}
	})
}
