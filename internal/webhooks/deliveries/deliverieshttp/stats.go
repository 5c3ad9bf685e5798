package deliverieshttp

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
)

type statsInput struct {
	// The id of the subscription.
	ID string `path:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Where the range begins (RFC 3339), moved back to the start of a bucket. Default: an hour, a day or 30 days before
	// its end, by minute, hour or day.
	From httpapi.Optional[httpapi.Time] `query:"from" example:"2025-06-15T12:00:00.000Z"`
	// Where the range ends (RFC 3339), moved on to the end of a bucket. Default: now.
	To httpapi.Optional[httpapi.Time] `query:"to" example:"2025-06-16T12:00:00.000Z"`
	// The length of a bucket. Days are those of UTC. Default hour.
	Bucket string `query:"bucket" enum:"minute,hour,day" default:"hour"`
}

func (in *statsInput) request() deliveries.StatsRequest {
	return deliveries.StatsRequest{From: (*time.Time)(in.From.Pointer()), To: (*time.Time)(in.To.Pointer()),
		Bucket: deliveries.Bucket(in.Bucket)}
}

// Resolve checks what the schema cannot say.
func (in *statsInput) Resolve(huma.Context) []error {
	var f apperr.Faults
	in.request().Check(&f)
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

type statsOutput struct{ Body stats }

// stats are what happened to a subscription's deliveries.
type stats struct {
	// The subscription.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Where the range begins.
	From httpapi.Time `json:"from"`
	// Where the range ends; it is not part of it.
	To httpapi.Time `json:"to"`
	// The length of a bucket.
	Bucket string `json:"bucket" enum:"minute,hour,day"`
	// The deliveries that wait now.
	Open openCounts `json:"open"`
	// What happened in the whole range.
	Total StatCounts `json:"total"`
	// What happened in each bucket, oldest first and without gaps.
	Buckets []statBucket `json:"buckets"`
}

type openCounts struct {
	// Those that wait for a worker, counted up to 10,000.
	Pending int64 `json:"pending" example:"0"`
	// Those that wait after a failed try, counted up to 10,000.
	RetryWait int64 `json:"retry_wait" example:"3"`
	// Those that wait for the subscription to be enabled, counted up to 10,000.
	Held int64 `json:"held" example:"0"`
}

type statBucket struct {
	// Where the bucket begins.
	Start httpapi.Time `json:"start"`
	StatCounts
}

// StatCounts are what happened in a length of time. It is exported because Huma looks only into exported embedded
// types.
type StatCounts struct {
	// The attempts that began then, by outcome.
	Attempts attemptCounts `json:"attempts"`
	// The deliveries that came to an end then, by what they came to. One that is replayed can do so again.
	Deliveries deliveryCounts `json:"deliveries"`
	// How long attempts took, whatever their outcome; null where none was sent.
	Duration httpapi.OrNull[percentileMS] `json:"attempt_duration_ms"`
	// From the receipt of an event to the success of its delivery, of those that were not replayed; null where there were
	// none.
	TimeToSuccess httpapi.OrNull[percentileMS] `json:"time_to_success_ms"`
}

type attemptCounts struct {
	// Answered with a status of 2xx.
	Succeeded int64 `json:"succeeded" example:"120"`
	// Answered otherwise, or not at all.
	Failed int64 `json:"failed" example:"3"`
	// Made, but their delivery had been given to another worker before the outcome was stored.
	Superseded int64 `json:"superseded" example:"0"`
}

type deliveryCounts struct {
	// Those that succeeded.
	Succeeded int64 `json:"succeeded" example:"120"`
	// Those that died.
	Dead int64 `json:"dead" example:"1"`
	// Those that were cancelled.
	Cancelled int64 `json:"cancelled" example:"0"`
}

type percentileMS struct {
	// Half took at most this long, in milliseconds, to within a tenth.
	P50 float64 `json:"p50" example:"45.2"`
	// 95 of a hundred took at most this long, in milliseconds, to within a tenth.
	P95 float64 `json:"p95" example:"127.9"`
	// 99 of a hundred took at most this long, in milliseconds, to within a tenth.
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
		Total: statCountsOf(&s.Total), Buckets: make([]statBucket, len(s.Buckets))}
	for i := range s.Buckets {
		out.Buckets[i] = statBucket{Start: httpapi.Time(s.Buckets[i].Start), StatCounts: statCountsOf(&s.Buckets[i].Counts)}
	}
	return &statsOutput{out}, nil
}

func statCountsOf(c *deliveries.Counts) StatCounts {
	return StatCounts{
		Attempts:   attemptCounts{Succeeded: c.Succeeded, Failed: c.Failed, Superseded: c.Superseded},
		Deliveries: deliveryCounts{Succeeded: c.Succeeded, Dead: c.Dead, Cancelled: c.Cancelled},
		Duration:   percentilesOf(c.Duration), TimeToSuccess: percentilesOf(c.TimeToSuccess),
	}
}

func percentilesOf(p *deliveries.Percentiles) (out httpapi.OrNull[percentileMS]) {
	if p != nil {
		out.Value = &percentileMS{P50: httpapi.Milliseconds(p.P50), P95: httpapi.Milliseconds(p.P95),
			P99: httpapi.Milliseconds(p.P99)}
	}
	return out
}
