package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A PagerDuty key is sent as PagerDuty's Go client does, and its documented responses mean a limit with its time and
// refused credentials.
func TestPagerDutyRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "pagerduty", "api_key", nil, []string{"api_key", "y0000000000000sample"})
	req, v, _ := r.probe(t, 200, `{"abilities":["sso","teams"]}`)
	require.Equal(t, "GET https://api.pagerduty.com/abilities", target(req))
	require.Equal(t, "Token token=y0000000000000sample", req.Header.Get("Authorization"))
	require.Equal(t, "application/vnd.pagerduty+json;version=2", req.Header.Get("Accept"))
	require.True(t, v.OK)
	require.Equal(t, []string{"api.pagerduty.com"}, r.hosts(t))

	v = r.judge(429, `{"error":{"message":"Rate Limit Exceeded","code":2020}}`, "ratelimit-limit", "960",
		"ratelimit-remaining", "0", "ratelimit-reset", "14")
	require.True(t, v.Limited)
	require.Equal(t, 14*time.Second, v.Wait)
	require.Equal(t, "Rate Limit Exceeded", v.Message)
	require.True(t, r.judge(401, "").AuthFailed)
	require.Equal(t, "Title cannot be empty.",
		r.judge(400, `{"error":{"message":"Invalid Input Provided","code":2001,"errors":["Title cannot be empty."]}}`).Message)
}
