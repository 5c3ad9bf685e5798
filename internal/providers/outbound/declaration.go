package outbound

import (
	"fmt"
	"reflect"

	"github.com/goccy/go-yaml"
)

// Declaration is the outbound half of a provider definition. It is data; Compile turns it into an Engine or rejects it.
//
// Texts that are called templates may contain ${…}; README.md lists what stands there.
type Declaration struct {
	// ConnectionConfig are the values that each connection has besides its credentials, in the order of the form.
	ConnectionConfig ConfigFields `yaml:"connection_config"`
	// BaseURL is a template of the URL under which the API is. Several are an order: the next is for a provider whose
	// first does not respond.
	BaseURL Texts `yaml:"base_url"`
	// AllowedHosts lists the hosts that may get credentials: names, in which * is one label, templates of them, or
	// ${config.name} of a field of type url, which stands for the host and port of that URL.
	AllowedHosts []string `yaml:"allowed_hosts"`
	// OwnSuffixes lists public suffixes that are the provider's own: each label below one belongs to a customer, and the
	// provider serves all of them, such as myshopify.com. An open label of AllowedHosts may be directly over them.
	OwnSuffixes []string `yaml:"own_suffixes"`
	// Auth lists the ways in which a connection authenticates. The first is the default.
	Auth []Auth `yaml:"auth"`
	// Scopes says in words what OAuth scopes permit, by their names: what they let someone do, as one line without a full
	// stop. A scope that is not here is shown as it is.
	Scopes map[string]string `yaml:"scopes"`
	// Request is what all requests have.
	Request Request `yaml:"request"`
	// Health is how a connection is tested; nil if the provider has no request for that.
	Health *Health `yaml:"health"`
	// RateLimit describes the provider's limits; nil for a status of 429 and the header Retry-After (RFC 9110).
	RateLimit *RateLimit `yaml:"rate_limit"`
	// Errors describes the provider's errors; nil for a status of 401 for refused credentials.
	Errors *Errors `yaml:"errors"`
}

// Empty reports whether a definition has no outbound half.
func (d *Declaration) Empty() bool {
	return len(d.ConnectionConfig.names) == 0 && d.BaseURL == nil && d.AllowedHosts == nil && d.OwnSuffixes == nil &&
		d.Auth == nil && d.Scopes == nil &&
		reflect.DeepEqual(d.Request, Request{}) && d.Health == nil && d.RateLimit == nil && d.Errors == nil
}

// ConfigField is one value of connection_config.
type ConfigField struct {
	// Type is string, integer, boolean or url; string if empty. A field with Enum has none.
	Type FieldType `yaml:"type"`
	// Title and Description are for the form; one line each.
	Title       string `yaml:"title"`
	Description string `yaml:"description"`
	// Pattern is an RE2 expression that must match a string as a whole. A string in the place of a host is one label
	// unless Pattern or Enum says otherwise.
	Pattern string `yaml:"pattern"`
	// Example is a value for documentation, which Pattern accepts.
	Example string `yaml:"example"`
	// Enum lists the accepted values.
	Enum []string `yaml:"enum"`
	// Default is used if the connection has no value.
	Default string `yaml:"default"`
	// Secret values are sealed and never shown.
	Secret bool `yaml:"secret"`
	// Optional fields may stay without a value.
	Optional bool `yaml:"optional"`
	// RequiredFor names the modes of auth in which a user has to give a value although the field is optional, has a
	// default or has another source.
	RequiredFor []string `yaml:"required_for"`
	// Suffix is what stands behind the value in the provider's addresses, such as ".acme.com". It is shown behind the
	// field, and taken off a value that was pasted with it.
	Suffix string `yaml:"suffix"`
	// Source is where the value comes from: user, redirect (a parameter of the OAuth redirect), token_response or probe;
	// user if empty. A user may give values of all sources, for tokens made elsewhere.
	Source FieldSource `yaml:"source"`
}

// FieldType is the type of a value.
type FieldType string

// The types of values.
const (
	TypeString  FieldType = "string"
	TypeInteger FieldType = "integer"
	TypeBoolean FieldType = "boolean"
	TypeURL     FieldType = "url"
	TypeEnum    FieldType = "enum"
)

// FieldSource is where a value comes from.
type FieldSource string

// The sources of values.
const (
	SourceUser          FieldSource = "user"
	SourceRedirect      FieldSource = "redirect"
	SourceTokenResponse FieldSource = "token_response"
	SourceProbe         FieldSource = "probe"
)

// ConfigFields is a mapping of names to fields that keeps its order.
type ConfigFields struct {
	names  []string
	byName map[string]ConfigField
}

