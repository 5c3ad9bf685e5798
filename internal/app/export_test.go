package app

import "sallyport/internal/platform/httpapi"

// DocumentedAPI is the API behind Document.
func DocumentedAPI() *httpapi.API { return documented() }
