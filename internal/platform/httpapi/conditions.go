package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
)

const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
	etagHeader  = "ETag"
	// maxCondition limits a condition, in characters: it has room for 40 versions.
	maxCondition = 1000
)

// Versioned is embedded in the output of an operation that returns a resource with a version. Every PATCH does.
type Versioned struct {
	// The version of the resource, a strong entity tag (RFC 9110). It changes whenever the resource is changed. Send it as
	// `If-Match` with a later change, so that the change is refused if the resource has another version by then.
	ETag string `header:"ETag" example:"\"9wV1d1x0Qm0mJv5m8QeB\""`
}

// Version returns the Versioned of a resource.
func Version(t etag.Tag) Versioned { return Versioned{ETag: string(t)} }

func (v Versioned) tag() etag.Tag { return etag.Tag(v.ETag) }

// Unchanged completes a PATCH that changes nothing, from the output or error of the GET: If-Match applies to it as
// well.
func Unchanged[O interface{ tag() etag.Tag }](ctx context.Context, out O, err error) (O, error) {
	if err == nil {
		err = etag.Check(ctx, out.tag())
	}
	return out, err
}

// checkVersioned panics if a PATCH does not take If-Match, or returns no version to send as such.
func checkVersioned(op Operation, output reflect.Type) {
	_, versioned := output.FieldByName(etagHeader)
	switch {
	case op.Method == http.MethodPatch && (!op.IfMatch || !versioned):
		panic(fmt.Sprintf("%s: a PATCH sets IfMatch, and its output embeds Versioned", op.ID))
	case op.IfNoneMatch && !versioned:
		panic(fmt.Sprintf("%s: an output without Versioned cannot be compared with If-None-Match", op.ID))
	}
}

// ifMatch adds the condition of a request to its context, where the change of the resource finds it. An operation that
// changes something and cannot compare refuses the header, because its sender relies on it.
func (op Operation) ifMatch(r *http.Request, c *call) *http.Request {
	values := r.Header.Values(ifMatch)
	if len(values) == 0 || op.Public || op.Method == http.MethodGet {
		return r
	}
	if !op.IfMatch {
		c.violate("header."+ifMatch, "unsupported", "this operation does not support conditions; send it without the header")
		return r
	}
	condition, ok := c.condition(ifMatch, values)
	if !ok {
		return r
	}
	r = r.WithContext(etag.WithIfMatch(r.Context(), condition))
	return r
}

// ifNoneMatch returns a writer that responds with 304 in place of a response whose version the client has already.
func (op Operation) ifNoneMatch(w http.ResponseWriter, r *http.Request, c *call) http.ResponseWriter {
	values := r.Header.Values(ifNoneMatch)
	if len(values) == 0 || !op.IfNoneMatch {
		return w
	}
	condition, ok := c.condition(ifNoneMatch, values)
	if !ok {
		return w
	}
	return &notModified{ResponseWriter: w, known: condition}
}

// condition parses a condition. It adds validation errors to c, and reports whether there were none.
func (c *call) condition(name string, values []string) (condition etag.Condition, ok bool) {
	length := 0
	for _, v := range values {
		length += len(v)
	}
	if length > maxCondition {
		c.violate("header."+name, "max_length", fmt.Sprintf("must have at most %d characters", maxCondition))
		return condition, false
	}
	condition, err := etag.Parse(values)
	if err != nil {
		c.violate("header."+name, "format", err.Error())
	}
	return condition, err == nil
}

// violate adds a validation error.
func (c *call) violate(location, rule, message string) {
	c.violations = append(c.violations, apperr.Detail{Location: location, Rule: rule, Message: message})
}

// notModified replaces a successful response whose version is known by an empty one.
type notModified struct {
	http.ResponseWriter
	known   etag.Condition
	matched bool
}

// WriteHeader sends the status, or 304.
func (n *notModified) WriteHeader(status int) {
	h := n.Header()
	if status == http.StatusOK && n.known.MatchesWeakly(etag.Tag(h.Get(etagHeader))) {
		n.matched, status = true, http.StatusNotModified
		h.Del("Content-Type")
	}
	n.ResponseWriter.WriteHeader(status)
}

// Write drops the body of a response that was replaced.
func (n *notModified) Write(b []byte) (int, error) {
	if n.matched {
		return len(b), nil
	}
	return n.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (n *notModified) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// conditionParameters documents the request headers.
func (op Operation) conditionParameters() []*huma.Param {
	var out []*huma.Param
	parameter := func(name, description string) {
		longest := maxCondition
		out = append(out, &huma.Param{Name: name, In: "header", Description: description,
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}, Example: `"9wV1d1x0Qm0mJv5m8QeB"`})
	}
	if op.IfMatch {
		parameter(ifMatch, "Makes the change only if the resource has one of these versions: a list of values of `ETag`, or "+
			"`*` for any version. Otherwise the response is 412 `precondition_failed`, and nothing changes. Default: the "+
			"change is made in any case.")
	}
	if op.IfNoneMatch {
		parameter(ifNoneMatch, "The versions that the client has, as a list of values of `ETag`. If the resource has one of "+
			"them, the response is 304 without a body.")
	}
	return out
}

// documentConditions adds the 304 of an operation to the document.
func (op Operation) documentConditions(ho *huma.Operation) {
	if op.IfNoneMatch {
		ho.Responses["304"] = &huma.Response{Description: "The resource has a version of `" + ifNoneMatch + "`.",
			Headers: map[string]*huma.Param{etagHeader: ho.Responses["200"].Headers[etagHeader]}}
	}
}
