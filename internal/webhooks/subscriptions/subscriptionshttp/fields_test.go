package subscriptionshttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// writable is a field that callers write and responses show. All values are JSON.
type writable struct {
	name string
	// initial is the field's value of a subscription that was created without it.
	initial string
	// first and second are values as they are sent and shown.
	first, second string
	// required marks a field that null does not clear.
	required bool
}

func writables() []writable {
	return []writable{
		{name: "provider_config_key", initial: `null`, first: `"github"`, second: `"github"`},
		{name: "connection_id", initial: `null`, first: `"acme"`, second: `"acme"`},
		{name: "description", initial: `""`, first: `"a"`, second: `"b"`},
		{name: "enabled", initial: `true`, first: `false`, second: `true`, required: true},
		{name: "filter", initial: `null`, first: `"event.type != \"a\""`, second: `"event.type != \"b\""`},
		{name: "payload_mode", initial: `"envelope"`, first: `"raw"`, second: `"envelope"`, required: true},
		{name: "retry_schedule_seconds", initial: `[5,30,120,600,3600,14400,43200,86400]`, first: `[1.5]`, second: `[]`,
			required: true},
		{name: "timeout_ms", initial: `15000`, first: `1000`, second: `30000`, required: true},
		{name: "metadata", initial: `{}`, first: `{"n":12345678901234567890}`, second: `{"n":"text"}`},
	}
}

// Every writable field is stored and shown as it is sent, by a creation and by an update, on its own; null clears it or
// is a violation, as documented.
func TestWritableFields(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newServer(t, store)
		for _, f := range writables() {
			shows := func(item, want string) {
				t.Helper()
				var one map[string]json.RawMessage
				s.Do(t, "key", http.MethodGet, item, "").Into(t, &one)
				require.JSONEq(t, want, string(one[f.name]), f.name)
				var list []map[string]json.RawMessage
				s.Do(t, "key", http.MethodGet, path, "").Into(t, &list)
				require.JSONEq(t, want, string(list[0][f.name]), f.name)
			}
			set := func(item, value string) int {
				return s.Do(t, "key", http.MethodPatch, item, fmt.Sprintf(`{%q:%s}`, f.name, value)).Status
			}
			shows(path+"/"+s.create(t, minimal), f.initial)
			item := path + "/" + s.create(t, fmt.Sprintf(`{"event_types":["*"],"forward_url":"https://198.51.99.7/",%q:%s}`,
				f.name, f.first))
			shows(item, f.first)
			require.Equal(t, http.StatusOK, set(item, f.second), f.name)
			shows(item, f.second)
			if f.required {
				require.Equal(t, http.StatusUnprocessableEntity, set(item, "null"), f.name)
				shows(item, f.second)
			} else {
				require.Equal(t, http.StatusOK, set(item, "null"), f.name)
				shows(item, f.initial)
			}
		}
	})
}