// UnmarshalYAML reads the mapping.
func (f *ConfigFields) UnmarshalYAML(unmarshal func(any) error) error {
	var order yaml.MapSlice
	if err := unmarshal(&order); err != nil {
		return fmt.Errorf("read the names of fields: %w", err)
	}
	if err := unmarshal(&f.byName); err != nil {
		return fmt.Errorf("read fields: %w", err)
	}
	for _, item := range order {
		f.names = append(f.names, fmt.Sprint(item.Key))
	}
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (f ConfigFields) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[map[string]ConfigField]()}
}

// Texts is one text or a list of texts.
type Texts []string

// UnmarshalYAML reads a text or a list.
func (t *Texts) UnmarshalYAML(unmarshal func(any) error) error {
	var list []string
	if unmarshal(&list) == nil {
		*t = list
		return nil
	}
	var one string
	if err := unmarshal(&one); err != nil {
		return fmt.Errorf("read a text or a list of texts: %w", err)
	}
	*t = Texts{one}
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (t Texts) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[[]string]()}
}

// Request is what requests to the provider have. Names and values of headers and of the query are templates; those of
// a mode are added to the definition's and win over them. One whose values are all empty is left out. A text without an
// expression is a default, which a caller can replace; anything else a caller cannot set.
type Request struct {
	Headers map[string]string `yaml:"headers"`
	Query   map[string]string `yaml:"query"`
	// UserAgent replaces the caller's User-Agent; only the definition's Request has it.
	UserAgent string `yaml:"user_agent"`
	// FollowRedirects is never or reads: GET and HEAD follow at most three redirects, without credentials on another host.
	// never if empty; only the definition's Request has it.
	FollowRedirects Redirects `yaml:"follow_redirects"`
}

// Redirects says which redirects are followed.
type Redirects string

// The rules for redirects.
const (
	RedirectsNever Redirects = "never"
	RedirectsReads Redirects = "reads"
)

// Health lists the requests that test a connection. All have to succeed.
type Health struct {
	Probes []Probe `yaml:"probes"`
}

// Probe is one request that tests a connection.
type Probe struct {
	// Method is GET, HEAD or POST; GET if empty.
	Method string `yaml:"method"`
	// Path is a template, relative to the base URL; it may have a query.
	Path string `yaml:"path"`
	// URL is a template of an absolute URL instead, for a provider that names the account at another host. A base URL of a
	// provider config does not change it. Where it begins with an optional field of connection_config, connections without
	// that field have no such probe.
	URL string `yaml:"url"`
	// Headers are added to those of all requests, and win over the defaults among them.
	Headers map[string]string `yaml:"headers"`
	// AWS replaces the region and the service of signatures, for a URL at another service.
	AWS *AWS `yaml:"aws"`
	// Body is the body of a POST, as JSON; empty for none.
	Body string `yaml:"body"`
	// OK lists the statuses of success, such as 200 or 2xx; 2xx if empty. The rules of errors apply too.
	OK Texts `yaml:"ok"`
	// Modes names the modes of auth that the probe is for; all if empty.
	Modes []string `yaml:"modes"`
	// Account locates the account in the response; nil if it names none. Pointers that find nothing are no error.
	Account *ProbeAccount `yaml:"account"`
	// Config locates values of fields whose source is probe, by the field's name.
	Config map[string]string `yaml:"config"`
	// Choice is for a response that lists several accounts, of which a person chooses one; nil if there is but one.
	Choice *ProbeChoice `yaml:"choice"`
}

// ProbeChoice says that a value of Config is that of the first account of a list.
type ProbeChoice struct {
	// Config is the field. Its pointer has the segment 0, which is the index in the list.
	Config string `yaml:"config"`
	// Label locates the name of the first account, with the same segments up to the index.
	Label string `yaml:"label"`
}

// ProbeAccount locates the provider's account.
type ProbeAccount struct {
	// ID is what stays the same when the account is renamed.
	ID Place `yaml:"id"`
	// Label is what people call the account.
	Label Place `yaml:"label"`
}

// Place is where a value is: in the file a JSON pointer (RFC 6901) into the body, or a mapping with one of its fields.
type Place struct {
	// Body is a JSON pointer into the body of the response.
	Body string `yaml:"body"`
	// Header is a header of the response.
	Header string `yaml:"header"`
	// Config is a field of connection_config that is no secret.
	Config string `yaml:"config"`
}

// placeFields is Place as a mapping.
type placeFields Place

// UnmarshalYAML reads a pointer or a mapping.
func (p *Place) UnmarshalYAML(unmarshal func(any) error) error {
	var pointer string
	if unmarshal(&pointer) == nil {
		*p = Place{Body: pointer}
		return nil
	}
	if err := unmarshal((*placeFields)(p)); err != nil {
		return fmt.Errorf("read a JSON pointer or a place: %w", err)
	}
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (p Place) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[placeFields]()}
}

