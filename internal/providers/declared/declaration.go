package declared

import (
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/risk"
)

// Declaration is the part of a provider definition that is about actions. It is data; Compile makes actions of it or
// rejects it.
type Declaration struct {
	// Pagination is how lists continue in the actions that have the inputs it names; nil if no such way is usual.
	Pagination *Pagination `yaml:"pagination"`
	// Idempotency is how the provider recognises a call that it has had; nil if it does not.
	Idempotency *Idempotency `yaml:"idempotency"`
	// Actions are what can be done at the provider; nil for none.
	Actions *Actions `yaml:"actions"`
	// Risk is what is known about the risk of calls, whether they are among Actions or not.
	Risk *Risks `yaml:"risk"`
}

// Empty reports whether a definition says nothing about actions.
func (d *Declaration) Empty() bool {
	return d.Pagination == nil && d.Idempotency == nil && d.Actions == nil && d.Risk == nil
}

// Actions are the actions of a definition, with what several of them share.
type Actions struct {
	// Style says how arrays and objects are written in queries and forms, for inputs that do not say so.
	Style Style `yaml:"style"`
	// Body says how bodies are written, for actions that do not say so; json if empty.
	Body Body `yaml:"body"`
	// Inputs are inputs that several actions use.
	Inputs Ordered[Input] `yaml:"inputs"`
	// Schemas are schemas to which others refer by their names.
	Schemas Ordered[Schema] `yaml:"schemas"`
	// Inline are the actions by their names, ^[a-z][a-z0-9_]{0,47}$.
	Inline Ordered[Action] `yaml:"inline"`
}

// Action is one call to the provider.
type Action struct {
	// Title is one line of at most 100 characters; it says what the action does. Description is Markdown and may be empty.
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	// Method is GET, HEAD, POST, PUT, PATCH or DELETE.
	Method string `yaml:"method"`
	// Path is relative to the base URL. It has names of inputs in braces, such as /repos/{owner}/{repo}.
	Path string `yaml:"path"`
	// BaseURL stands in place of the definition's, for a part of the API that is at another host or below another path. It
	// is a template as that is, and begins with https:// or a field of type url. Its host is one of allowed_hosts, and the
	// same for all connections, or one to which credentials of each mode go anyway. Empty for the definition's.
	BaseURL string `yaml:"base_url"`
	// Tags group actions; lower-case words joined by hyphens.
	Tags []string `yaml:"tags"`
	// Scopes are the OAuth scopes that permit the call. One of the entries is enough; scopes that are needed together are
	// one entry, with spaces between them.
	Scopes     []string `yaml:"scopes"`
	Deprecated bool     `yaml:"deprecated"`
	// DocsURL is the provider's page; https.
	DocsURL string `yaml:"docs_url"`
	// Use names the inputs of Actions.Inputs that the action has, before those of Input.
	Use []string `yaml:"use"`
	// Input are the values that the action takes, in the order in which they are shown.
	Input Ordered[Input] `yaml:"input"`
	// Required names inputs that must be given. Those in the path are always required.
	Required []string `yaml:"required"`
	// Body says how the body is written; only actions with inputs in the body have one.
	Body Body `yaml:"body"`
	// GraphQL is the text of one GraphQL query or mutation, with its fragments, for POST. Its variables are exactly the
	// inputs. Output describes the whole response, with data.
	GraphQL string `yaml:"graphql"`
	// Output describes a successful response; nil if it is not known.
	Output *Schema `yaml:"output"`
	// Pagination has the differences from the definition's, or is none. With a type it stands alone.
	Pagination *Pagination `yaml:"pagination"`
	// Idempotency replaces the definition's, or is none.
	Idempotency *Idempotency `yaml:"idempotency"`
	// Risk is what is known about the call; nil if method and words judge it rightly. It wins over the rules of Risks.
	Risk *Stated `yaml:"risk"`
}

// Input is a value that an action takes: where it goes, and its schema.
type Input struct {
	// In is path, query, header, body, or whole_body for the body as a whole. If it is empty, a name of the path is there,
	// and others are in the query of GET, HEAD and DELETE and in the body of other methods.
	In Place `yaml:"in"`
	// Name is the name in the request, if it differs.
	Name string `yaml:"name"`
	// Style says how an array or an object is written in a query or a form.
	Style Style `yaml:"style"`
	// Reserved is true of a value in the path whose slashes are kept.
	Reserved bool `yaml:"reserved"`
	Schema   `yaml:",inline"`
}

// Place is where a request has a value.
type Place string

// Style says how an array or an object is written.
type Style string

