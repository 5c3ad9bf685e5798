package httpapi

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
)

// Route describes a route of a plain handler, which Handle mounts. Nothing in it is derived or enforced: tests compare
// such routes with what they do.
type Route struct {
	// ID is the operation id, lower-case words joined by hyphens.
	ID string
	// Method is the HTTP method, and Path is relative to Prefix.
	Method, Path string
	// Tag groups operations in the document.
	Tag         string
	Summary     string
	Description string
	Parameters  []Parameter
	// Body describes a request body of any content type; nil where the route takes none.
	Body *Body
	// Responses are described by status, which can be a range such as 4XX.
	Responses map[string]Response
	// Success is the status of success whose response has the headers of the rate limit; 0 where none has. The response
	// with status 429 always has them.
	Success int
}

// Parameter describes a parameter of a Route.
type Parameter struct {
	Name string
	// In is path, query or header. A parameter in the path is required.
	In          string
	Description string
	Required    bool
	Schema      *oas.Schema
	Example     any
}

// Body describes the body of a request to a Route.
type Body struct {
	Description string
	Schema      *oas.Schema
}

// Response describes a response of a Route.
type Response struct {
	Description string
	// Error says that the body is the error envelope; Content is empty then.
	Error bool
	// Messages has the messages of the codes that the description of an error response names, where they differ from those
	// of other routes.
	Messages map[apperr.Code][]string
	Headers  map[string]Header
	// Content has the body by media type.
	Content map[string]Content
}

// Header describes a header of a Response.
type Header struct {
	Description string
	Schema      *oas.Schema
}

// Content describes a body of one media type.
type Content struct {
	Schema  *oas.Schema
	Example any
}

// ErrorResponse returns the description of an error response, which names its codes.
func ErrorResponse(description string) Response {
	return Response{Description: description, Error: true}
}

// Saying returns the response with the messages of a code.
func (r Response) Saying(code apperr.Code, messages ...string) Response {
	all := map[apperr.Code][]string{code: messages}
	maps.Copy(all, r.Messages)
	r.Messages = all
	return r
}

func (r Route) operation(a *API) *huma.Operation {
	op := &huma.Operation{OperationID: r.ID, Method: r.Method, Path: r.Path, Tags: []string{r.Tag}, Summary: r.Summary,
		Description: r.Description, Security: []map[string][]string{}, Responses: map[string]*huma.Response{}}
	for _, p := range r.Parameters {
		op.Parameters = append(op.Parameters, &huma.Param{Name: p.Name, In: p.In, Description: p.Description,
			Required: p.Required || p.In == "path", Schema: p.Schema, Example: p.Example})
	}
	if r.Body != nil {
		op.RequestBody = &huma.RequestBody{Description: r.Body.Description,
			Content: map[string]*huma.MediaType{"*/*": {Schema: r.Body.Schema}}}
	}
	for status, response := range r.Responses {
		op.Responses[status] = response.document(a)
	}
	documentLimits(op, r.Success)
	r.documentErrors(a, op)
	return op
}

func (r Response) document(a *API) *huma.Response {
	out := &huma.Response{Description: r.Description}
	content := r.Content
	if r.Error {
		content = map[string]Content{"application/json": {Schema: a.Schema(wireError{})}}
	}
	for media, c := range content {
		if out.Content == nil {
			out.Content = map[string]*huma.MediaType{}
		}
		out.Content[media] = &huma.MediaType{Schema: c.Schema, Example: c.Example}
	}
	for name, h := range r.Headers {
		if out.Headers == nil {
			out.Headers = map[string]*huma.Param{}
		}
		out.Headers[name] = &huma.Param{Description: h.Description, Schema: h.Schema}
	}
	return out
}

// documentLimits adds the headers of the rate limit to the response of success, if there is one, and to the 429.
func documentLimits(op *huma.Operation, success int) {
	for _, status := range []int{success, http.StatusTooManyRequests} {
		r := op.Responses[strconv.Itoa(status)]
		if r == nil {
			continue
		}
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		for name := range rateHeaders() {
			if name == retryAfter && status == success {
				continue
			}
			r.Headers[name] = &huma.Param{Ref: "#/components/headers/" + name}
		}
	}
}
