package deliverieshttp

import (
	"context"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/webhooks/deliveries"
)

type statsInput struct {
	// The id of the subscription.
	ID string `path:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The start of the range (RFC 3339), rounded down to the start of a bucket. Default: one hour before its end for
	// `minute`, one day for `hour`, 30 days for `day`.
	From patch.Optional[httpapi.Time] `query:"from" example:"2025-06-15T12:00:00.000Z"`
	// The end of the range (RFC 3339), rounded up to the end of a bucket. Default: now.
	To patch.Optional[httpapi.Time] `query:"to" example:"2025-06-16T12:00:00.000Z"`
	// The length of a bucket. Days are UTC days. Default `hour`.
	Bucket deliveries.Bucket `query:"bucket" default:"hour"`
}

func (in *statsInput) request() deliveries.StatsRequest {
	return deliveries.StatsRequest{From: (*time.Time)(in.From.Pointer()), To: (*time.Time)(in.To.Pointer()),
		Bucket: in.Bucket}
}

// Check checks the rules that the schema cannot express.
func (in *statsInput) Check(_ context.Context, v *apperr.Violations) { in.request().Check(v) }

type statsOutput struct{ Body stats }

// stats holds the statistics of a subscription's deliveries.
type stats struct {
	// The subscription.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The start of the range.
	From httpapi.Time `json:"from"`
	// The end of the range, exclusive.
	To httpapi.Time `json:"to"`
	// The length of a bucket.
	Bucket deliveries.Bucket `json:"bucket"`
	// The deliveries that wait now.
	Open openCounts `json:"open"`
	// The counts over the whole range.
	Total StatCounts `json:"total"`
	// The counts of each bucket, oldest first and without gaps.
	Buckets []statBucket `json:"buckets"`
}

type openCounts struct {
	// Deliveries that wait for a worker, counted up to 10,000.
	Pending int64 `json:"pending" example:"0"`
	// Deliveries that wait after a failed attempt, counted up to 10,000.
	RetryWait int64 `json:"retry_wait" example:"3"`
	// Deliveries that wait until the subscription is enabled, counted up to 10,000.
	Held int64 `json:"held" example:"0"`
}

type statBucket struct {
	// The start of the bucket.
	Start httpapi.Time `json:"start"`
	StatCounts
}

// StatCounts holds the counts of a period. It is exported because only exported embedded structs are documented.
type StatCounts struct {
	// The attempts that began in this period, by outcome.
	Attempts attemptCounts `json:"attempts"`
	// The deliveries that completed in this period, by final status. A replayed delivery can complete again.
	Deliveries deliveryCounts `json:"deliveries"`
	// The duration of attempts with any outcome; `null` if no request was sent.
	Duration httpapi.OrNull[percentileMS] `json:"attempt_duration_ms"`
	// The time from receiving an event to the success of its delivery, without replayed deliveries; `null` if there were
	// none.
	TimeToSuccess httpapi.OrNull[percentileMS] `json:"time_to_success_ms"`
}

type attemptCounts struct {
	// Attempts with a 2xx response.
	Succeeded int64 `json:"succeeded" example:"120"`
	// Attempts with another response or without one.
	Failed int64 `json:"failed" example:"3"`
	// Attempts whose delivery another worker had taken over before the outcome was stored.
	Superseded int64 `json:"superseded" example:"0"`
}

type deliveryCounts struct {
	// Deliveries that succeeded.
	Succeeded int64 `json:"succeeded" example:"120"`
	// Deliveries that are dead.
	Dead int64 `json:"dead" example:"1"`
	// Deliveries that were cancelled.
	Cancelled int64 `json:"cancelled" example:"0"`
}

type percentileMS struct {
	// The 50th percentile in milliseconds, accurate to 10%.
	P50 float64 `json:"p50" example:"45.2"`
	// The 95th percentile in milliseconds, accurate to 10%.
	P95 float64 `json:"p95" example:"127.9"`
	// The 99th percentile in milliseconds, accurate to 10%.
	P99 float64 `json:"p99" example:"361.7"`
}

func (h *handlers) stats(ctx context.Context, in *statsInput) (*statsOutput, error) {
	s, err := h.deliveries.Stats(ctx, access.From(ctx).View(), in.ID, in.request())
	if err != nil {
		return nil, err
	}
	out := stats{SubscriptionID: in.ID, From: httpapi.Time(s.From), To: httpapi.Time(s.To), Bucket: in.Bucket,
		Open: openCounts{Pending: s.Open[deliveries.Pending], RetryWait: s.Open[deliveries.RetryWait],
			Held: s.Open[deliveries.Held]},
		Total: viewStatCounts(&s.Total), Buckets: make([]statBucket, len(s.Buckets))}
	for i := range s.Buckets {
		out.Buckets[i] = statBucket{Start: httpapi.Time(s.Buckets[i].Start), StatCounts: viewStatCounts(&s.Buckets[i].Counts)}
	}
	return &statsOutput{out}, nil
}

func viewStatCounts(c *deliveries.Counts) StatCounts {
	return StatCounts{
		Attempts:   attemptCounts{Succeeded: c.Succeeded, Failed: c.Failed, Superseded: c.Superseded},
		Deliveries: deliveryCounts{Succeeded: c.Succeeded, Dead: c.Dead, Cancelled: c.Cancelled},
		Duration:   viewPercentiles(c.Duration), TimeToSuccess: viewPercentiles(c.TimeToSuccess),
	}
}

func viewPercentiles(p *deliveries.Percentiles) (out httpapi.OrNull[percentileMS]) {
	if p != nil {
		out.Value = &percentileMS{P50: httpapi.Milliseconds(p.P50), P95: httpapi.Milliseconds(p.P95),
			P99: httpapi.Milliseconds(p.P99)}
	}
	return out
}