// Condition is a test of a response. All its parts have to hold.
type Condition struct {
	// Status lists statuses, such as 403 or 4xx; any if empty.
	Status Texts `yaml:"status"`
	// Header is the name of a header, Body a JSON pointer (RFC 6901) into the body. At most one of them is given; the
	// fields below are about its value.
	Header string `yaml:"header"`
	Body   string `yaml:"body"`
	// BodyContains is a text that the body has to contain in its first 64 KiB, for a provider that responds in plain
	// text. Case is ignored. It stands alone, or with Status.
	BodyContains string `yaml:"body_contains"`
	// Equals, In, Contains and Present: at most one is given. Text is compared as it stands, numbers and booleans as they
	// are written. Contains ignores case. Without any the value has to be there.
	Equals   string   `yaml:"equals"`
	In       []string `yaml:"in"`
	Contains string   `yaml:"contains"`
	// Absent is true if the value must not be there.
	Absent bool `yaml:"absent"`
}

// RateLimit describes the provider's limits.
type RateLimit struct {
	// RetryStatuses lists the statuses after which a later attempt may succeed; 429, 502, 503 and 504 if empty.
	RetryStatuses Texts `yaml:"retry_statuses"`
	// LimitedWhen lists the marks of a limit; a status of 429 is always one.
	LimitedWhen []Condition `yaml:"limited_when"`
	// Wait lists the headers that say how long to wait, in their order; Retry-After if empty.
	Wait []Wait `yaml:"wait"`
	// MinWait is the wait of a limit for which no header gives one; none if empty.
	MinWait string `yaml:"min_wait"`
	// MaxWait is the longest wait that a request waits out, such as 60s.
	MaxWait string `yaml:"max_wait"`
	// Budget lists the requests that the provider allows.
	Budget []Budget `yaml:"budget"`
	// Learn lists headers that say how much of a limit is left.
	Learn []Learn `yaml:"learn"`
}

// Wait is a header with a time to wait.
type Wait struct {
	Header string   `yaml:"header"`
	Kind   WaitKind `yaml:"kind"`
	// When is what a response must have for the header to count; nil for nothing.
	When *Condition `yaml:"when"`
}

// WaitKind is the form of a time to wait.
type WaitKind string

// The forms of times.
const (
	WaitSecondsOrDate WaitKind = "seconds_or_date" // of Retry-After (RFC 9110 section 10.2.3)
	WaitSeconds       WaitKind = "seconds"         // from now; fractions are allowed
	WaitMillis        WaitKind = "milliseconds"    // from now
	WaitEpochSeconds  WaitKind = "epoch_s"
	WaitEpochMillis   WaitKind = "epoch_ms"
	WaitRFC3339       WaitKind = "rfc3339"
	WaitDuration      WaitKind = "duration" // from now: numbers with units from d to ms, such as 6m0s or 120ms
)

// Budget is a number of requests in a time.
type Budget struct {
	Limit int `yaml:"limit"`
	// Per is a duration, such as 1s, 1m, 1h or 1d.
	Per string `yaml:"per"`
	// Scope is connection, client (all connections of one OAuth client) or environment; connection if empty.
	Scope BudgetScope `yaml:"scope"`
}

// BudgetScope says who shares a budget.
type BudgetScope string

// The scopes of budgets.
const (
	ScopeConnection  BudgetScope = "connection"
	ScopeClient      BudgetScope = "client"
	ScopeEnvironment BudgetScope = "environment"
)

// Learn names the headers of one limit.
type Learn struct {
	// Limit is the header with the number of requests of the whole window; empty if there is none.
	Limit string `yaml:"limit"`
	// Remaining is the header with the number of requests that are left.
	Remaining string `yaml:"remaining"`
	// Reset is the header with the end of the window, in the form of ResetKind.
	Reset     string   `yaml:"reset"`
	ResetKind WaitKind `yaml:"reset_kind"`
	// When is what a response must have for the headers to count, such as the name of the limit; nil for nothing.
	When *Condition `yaml:"when"`
}

// Errors describes the provider's errors.
type Errors struct {
	// SuccessWhen must hold for a response with a status of 2xx, or it is an error; nil if the status says it.
	SuccessWhen *Condition `yaml:"success_when"`
	// Message is the JSON pointer to the message for people. Several are an order.
	Message Texts `yaml:"message"`
	// RequestIDHeader is the header with the provider's id of the request.
	RequestIDHeader string `yaml:"request_id_header"`
	// AuthFailedWhen lists the marks of credentials that are refused; a status of 401 if empty.
	AuthFailedWhen []Condition `yaml:"auth_failed_when"`
	// ScopeMissingWhen lists the marks of credentials without a scope that the request needs. They win over
	// AuthFailedWhen.
	ScopeMissingWhen []Condition `yaml:"scope_missing_when"`
}
