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
	ID     string                         `path:"id" doc:"The id of the subscription." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	From   httpapi.Optional[httpapi.Time] `query:"from" doc:"Where the range begins (RFC 3339), moved back to the start of a bucket. Default: an hour, a day or 30 days before its end, by minute, hour or day." example:"2025-06-15T12:00:00.000Z"`
	To     httpapi.Optional[httpapi.Time] `query:"to" doc:"Where the range ends (RFC 3339), moved on to the end of a bucket. Default: now." example:"2025-06-16T12:00:00.000Z"`
	Bucket string                         `query:"bucket" enum:"minute,hour,day" default:"hour" doc:"The length of a bucket. Days are those of UTC. Default hour."`
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
	SubscriptionID string       `json:"subscription_id" doc:"The subscription." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	From           httpapi.Time `json:"from" doc:"Where the range begins."`
	To             httpapi.Time `json:"to" doc:"Where the range ends; it is not part of it."`
	Bucket         string       `json:"bucket" enum:"minute,hour,day" doc:"The length of a bucket."`
	Open           openCounts   `json:"open" doc:"The deliveries that wait now."`
	Total          StatCounts   `json:"total" doc:"What happened in the whole range."`
	Buckets        []statBucket `json:"buckets" doc:"What happened in each bucket, oldest first and without gaps."`
}

type openCounts struct {
	Pending   int64 `json:"pending" doc:"Those that wait for a worker, counted up to 10,000." example:"0"`
	RetryWait int64 `json:"retry_wait" doc:"Those that wait after a failed try, counted up to 10,000." example:"3"`
	Held      int64 `json:"held" doc:"Those that wait for the subscription to be enabled, counted up to 10,000." example:"0"`
}

type statBucket struct {
	Start httpapi.Time `json:"start" doc:"Where the bucket begins."`
	StatCounts
}

// StatCounts are what happened in a length of time. It is exported because Huma looks only into exported embedded
// types.
type StatCounts struct {
	Attempts      attemptCounts                `json:"attempts" doc:"The attempts that began then, by outcome."`
	Deliveries    deliveryCounts               `json:"deliveries" doc:"The deliveries that came to an end then, by what they came to. One that is replayed can do so again."`
	Duration      httpapi.OrNull[percentileMS] `json:"attempt_duration_ms" doc:"How long attempts took, whatever their outcome; null where none was sent."`
	TimeToSuccess httpapi.OrNull[percentileMS] `json:"time_to_success_ms" doc:"From the receipt of an event to the success of its delivery, of those that were not replayed; null where there were none."`
}

type attemptCounts struct {
	Succeeded  int64 `json:"succeeded" doc:"Answered with a status of 2xx." example:"120"`
	Failed     int64 `json:"failed" doc:"Answered otherwise, or not at all." example:"3"`
	Superseded int64 `json:"superseded" doc:"Made, but their delivery had been given to another worker before the outcome was stored." example:"0"`
}

type deliveryCounts struct {
	Succeeded int64 `json:"succeeded" doc:"Those that succeeded." example:"120"`
	Dead      int64 `json:"dead" doc:"Those that died." example:"1"`
	Cancelled int64 `json:"cancelled" doc:"Those that were cancelled." example:"0"`
}

type percentileMS struct {
	P50 float64 `json:"p50" doc:"Half took at most this long, in milliseconds, to within a tenth." example:"45.2"`
	P95 float64 `json:"p95" doc:"95 of a hundred took at most this long, in milliseconds, to within a tenth." example:"127.9"`
	P99 float64 `json:"p99" doc:"99 of a hundred took at most this long, in milliseconds, to within a tenth." example:"361.7"`
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
