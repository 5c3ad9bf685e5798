package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
)

// Operation declares an operation, except for its types and its handler.
type Operation struct {
	// ID is the operation id, lower-case words joined by hyphens.
	ID string
	// Method is the HTTP method.
	Method string
	// Path is relative to Prefix, with {name} for path parameters.
	Path string
	// Tag groups operations in the document.
	Tag         string
	Summary     string
	Description string
	// Status is the status code of success.
	Status int
	// OtherStatuses are further status codes of success. Their responses have the same form, without a Location.
	OtherStatuses []int
	// Bodies holds a value of the body's type for each status code of success, if the types differ. The output's Body is
	// then an any.
	Bodies map[int]any
	// Public operations ignore credentials and declare no permission.
	Public bool
	// Permission is the permission that a user needs. It is required unless the operation is Public.
	Permission access.Permission
	// AnyEnvironment also admits a user who has the permission in some environments only. The operation works on the data
	// of these environments.
	AnyEnvironment bool
	// Route is the grant that an API key needs; empty if the operation accepts no keys.
	Route access.Route
	// Environment says that the operation works on the data of one environment.
	Environment bool
	// EnvironmentQuery says that the query parameter environment_id selects the data of an environment, and that the
	// header Environment-Id does so as well.
	EnvironmentQuery bool
	// Download lists the media types of success where the response is not JSON but a stream of bytes. Such an operation is
	// added by RegisterStream.
	Download []string
	// Tickets, if set, makes the operation accept tickets: single-use credentials in the query parameter ticket, for
	// EventSource in browsers, which cannot send headers. The operation's input declares the parameter.
	Tickets Tickets
	// Stream, if set, documents the response of success as a stream of these messages. Such an operation is added by
	// RegisterStream.
	Stream []StreamMessage
	// Errors lists the codes in addition to those that follow from the declaration.
	Errors []apperr.Code
	// Example is the JSON of an example of the body, for the document and its samples. The default has the required
	// properties of the body with their examples.
	Example string
	// Messages has the messages that the operation returns with a code, for the examples of its error responses, where
	// they differ from those of other operations.
	Messages map[apperr.Code][]string
	// Missing lists the kinds of resources that a 404 may name in addition to those that follow from the path.
	Missing []string
	// MaxBodyBytes is the maximum size of the request body. 0 means 256 KiB.
	MaxBodyBytes int64
	// Upload says that the body can be a file instead of JSON, as application/octet-stream. The fields of the JSON body
	// are query parameters then, and the handler gets the file from the function Upload.
	Upload bool
	// NoIdempotencyKey says that a POST accepts no Idempotency-Key, because its response must not be stored or describes
	// the moment. An operation that creates something must accept it.
	NoIdempotencyKey bool
	// IfMatch says that the operation changes a resource only in the versions of the request's If-Match. The service that
	// makes the change calls etag.Check. Every PATCH does.
	IfMatch bool
	// IfNoneMatch says that a GET responds with 304 if the client has the version already. The version must cover all
	// that the response shows. The output embeds Versioned.
	IfNoneMatch bool
}

// Tickets issues and redeems the tickets of an operation.
type Tickets interface {
	// UseTicket consumes a ticket that a client sent from an IP address. It returns the ticket's holder with their present
	// rights in the ticket's environment, and a context with the other contents of the ticket. A ticket that does not
	// work, for any reason, is unauthorized.
	UseTicket(ctx context.Context, ticket, ip string) (context.Context, access.Principal, error)
	// Current returns the holder with their present rights, or the error with which they would be rejected.
	Current(ctx context.Context, p access.Principal) (access.Principal, error)
}

const defaultMaxBody = 256 << 10

// Register adds an operation. I and O are structs of parameters and a Body, and of headers and a Body. Rules of the
// input that go beyond its schema belong into its method Check, so that one response has all errors. Locations of
// validation errors that the handler of an operation with a body returns are relative to the body.
func Register[I, O any](a *API, op Operation, handler func(context.Context, *I) (*O, error)) {
	checkVersioned(op, reflect.TypeFor[O]())
	a.ops = append(a.ops, op)
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = defaultMaxBody
	}
	checks := newRules(reflect.TypeFor[I]())
	ho := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Tags: []string{op.Tag}, Summary: op.Summary,
		Description: op.description(), DefaultStatus: op.Status,
		// Huma rejects a body of exactly the limit.
		MaxBodyBytes: op.MaxBodyBytes + 1,
		Errors:       op.statuses(), Security: op.security(),
		Metadata: map[string]any{"operation": op, "rules": checks},
	}
	if op.TakesIdempotencyKey() {
		ho.Parameters = append(ho.Parameters, keyParameter())
	}
	ho.Parameters = append(append(ho.Parameters, op.conditionParameters()...), op.environmentParameters()...)
	huma.Register(a.huma, ho, func(ctx context.Context, in *I) (*O, error) {
		if err := callFrom(ctx).check(ctx, in); err != nil {
			return nil, err
		}
		out, err := handler(ctx, in)
		if err != nil && checks.body >= 0 {
			err = apperr.Below("body", err)
		}
		return out, err
	})
	checkPath(op, a.huma.OpenAPI().Paths[op.Path])
	a.documentOperation(op, exchange{in: reflect.TypeFor[I](), out: reflect.TypeFor[O]()})
}

// checkPath panics if a name in the path is no parameter of the input: its value would always be empty. Huma binds the
// fields of embedded structs only if these are exported.
func checkPath(op Operation, item *huma.PathItem) {
	for _, ho := range operationsOf(item) {
		for segment := range strings.SplitSeq(op.Path, "/") {
			name, named := strings.CutPrefix(segment, "{")
			if !named || ho.OperationID != op.ID {
				continue
			}
			name = strings.TrimSuffix(name, "}")
			if !slices.ContainsFunc(ho.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == name }) {
				panic(fmt.Sprintf("%s: the input has no path parameter %s", op.ID, name))
			}
		}
	}
}

