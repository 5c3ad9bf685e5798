package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"sallyport/internal/platform/apperr"
)

// checker is an input of an operation, or its body, with rules that its schema cannot express. Check adds the
// validation errors; those of a body have locations relative to the body. Check also runs for requests that break their
// schema, so that one response has all errors. Then parameters that could not be read are missing from the receiver.
// The rules of a body do not run when a part of it could not be decoded: they would take what follows it for missing.
type checker interface {
	Check(ctx context.Context, v *apperr.Violations)
}

// refusalChecker is like checker, for rules that the service checks too, together with rules that need the database.
// CheckRefused only runs for requests that are rejected before they reach the service.
type refusalChecker interface {
	CheckRefused(ctx context.Context, v *apperr.Violations)
}

// rules checks the inputs of one operation.
type rules struct {
	// input is the type of the input, and body the index of its field Body; -1 where it has none.
	input reflect.Type
	body  int
	// always and refused say whether there is a checker and a refusalChecker.
	always, refused bool
	required        bool // whether the request must have a body
}

func newRules(input reflect.Type) *rules {
	r := &rules{input: input, body: -1}
	r.find(input)
	if f, ok := input.FieldByName("Body"); ok && len(f.Index) == 1 {
		r.body = f.Index[0]
		r.required = f.Type.Kind() != reflect.Pointer
		t := f.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		r.find(t)
	}
	return r
}

func (r *rules) find(t reflect.Type) {
	p := reflect.PointerTo(t)
	r.always = r.always || p.Implements(reflect.TypeFor[checker]())
	r.refused = r.refused || p.Implements(reflect.TypeFor[refusalChecker]())
}

// check returns the validation errors of an input, which is a pointer to a value of the input's type. refused says that
// the request has other errors.
func (r *rules) check(ctx context.Context, input any, refused bool) []apperr.Detail {
	return r.checkParts(ctx, input, refused, r.body >= 0)
}

// checkParts is check with or without the body.
func (r *rules) checkParts(ctx context.Context, input any, refused, body bool) []apperr.Detail {
	if !r.always && (!refused || !r.refused) {
		return nil
	}
	var violations apperr.Violations
	ask := func(v any, violations *apperr.Violations) {
		if c, ok := v.(checker); ok {
			c.Check(ctx, violations)
		}
		if c, ok := v.(refusalChecker); ok && refused {
			c.CheckRefused(ctx, violations)
		}
	}
	ask(input, &violations)
	if body {
		body := reflect.ValueOf(input).Elem().Field(r.body)
		if body.Kind() != reflect.Pointer {
			body = body.Addr()
		}
		if !body.IsNil() {
			ask(body.Interface(), violations.At("body"))
		}
	}
	return violations.Details()
}

// checkRefused is check for a request that Huma rejected, of which only the bytes are available.
func (r *rules) checkRefused(req *http.Request, body []byte) []apperr.Detail {
	if !r.always && !r.refused {
		return nil
	}
	input := reflect.New(r.input)
	bindParameters(req, input.Elem())
	decoded := r.body >= 0 && len(body) > 0 &&
		json.Unmarshal(body, input.Elem().Field(r.body).Addr().Interface()) == nil
	return r.checkParts(req.Context(), input.Interface(), true, decoded)
}