// The styles. StyleEach gives each item a parameter of its own, and each member of an object one with its own name; it
// is the default, and of a header it is the only style for objects. StyleComma, StyleSpace and StylePipe put something
// between the items. StyleDeep puts indexes and names into brackets: a[0]=1&b[c][d]=2. StyleJSON writes JSON.
const (
	StyleEach  Style = "each"
	StyleComma Style = "comma"
	StyleSpace Style = "space"
	StylePipe  Style = "pipe"
	StyleDeep  Style = "deep"
	StyleJSON  Style = "json"
)

// Body says how a body is written.
type Body string

// The forms of bodies.
const (
	BodyJSON      Body = "json"
	BodyForm      Body = "form"
	BodyMultipart Body = "multipart"
)

// Pagination says how a list continues, as actions.Pagination, whose fields these are.
type Pagination struct {
	// Text is none in place of a mapping, for a list that does not continue.
	Text       string `yaml:"-"`
	Type       string `yaml:"type"`
	Items      string `yaml:"items"`
	Parameter  string `yaml:"parameter"`
	Size       string `yaml:"size"`
	MaxSize    int    `yaml:"max_size"`
	Next       string `yaml:"next"`
	NextOfLast bool   `yaml:"next_of_last"`
	More       string `yaml:"more"`
	First      int    `yaml:"first"`
}

// Idempotency says how the provider recognises a call that it has had.
type Idempotency struct {
	// Text is none in place of a mapping, for an action that the provider does not recognise.
	Text string `yaml:"-"`
	// Header is the name of the header that takes a key.
	Header string `yaml:"header"`
	// Methods are those of the calls with the header; POST if empty. Only the definition's have them.
	Methods []string `yaml:"methods"`
}

// Risks are rules about the risk of calls.
type Risks struct {
	Rules []Rule `yaml:"rules"`
}

// Rule states the risk of the calls that it matches. The first rule that matches is used.
type Rule struct {
	Match  Match `yaml:"match"`
	Stated `yaml:",inline"`
}

// Match says which calls are meant; all that is given must be true.
type Match struct {
	// Method is one method, or several.
	Method outbound.Texts `yaml:"method"`
	// Path is a path in which * or a name in braces is one segment; ** at its end is any number of segments.
	Path string `yaml:"path"`
	// Action names actions of the definition.
	Action outbound.Texts `yaml:"action"`
}

// Stated is what is known about the risk of a call, as risk.Declared, whose fields these are.
type Stated struct {
	Level     risk.Level     `yaml:"level"`
	Operation risk.Operation `yaml:"operation"`
	Flags     []risk.Flag    `yaml:"flags"`
	Reason    string         `yaml:"reason"`
}

// Schema describes a value with the keywords of JSON Schema 2020-12, which it spells as they do.
type Schema struct {
	// Ref is the name of one of Actions.Schemas, which stands here. Only a description can be next to it.
	Ref string `yaml:"ref"`
	// Type is one type, or several: string, integer, number, boolean, array, object, null.
	Type        outbound.Texts `yaml:"type"`
	Title       string         `yaml:"title"`
	Description string         `yaml:"description"`
	// Format is one of those that formats lists. A string of format binary is a file: an object with base64, filename and
	// content_type in the input.
	Format   string  `yaml:"format"`
	Enum     []Value `yaml:"enum"`
	Const    Value   `yaml:"const"`
	Default  Value   `yaml:"default"`
	Examples []Value `yaml:"examples"`

	MinLength *int `yaml:"minLength"`
	MaxLength *int `yaml:"maxLength"`
	// Pattern is an expression that RE2 and ECMAScript read alike.
	Pattern string `yaml:"pattern"`

	Minimum          Value `yaml:"minimum"`
	Maximum          Value `yaml:"maximum"`
	ExclusiveMinimum Value `yaml:"exclusiveMinimum"`
	ExclusiveMaximum Value `yaml:"exclusiveMaximum"`
	MultipleOf       Value `yaml:"multipleOf"`

	Items       *Schema `yaml:"items"`
	MinItems    *int    `yaml:"minItems"`
	MaxItems    *int    `yaml:"maxItems"`
	UniqueItems bool    `yaml:"uniqueItems"`

	Properties           Ordered[Schema] `yaml:"properties"`
	Required             []string        `yaml:"required"`
	AdditionalProperties *Others         `yaml:"additionalProperties"`
	MinProperties        *int            `yaml:"minProperties"`
	MaxProperties        *int            `yaml:"maxProperties"`

	AnyOf      []Schema `yaml:"anyOf"`
	Deprecated bool     `yaml:"deprecated"`
}
