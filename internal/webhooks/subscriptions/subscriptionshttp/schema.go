package subscriptionshttp

import (
	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/httpapi"
)

// TransformSchema documents the limits of the body and leaves checking them to the rules of subscriptions.
func (*creation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}

// TransformSchema documents the limits of the body and leaves checking them to the rules of subscriptions.
func (*patch) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return httpapi.DocumentOnly(s)
}
