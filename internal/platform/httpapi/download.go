package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Download is the answer of an operation that writes it by itself, after everything about the request has been found
// right. serve gets the request's context, which ends when the client leaves.
func Download(serve func(ctx context.Context, w http.ResponseWriter)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		serve(r.Context(), w)
	}}
}
