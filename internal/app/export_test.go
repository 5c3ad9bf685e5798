package app

import (
	"sallyport/internal/identity"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/providers/verification"
)

// DocumentedAPI is the API behind Document.
func DocumentedAPI() *httpapi.API { return documented() }

// NewKeyFetcher returns what fetches the keys of providers.
func NewKeyFetcher(c *egress.Client) verification.KeyFetcher { return keyFetcher{c} }

// Identity returns the people of a process.
func Identity(a *App) *identity.Service { return a.store.Identity }
