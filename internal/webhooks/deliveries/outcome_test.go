package deliveries

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/jobs"
)

func testTime() time.Time { return time.Date(2025, 6, 15, 12, 0, 0, 0, time.UTC) }

// Every response and every error of the transport becomes the documented outcome.
func TestJudge(t *testing.T) {
	t.Parallel()
	wait := http.Header{"Retry-After": {"120"}}
	for _, c := range []struct {
		status     int
		err        *egress.Error
		code       string
		permanent  bool
		disable    bool
		retryAfter time.Duration
	}{
		{status: 200}, {status: 201}, {status: 204}, {status: 299},
		{status: 300, code: codeRedirectRefused},
		{status: 302, code: codeRedirectRefused},
		{status: 304, code: codeRedirectRefused},
		{status: 308, code: codeRedirectRefused},
		{status: 400, code: codeUnexpectedStatus},
		{status: 401, code: codeUnexpectedStatus},
		{status: 404, code: codeUnexpectedStatus},
		{status: 410, code: codeGone, permanent: true, disable: true},
		{status: 429, code: codeUnexpectedStatus, retryAfter: 2 * time.Minute},
		{status: 500, code: codeUnexpectedStatus},
		{status: 503, code: codeUnexpectedStatus, retryAfter: 2 * time.Minute},
		{status: 599, code: codeUnexpectedStatus},
		{err: &egress.Error{Code: egress.CodeTimeout, Message: "Too slow"}, code: egress.CodeTimeout},
		{err: &egress.Error{Code: egress.CodeTargetRefused, Message: "Private", Permanent: true},
			code: egress.CodeTargetRefused, permanent: true},
	} {
		o := judgeResponse(egress.Response{Status: c.status, Header: wait}, c.err, testTime())
		require.Equal(t, testTime(), o.At)
		require.Equal(t, c.permanent, o.Permanent, c.status)
		require.Equal(t, c.disable, o.DisableSubscription, c.status)
		require.Equal(t, c.retryAfter, o.RetryAfter, c.status)
		if c.err != nil {
			require.Equal(t, &Failure{Code: c.err.Code, Message: c.err.Message, At: testTime()}, o.Failure)
			require.Nil(t, o.HTTPStatus)
			continue
		}
		require.Equal(t, c.status, *o.HTTPStatus)
		if c.code == "" {
			require.Nil(t, o.Failure, c.status)
			continue
		}
		require.Equal(t, c.code, o.Failure.Code, c.status)
		require.NotEmpty(t, o.Failure.Message)
		require.Equal(t, c.status, *o.Failure.HTTPStatus)
		require.Equal(t, testTime(), o.Failure.At)
	}
}

// Retry-After is read in both forms of RFC 9110 §10.2.3, is never negative and never over an hour, and asks for nothing
// where it cannot be read.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"1":                              time.Second,
		" 90 ":                           90 * time.Second,
		"3600":                           time.Hour,
		"3601":                           time.Hour,
		"99999999999999999999":           time.Hour,
		"-5":                             0,
		"-99999999999999999999":          0,
		"1.5":                            0,
		"soon":                           0,
		"Sun, 15 Jun 2025 12:00:30 GMT":  30 * time.Second,
		"Sunday, 15-Jun-25 12:00:30 GMT": 30 * time.Second,
		"Sun Jun 15 12:00:30 2025":       30 * time.Second,
		"Sun, 15 Jun 2025 11:59:00 GMT":  0,
		"Mon, 16 Jun 2025 12:00:00 GMT":  time.Hour,
	} {
		require.Equal(t, want, retryAfter(value, testTime()), value)
	}
}

// defaultSchedule is the documented one, which the tests of subscriptionshttp compare with that of new subscriptions.
func defaultSchedule() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour,
		12 * time.Hour, 24 * time.Hour}
}

// A failing delivery gets one more attempt than its schedule has waits, each within 20 % of the documented one, and
// then dies. The whole range of the jitter is used.
func TestScheduleOfFailures(t *testing.T) {
	t.Parallel()
	documented := defaultSchedule()
	fail := outcome{At: testTime(), Failure: &Failure{Code: "x"}}
	for share, jitter := range map[float64]float64{0.8: 0, 1: 0.5, 1.2: 1} {
		d := Delivery{Status: Sending, ClaimID: "claim"}
		for i, wait := range documented {
			d = d.attempted(fail, documented, jitter)
			require.Equal(t, RetryWait, d.Status)
			require.Empty(t, d.ClaimID)
			require.EqualValues(t, i+1, d.GenerationAttempts)
			require.InDelta(t, share*wait.Seconds(), d.Due.Sub(testTime()).Seconds(), 0.001)
			require.Nil(t, d.CompletedAt)
		}
		d = d.attempted(fail, documented, jitter)
		require.Equal(t, Dead, d.Status)
		require.Equal(t, testTime(), *d.CompletedAt)
		require.Equal(t, &Failure{Code: "x", Died: true}, d.LastFailure)
	}
	rapid.Check(t, func(rt *rapid.T) {
		wait := time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(7*24*time.Hour)).Draw(rt, "wait"))
		got := jobs.Jitter(wait, jitterShare, rapid.Float64Range(0, 1).Draw(rt, "random"))
		require.GreaterOrEqual(rt, got, wait*4/5-1)
		require.LessOrEqual(rt, got, wait*6/5+1)
	})
}

