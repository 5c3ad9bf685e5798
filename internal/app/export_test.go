package app

import (
	"sallyport/internal/identity"
	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/verification"
)

// NewKeyFetcher returns what fetches the keys of providers.
func NewKeyFetcher(c *egress.Client) verification.KeyFetcher { return keyFetcher{c} }

// Identity returns the people of a process.
func Identity(a *App) *identity.Service { return a.store.Identity }
