package apperr_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// Errors below a location are errors of the whole request, in the order in which they were found.
func TestViolationsAt(t *testing.T) {
	t.Parallel()
	var v apperr.Violations
	require.NoError(t, v.Err())
	body := v.At("body")
	require.NoError(t, body.Err())
	body.Add("name", "required", "m")
	v.Add("query.limit", "maximum", "m")
	body.At("parts").Add("[1]", "unique", "m")
	body.At("parts[2]").Add("size", "minimum", "m")
	body.Add("", "one_of", "m")
	body.At("scope").AddAll([]apperr.Detail{{Location: "team", Rule: "enum", Message: "m"}})
	var locations []string
	for _, d := range body.Details() {
		locations = append(locations, d.Location)
	}
	require.Equal(t, []string{"body.name", "query.limit", "body.parts[1]", "body.parts[2].size", "body",
		"body.scope.team"}, locations)
	require.Equal(t, v.Err(), body.Err())
}

// A service names the fields of its argument; where they are in the request is for its caller to say. Nothing else of
// an error changes, and the error itself stays as it is.
func TestBelow(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("create: %w", apperr.Invalid(apperr.Detail{Location: "name", Rule: "r", Message: "m"},
		apperr.Detail{Location: "[0]"}, apperr.Detail{}))
	require.Equal(t, apperr.Invalid(apperr.Detail{Location: "body.name", Rule: "r", Message: "m"},
		apperr.Detail{Location: "body[0]"}, apperr.Detail{Location: "body"}), apperr.Below("body", err))
	//nolint:errorlint,errcheck // the type of the wrapped error is known
	require.Equal(t, "name", errors.Unwrap(err).(*apperr.Error).Details[0].Location)
	for _, other := range []error{nil, errors.New("x"), apperr.NotFound("thing")} {
		require.Equal(t, other, apperr.Below("body", other))
	}
}

// A refusal with a Retry-After keeps its code, message and cause, and the error that it was made from, which callers
// may share, stays as it is.
func TestRetryIn(t *testing.T) {
	t.Parallel()
	shared := apperr.Wrap(apperr.CodeRateLimited, "m", errors.New("cause"))
	require.Equal(t, &apperr.Error{Code: shared.Code, Message: "m", Cause: shared.Cause, RetryAfter: time.Minute},
		shared.RetryIn(time.Minute))
	require.Zero(t, shared.RetryAfter)
}