// An empty schedule is one attempt. A permanent refusal ends any schedule. The receiver's wait counts where it is
// longer than the schedule's, and only then.
func TestEndsAndWaits(t *testing.T) {
	t.Parallel()
	middle := 0.5
	fail := func(o outcome) outcome {
		o.At, o.Failure = testTime(), &Failure{Code: "x"}
		return o
	}
	require.Equal(t, Dead, Delivery{}.attempted(fail(outcome{}), nil, middle).Status)
	require.Equal(t, Dead, Delivery{}.attempted(fail(outcome{Permanent: true}), defaultSchedule(), middle).Status)
	require.Equal(t, Succeeded, Delivery{}.attempted(outcome{At: testTime()}, nil, middle).Status)
	for asked, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 4 * time.Second: 5 * time.Second,
		time.Minute: time.Minute} {
		d := Delivery{}.attempted(fail(outcome{RetryAfter: asked}), defaultSchedule(), middle)
		require.Equal(t, want, d.Due.Sub(testTime()))
	}
}

// A success keeps the last failure on record, clears lost leases, and records the response.
func TestSuccessAfterFailure(t *testing.T) {
	t.Parallel()
	status, before := 204, &Failure{Code: "x"}
	d := Delivery{Status: Sending, ClaimID: "claim", GenerationAttempts: 1, AttemptCount: 3, LeasesLost: 4,
		LastFailure: before}
	d = d.attempted(outcome{At: testTime(), HTTPStatus: &status}, nil, 0)
	at := testTime()
	require.Equal(t, Delivery{Status: Succeeded, GenerationAttempts: 2, AttemptCount: 4, LastFailure: before,
		LastHTTPStatus: &status, Due: at, CompletedAt: &at}, d)
}

// A delivery whose leases end without an outcome is sent again four times and then dies, so that one that kills its
// worker cannot do so for ever.
func TestFifthLostLeaseIsTheLast(t *testing.T) {
	t.Parallel()
	d := Delivery{}
	for range 4 {
		d = d.claimed("claim", testTime()).leaseLost(testTime())
		require.Equal(t, Pending, d.Status)
		require.Empty(t, d.ClaimID)
	}
	d = d.claimed("claim", testTime()).leaseLost(testTime())
	require.Equal(t, Dead, d.Status)
	require.Equal(t, codeWorkerLost, d.LastFailure.Code)
	require.Zero(t, d.AttemptCount, "no try is on record")
}

// The lists of values that the API documents are complete: every state of a delivery is counted by its event, and only
// those that wait are open.
func TestEveryStatusIsCounted(t *testing.T) {
	t.Parallel()
	require.Len(t, statuses(), 7)
	for _, s := range statuses() {
		c := Delivery{Status: s}.counters()
		require.EqualValues(t, 1, c.Sending+c.Pending+c.RetryWait+c.Held+c.HeldFailed+c.Dead+c.Succeeded+c.Cancelled, s)
		require.Equal(t, slices.Contains([]Status{Pending, RetryWait, Held}, s), s.isOpen(), s)
	}
}

// Holding a delivery makes its event failed when the delivery's last outcome, in any generation, was a failure: a
// replay into a disabled subscription does not hide it. A delivery that had succeeded since, or had no attempt, does
// not.
func TestHeldAfterAFailure(t *testing.T) {
	t.Parallel()
	attempt := func(d Delivery, f *Failure) Delivery {
		return d.claimed("claim", testTime()).attempted(outcome{At: testTime(), Failure: f}, nil, 0)
	}
	failure := &Failure{Code: "x"}
	for name, c := range map[string]struct {
		held   Delivery
		failed bool
	}{
		"never attempted":          {Delivery{}.held(), false},
		"a lease lost":             {Delivery{}.claimed("claim", testTime()).leaseLost(testTime()).held(), false},
		"between attempts":         {Delivery{GenerationAttempts: 1, AttemptCount: 1, LastFailure: failure}.held(), true},
		"replayed after a failure": {attempt(Delivery{}, failure).replayed(testTime(), false), true},
		"held after the replay of a failure": {attempt(Delivery{}, failure).replayed(testTime(), true).held(),
			true},
		"replayed after its worker was lost": {loseWorker(Delivery{}).replayed(testTime(), false), true},
		"replayed after a success":           {attempt(Delivery{}, nil).replayed(testTime(), false), false},
		"replayed after failure and success": {attempt(attempt(Delivery{}, failure).replayed(testTime(), true),
			nil).replayed(testTime(), false), false},
		"replayed twice after a success": {attempt(attempt(Delivery{}, failure), nil).replayed(testTime(),
			true).replayed(testTime(), false), false},
		"failed, succeeded, failed, replayed": {attempt(attempt(attempt(Delivery{}, failure), nil).replayed(testTime(),
			true), &Failure{Code: "y"}).replayed(testTime(), false), true},
		"succeeded, its worker lost, replayed": {loseWorker(attempt(Delivery{}, nil).replayed(testTime(), true)).replayed(
			testTime(), false), true},
	} {
		require.Equal(t, Held, c.held.Status, name)
		counters := c.held.counters()
		require.Equal(t, c.failed, counters.HeldFailed == 1, name)
		require.Equal(t, c.failed, counters.Held == 0, name)
	}
}

// A delivery that died without a recorded attempt counts as attempted, also when it is replayed: its event does not go
// back to received.
func TestDeadCountsAsAttempted(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 1, loseWorker(Delivery{}).counters().Attempted)
	require.EqualValues(t, 1, loseWorker(Delivery{}).replayed(testTime(), true).counters().Attempted)
	require.Zero(t, Delivery{}.claimed("claim", testTime()).leaseLost(testTime()).counters().Attempted)
}

// loseWorker returns d after as many lost leases in a row as end it.
func loseWorker(d Delivery) Delivery {
	for range maxLeasesLost {
		d = d.claimed("claim", testTime()).leaseLost(testTime())
	}
	return d
}
