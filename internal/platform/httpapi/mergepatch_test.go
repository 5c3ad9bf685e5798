package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
)

type changeInput struct {
	Body struct {
		Note patch.Field[string] `json:"note,omitempty" doc:"d"`
	}
}

type changeOutput struct {
	httpapi.Versioned
	Body map[string]any
}

// A PATCH takes a merge patch under its own media type (RFC 7396 section 4) as well as under that of JSON, and no other
// operation does. The document lists both.
func TestMediaTypesOfAPatch(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	httpapi.Register(s.api, httpapi.Operation{ID: "change-thing", Method: http.MethodPatch, Path: "/things/1",
		Tag: "things", Summary: "s", Description: "d", Permission: access.ConnectionsWrite,
		Route: access.RouteConnections, Status: http.StatusOK, IfMatch: true},
		func(_ context.Context, in *changeInput) (*changeOutput, error) {
			out := changeOutput{Body: map[string]any{"set": in.Body.Note.Set, "null": in.Body.Note.Null}}
			return &out, nil
		})
	for media, status := range map[string]int{
		"application/json":                                http.StatusOK,
		"application/merge-patch+json":                    http.StatusOK,
		"Application/Merge-Patch+JSON; charset=\"utf-8\"": http.StatusOK,
		"application/json-patch+json":                     http.StatusUnsupportedMediaType,
		"text/plain":                                      http.StatusUnsupportedMediaType,
		"application/merge-patch+json, text/plain":        http.StatusUnsupportedMediaType,
	} {
		w := s.do(http.MethodPatch, things+"/1", `{"note":null}`, "API-Key", "key", "Content-Type", media)
		require.Equal(t, status, w.Code, "%s: %s", media, w.Body)
		if status == http.StatusOK {
			require.JSONEq(t, `{"set":true,"null":true}`, w.Body.String(), media)
			continue
		}
		require.Equal(t, "Send the body with Content-Type: application/json or application/merge-patch+json",
			envelopeOf(t, w).Error.Message)
	}
	w := s.do(http.MethodPost, things, `{"name":"a"}`, "API-Key", "key", "Content-Type", "application/merge-patch+json")
	require.Equal(t, http.StatusUnsupportedMediaType, w.Code)
	require.Equal(t, "Send the body with Content-Type: application/json", envelopeOf(t, w).Error.Message)

	text, err := s.api.Document()
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]any `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(text, &document))
	change := document.Paths["/things/1"]["patch"].RequestBody.Content
	require.Len(t, change, 2)
	require.Equal(t, change["application/json"], change["application/merge-patch+json"])
	require.Len(t, document.Paths["/things"]["post"].RequestBody.Content, 1)
}
