package phases_test

import (
	"context"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/load"
	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/procstat"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/target"
	"sallyport/bench/internal/toygateway"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

const (
	events = 300
	secret = "a secret of the tests"
)

// byCount ends every load of a phase after a number of events, so that no test depends on the speed of its machine.
func byCount() phases.Settings {
	return phases.Settings{
		Connections: 4, Duration: time.Hour, PerSecond: 5000, MaxEvents: events, Drain: 200 * time.Millisecond,
	}
}

type bed struct {
	subject  phases.Subject
	sink     *sink.Sink
	verifier *sink.Verifier
}

// prepare sets a toy gateway up as the bench does with the real one; subscribe says whether its events are forwarded.
func prepare(t *testing.T, defects toygateway.Defects, subscribe bool) bed {
	t.Helper()
	toy, err := toygateway.New(context.WithoutCancel(t.Context()), defects)
	require.NoError(t, err)
	server := httptest.NewServer(toy)
	to, err := sink.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		await.Return(t, "the end of the requests", server.Close)
		require.NoError(t, toy.Close())
		require.NoError(t, to.Close())
	})
	api := target.NewAPI(server.URL+"/api/v1", toygateway.APIKey)
	path, err := api.CreateConnection(t.Context(), "github", secret)
	require.NoError(t, err)
	b := bed{sink: to, subject: phases.Subject{
		Target:  load.Target{Addr: server.Listener.Addr().String(), Path: path, Scheme: load.GitHub, Secret: secret},
		Process: procstat.Of(os.Getpid()),
	}}
	if subscribe {
		signing, err := api.CreateSubscription(t.Context(), "github", to.URL())
		require.NoError(t, err)
		b.verifier, err = sink.NewVerifier(signing, "github", target.ConnectionID)
		require.NoError(t, err)
	}
	return b
}

// The figures of a phase must be consistent with the number of events that are known to have been sent.
func TestIngest(t *testing.T) {
	t.Parallel()
	b := prepare(t, toygateway.Defects{}, false)
	var profiled atomic.Value
	b.subject.Profile = func(_ context.Context, phase string) error {
		profiled.Store(phase)
		return nil
	}
	got, err := phases.NewRunner(clock.System(), byCount(), 1).Ingest(t.Context(), b.subject)
	require.NoError(t, err)
	require.Equal(t, events, got.Events)
	require.Equal(t, events, got.Ack.Samples)
	require.InEpsilon(t, events/got.Seconds, got.PerSecond, 1e-9)
	require.True(t, got.Requests.Exhausted)
	require.LessOrEqual(t, got.Ack.P50, got.Ack.P99)
	require.LessOrEqual(t, got.Ack.P99, got.Ack.Max)
	require.Positive(t, got.Use.PeakResidentBytes)
	require.Equal(t, "ingest", profiled.Load())
}

// Every acknowledged event is followed to the sink, in the warm-up and in the measured part, and so is each kind of
// failure: a bench that missed them would call any gateway flawless.
func TestDelivery(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		defects                        toygateway.Defects
		delivered, missing, duplicates int
		badForwards, acceptedForwards  int
	}{
		"correct": {delivered: events, acceptedForwards: 2 * events},
		"losing":  {defects: toygateway.Defects{DropEvery: 10}, delivered: 270, missing: 60, acceptedForwards: 540},
		"repeating": {defects: toygateway.Defects{DuplicateEvery: 10}, delivered: events, duplicates: 60,
			acceptedForwards: 660},
		"wrong secret": {defects: toygateway.Defects{WrongSecret: true}, delivered: events, badForwards: 6,
			acceptedForwards: 2 * events},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := prepare(t, tc.defects, true)
			settings := byCount()
			settings.Warmup = time.Hour // ended by count as well
			got, err := phases.NewRunner(clock.System(), settings, 1).Delivery(t.Context(), b.subject, b.sink, b.verifier)
			require.NoError(t, err)
			require.Equal(t, events, got.Acknowledged)
			require.Equal(t, tc.delivered, got.Delivered)
			require.Equal(t, tc.delivered, got.ToSink.Samples)
			require.Equal(t, tc.missing, got.Arrival.Missing)
			require.Equal(t, tc.duplicates, got.Arrival.Duplicates)
			require.Equal(t, tc.badForwards, got.Arrival.Sink.BadForwards, got.Arrival.Sink.FirstProblem)
			require.Equal(t, tc.acceptedForwards, got.Arrival.Sink.Forwards)
			require.Positive(t, got.SustainedPerSecond)
			require.LessOrEqual(t, got.SustainedPerSecond, got.IngestPerSecond,
				"arrival takes at least as long as acknowledgement")
		})
	}
}

// The open loop reports both ends of each event and the lag of its own schedule.
func TestLatency(t *testing.T) {
	t.Parallel()
	b := prepare(t, toygateway.Defects{}, true)
	got, err := phases.NewRunner(clock.System(), byCount(), 1).Latency(t.Context(), b.subject, b.sink, b.verifier)
	require.NoError(t, err)
	require.Equal(t, events, got.Delivered)
	require.Equal(t, events, got.Ack.Samples)
	require.Equal(t, events, got.ToSink.Samples)
	require.GreaterOrEqual(t, got.Lag.Samples, events)
	require.Positive(t, got.ToSink.P50)
	require.Zero(t, got.Arrival.Missing)
}

// A phase in which nothing was acknowledged has no figures: it must fail with the gateway's own words, not print zeros.
func TestNothingMeasured(t *testing.T) {
	t.Parallel()
	b := prepare(t, toygateway.Defects{}, true)
	b.subject.Target.Secret = "another secret"
	runner := phases.NewRunner(clock.System(), byCount(), 1)
	_, err := runner.Ingest(t.Context(), b.subject)
	require.ErrorIs(t, err, phases.ErrNothingMeasured)
	require.ErrorContains(t, err, "bad signature")
	_, err = runner.Delivery(t.Context(), b.subject, b.sink, b.verifier)
	require.ErrorIs(t, err, phases.ErrNothingMeasured)
	require.ErrorContains(t, err, "bad signature")

	b = prepare(t, toygateway.Defects{}, false)
	settings := byCount()
	settings.Warmup = time.Hour
	_, err = phases.NewRunner(clock.System(), settings, 1).Ingest(t.Context(), b.subject)
	require.ErrorIs(t, err, phases.ErrNothingMeasured)
}
