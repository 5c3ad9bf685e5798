// Package accesstokenshttp serves the public keys of access tokens over HTTP.
package accesstokenshttp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/platform/httpapi"
)

// mount adds the route of the public keys (RFC 7517). It is outside the API, where verifiers look for it.
func mount(api *httpapi.API, svc *accesstokens.Service) {
	api.Handle("GET /.well-known/jwks.json", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveKeys(w, r, svc)
	}))
}

func serveKeys(w http.ResponseWriter, r *http.Request, svc *accesstokens.Service) {
	set, err := svc.JWKS(r.Context())
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	text, err := json.Marshal(set)
	if err != nil {
		httpapi.WriteError(w, r, fmt.Errorf("encode the key set: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(accesstokens.JWKSMaxAge.Seconds())))
	_, _ = w.Write(text) // the client is gone when this fails
}
