package apikeyshttp

import (
	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi/oas"
)

// route is a group of operations.
type route access.Route

// Schema returns the schema with the routes.
func (route) Schema(oas.Registry) *oas.Schema { return oas.Enum(access.Routes()) }

// effect is the effect of a grant.
type effect apikeys.Effect

// Schema returns the schema with the effects.
func (effect) Schema(oas.Registry) *oas.Schema { return oas.Enum(apikeys.Effects()) }

// keyStatus is the status of a key.
type keyStatus apikeys.KeyStatus

// Schema returns the schema with the statuses.
func (keyStatus) Schema(oas.Registry) *oas.Schema { return oas.Enum(apikeys.KeyStatuses()) }

// useOutcome is the outcome of a request with a key.
type useOutcome apikeys.UseOutcome

// Schema returns the schema with the outcomes.
func (useOutcome) Schema(oas.Registry) *oas.Schema { return oas.Enum(apikeys.UseOutcomes()) }

// generation is the secret of a key that a text contains.
type generation string

const (
	currentSecret  generation = "current"
	previousSecret generation = "previous"
)

// Schema returns the schema with the generations.
func (generation) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]generation{currentSecret, previousSecret})
}
