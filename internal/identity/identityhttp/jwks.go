package identityhttp

import (
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/platform/httpapi"
)

// jwks serves the public keys of access tokens (RFC 7517). The route lies outside the API, where others look for it.
func (h handler) jwks(w http.ResponseWriter, r *http.Request) {
	set, err := h.identity.AccessTokens.JWKS(r.Context())
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
