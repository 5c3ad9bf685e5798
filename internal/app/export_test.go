package app

import (
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/verification"
)

// DocumentedAPI is the API behind Document.
func DocumentedAPI() *httpapi.API { return documented() }

// NewKeyFetcher returns what fetches the keys of providers.
func NewKeyFetcher(c *egress.Client) verification.KeyFetcher { return keyFetcher{c} }