// codes returns every error code of the operation.
func (op Operation) codes() []apperr.Code {
	codes := append([]apperr.Code{apperr.CodeValidation, apperr.CodeInternal, apperr.CodeUnavailable,
		apperr.CodeRateLimited}, op.Errors...)
	if !op.Public {
		codes = append(codes, apperr.CodeUnauthorized, apperr.CodeForbidden, apperr.CodeAmbiguousCredentials)
		if op.Route != "" {
			codes = append(codes, apperr.CodeGrantDenied, apperr.CodeAPIKeyExpired)
		}
		if op.Environment {
			codes = append(codes, apperr.CodeEnvironmentRequired, apperr.CodeNotFound)
		}
	}
	if op.Method == http.MethodPost || op.Method == http.MethodPatch {
		codes = append(codes, apperr.CodePayloadTooLarge)
	}
	if op.IfMatch {
		codes = append(codes, apperr.CodePreconditionFailed)
	}
	if op.TakesIdempotencyKey() {
		codes = append(codes, apperr.CodeIdempotencyMismatch, apperr.CodeIdempotencyInProgress,
			apperr.CodeIdempotencyOutcomeUnknown)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func (op Operation) statuses() []int {
	var s []int
	for _, c := range op.codes() {
		if n := c.Info().Status; n != 0 {
			s = append(s, n)
		}
	}
	slices.Sort(s)
	return slices.Compact(s)
}

func (op Operation) description() string {
	var b strings.Builder
	b.WriteString(op.Description)
	if op.Permission != "" {
		b.WriteString("\n\nPermission: `" + string(op.Permission) + "`.")
	}
	if op.Route != "" {
		b.WriteString(" API key grant: `" + string(op.Route) + "`.")
	}
	return b.String()
}

func (op Operation) security() []map[string][]string {
	if op.Public {
		return []map[string][]string{}
	}
	user := map[string][]string{"bearer": {}}
	if op.Environment {
		user["environment"] = []string{}
	}
	s := []map[string][]string{user}
	if op.Route != "" {
		s = append(s, map[string][]string{"api_key": {}})
	}
	if op.Tickets != nil {
		s = append(s, map[string][]string{"ticket": {}})
	}
	return s
}

// documentOperation adds to the document what Huma does not: the codes of each error response, the challenge of a 401,
// and further responses of success.
func (a *API) documentOperation(op Operation, types exchange) {
	item := a.huma.OpenAPI().Paths[op.Path]
	var ho *huma.Operation
	switch op.Method {
	case http.MethodGet:
		ho = item.Get
	case http.MethodPost:
		ho = item.Post
	case http.MethodPatch:
		ho = item.Patch
	case http.MethodPut:
		ho = item.Put
	case http.MethodDelete:
		ho = item.Delete
	default:
		return
	}
	types.operation, types.statuses = ho, append([]int{op.Status}, op.OtherStatuses...)
	a.exchanges = append(a.exchanges, types)
	byStatus := map[int][]string{}
	for _, c := range op.codes() {
		if n := c.Info().Status; n != 0 {
			byStatus[n] = append(byStatus[n], "`"+string(c)+"`")
		}
	}
	for status, codes := range byStatus {
		if r := ho.Responses[strconv.Itoa(status)]; r != nil {
			r.Description = strings.Join(codes, ", ")
		}
	}
	if r := ho.Responses[strconv.Itoa(http.StatusUnauthorized)]; r != nil {
		r.Headers = map[string]*huma.Param{"WWW-Authenticate": {
			Description: "`" + challenge +
				"`, with `error=\"invalid_token\"` if a bearer token was sent and rejected (RFC 6750).",
			Schema: &huma.Schema{Type: huma.TypeString},
		}}
	}
	if len(op.Download) > 0 {
		content := map[string]*huma.MediaType{}
		for _, media := range op.Download {
			content[media] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString,
				Description: "The content in this media type."}}
		}
		ho.Responses[strconv.Itoa(op.Status)] = &huma.Response{Description: http.StatusText(op.Status), Content: content}
	}
	if len(op.Stream) > 0 {
		a.documentStream(ho, op)
	}
	if r := ho.Responses[strconv.Itoa(op.Status)]; r != nil && op.TakesIdempotencyKey() {
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		r.Headers[replayedHeader] = replayedDoc()
	}
	documentLimits(ho, op.Status)
	op.documentConditions(ho)
	a.documentRequest(ho, op)
	a.documentErrors(ho, op)
	for _, status := range op.OtherStatuses {
		other := *ho.Responses[strconv.Itoa(op.Status)]
		other.Description = http.StatusText(status)
		other.Headers = maps.Clone(other.Headers)
		delete(other.Headers, "Location")
		ho.Responses[strconv.Itoa(status)] = &other
	}
	for status, body := range op.Bodies {
		schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(body), true, "")
		ho.Responses[strconv.Itoa(status)].Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
	}
}

func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"api_key": {Type: "apiKey", In: "header", Name: "API-Key",
			Description: "An API key, which belongs to one environment."},
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT",
			Description: "A user's access token from `POST /team/login`."},
		"environment": {Type: "apiKey", In: "header", Name: "Environment-Id",
			Description: "The environment that the request of a user works on."},
		"ticket": {Type: "apiKey", In: "query", Name: ticketParameter,
			Description: "A ticket for clients that cannot send headers. It works once."},
	}
}
