// Package actions describes what can be done at providers: the form of an action, and the names of actions and tools.
// It stores and calls nothing.
package actions

import (
	"encoding/json"

	"sallyport/internal/providers/risk"
)

// Action is one call to a provider, described for people, programs and models.
type Action struct {
	// Name is unique within the provider: ^[a-z][a-z0-9_]{0,47}$.
	Name string
	// Title is one line; Description may be Markdown. Both are empty where the source has none.
	Title, Description string
	Tags               []string
	Deprecated         bool
	// DocsURL is the provider's page; empty if none is known.
	DocsURL string
	// Method is upper-case. Path is a template with names in braces, relative to the base URL; empty for the base URL
	// itself.
	Method, Path string
	// BaseURL is a template, as the provider's base URL is, that stands in its place; empty for the provider's.
	BaseURL string
	// Input is a JSON Schema (2020-12) of one flat object, and Output that of a successful response; nil if it is not
	// known.
	Input, Output json.RawMessage
	// Parameters say where each property of Input goes, in the order of the schema.
	Parameters []Parameter
	// Body says how members of the body are sent.
	Body Body
	// Scopes are OAuth scopes that permit the call: one of the lists is enough.
	Scopes [][]string
	// Pagination is nil for an action that returns no list in pages, and Idempotency for one without a key.
	Pagination  *Pagination
	Idempotency *Idempotency
	// Call is what its risk is assessed from.
	Call risk.Call
}

// Place is where a request has a value.
type Place string

// The places. InBody is a member of the body, AsBody is the body as a whole.
const (
	InPath   Place = "path"
	InQuery  Place = "query"
	InHeader Place = "header"
	InBody   Place = "body"
	AsBody   Place = "whole_body"
)

// Parameter says where a property of the input goes.
type Parameter struct {
	// Property is its name in the input, and Name that in the request.
	Property, Name string
	Place          Place
	// Style says how arrays and objects are written: as OpenAPI 3 names it. Empty for the default of the place.
	Style string
	// Explode is true if each item gets a parameter of its own.
	Explode bool
	// JSON is true of a parameter whose value is written as JSON.
	JSON bool
	// Reserved is true of a value in the path that is several segments, such as projects/a/topics/b. Its slashes stay, and
	// each segment is escaped as a value of its own is. A value with a segment that is empty, "." or ".." must be refused,
	// because it leads to another path than that of the action.
	Reserved bool
}

// Body says how a body is written.
type Body struct {
	// ContentType is a media type without parameters; empty for a call without a body.
	ContentType string
	// Required is true if a call without a body is not valid.
	Required bool
	// GraphQL is the text of a GraphQL operation, which is sent with the members of the body as its variables; empty for
	// other calls.
	GraphQL string
}
