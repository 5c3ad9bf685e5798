package actiondiff

import "sallyport/internal/platform/httpapi/oas"

// Kind is what differs.
type Kind string

// The kinds. Those of Input are about what a caller sends, and those of Output about the result.
const (
	// Request is the method, or the path apart from the names of its parameters.
	Request Kind = "request"
	// Body is the media type of the body, its GraphQL operation, or whether a body is required.
	Body            Kind = "body"
	InputAdded      Kind = "input_added"
	InputRemoved    Kind = "input_removed"
	InputRequired   Kind = "input_required"
	InputOptional   Kind = "input_optional"
	InputType       Kind = "input_type"
	InputEnum       Kind = "input_enum"
	InputConstraint Kind = "input_constraint"
	// InputMoved is of a property that goes to another place of the request, or is written in another way.
	InputMoved       Kind = "input_moved"
	OutputAdded      Kind = "output_added"
	OutputRemoved    Kind = "output_removed"
	OutputRequired   Kind = "output_required"
	OutputOptional   Kind = "output_optional"
	OutputType       Kind = "output_type"
	OutputEnum       Kind = "output_enum"
	OutputConstraint Kind = "output_constraint"
	Scopes           Kind = "scopes"
	Pagination       Kind = "pagination"
	Idempotency      Kind = "idempotency"
	// Risk is the level, the operation or the flags.
	Risk Kind = "risk"
	// Deprecation is whether the provider wants no one to use the action any more.
	Deprecation Kind = "deprecation"
	// Documentation are texts, tags and links.
	Documentation Kind = "documentation"
)

func kinds() []Kind {
	return []Kind{Request, Body, InputAdded, InputRemoved, InputRequired, InputOptional, InputType, InputEnum,
		InputConstraint, InputMoved, OutputAdded, OutputRemoved, OutputRequired, OutputOptional, OutputType, OutputEnum,
		OutputConstraint, Scopes, Pagination, Idempotency, Risk, Deprecation, Documentation}
}

// Schema returns the schema with the kinds, for the API.
func (Kind) Schema(oas.Registry) *oas.Schema { return oas.Enum(kinds()) }

// words are the kinds of differences of schemas, on one side.
type words struct{ added, removed, required, optional, typed, enum, constraint Kind }

func inputWords() *words {
	return &words{InputAdded, InputRemoved, InputRequired, InputOptional, InputType, InputEnum, InputConstraint}
}

func outputWords() *words {
	return &words{OutputAdded, OutputRemoved, OutputRequired, OutputOptional, OutputType, OutputEnum, OutputConstraint}
}
