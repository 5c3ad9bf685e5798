package actions_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// The stored form has all that an action says.
func TestStoredActions(t *testing.T) {
	t.Parallel()
	a := &actions.Action{
		Name: "list_sheets", Title: "List sheets", Description: "Lists them.", Tags: []string{"sheets"}, Deprecated: true,
		DocsURL: "https://docs.acme.example/sheets", Method: "GET", Path: "/v4/{sheet}",
		BaseURL: "https://sheets.acme.example", Input: []byte(`{"type":"object"}`), Output: []byte(`{"type":"array"}`),
		Parameters:  []actions.Parameter{{Property: "sheet", Name: "sheet", Place: actions.InPath}},
		Body:        actions.Body{ContentType: "application/json", Required: true, GraphQL: "{a}"},
		Scopes:      [][]string{{"read"}},
		Pagination:  &actions.Pagination{Type: actions.PagesByLink},
		Idempotency: &actions.Idempotency{Header: "Idempotency-Key"},
		Call:        risk.Call{Method: "GET", Path: "/v4/{sheet}", Name: "list_sheets"},
	}
	for v, i := reflect.ValueOf(*a), 0; i < v.NumField(); i++ {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
	text, err := a.Encode()
	require.NoError(t, err)
	again, err := actions.Decode(text)
	require.NoError(t, err)
	require.Equal(t, a, again)
	a.BaseURL = ""
	other, err := a.Encode()
	require.NoError(t, err)
	first, second := again.Summarize(text), a.Summarize(other)
	require.NotEqual(t, first.Content, second.Content, "a call to another host is another action")
}
