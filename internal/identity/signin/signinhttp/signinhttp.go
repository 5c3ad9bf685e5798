// Package signinhttp serves the sign-in of users over HTTP: their sessions and the cookie that continues them, their
// passwords and their authenticator apps.
package signinhttp

import (
	"net/http"

	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/httpapi"
)

const tag = "Sign-in"

type handlers struct {
	svc     *signin.Service
	origins *http.CrossOriginProtection
}

// mount adds the operations on sign-ins to the API.
func mount(api *httpapi.API, svc *signin.Service) {
	h := &handlers{svc: svc, origins: newOrigins(svc.Issuer())}
	h.mountSessions(api)
	h.mountMe(api)
	h.mountReset(api)
	h.mountTOTP(api)
}
