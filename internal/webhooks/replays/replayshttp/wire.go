package replayshttp

import (
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/replays"
)

// replay is the wire form of a job.
type replay struct {
	// The id of the job.
	ID string `json:"id" example:"rpl_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The environment that the job belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The status of the job:
	// - `queued`: waits for a worker.
	// - `running`: a worker processes it.
	// - `paused`: waits to be resumed.
	// - `completed`: every delivery was started, and every first attempt has ended.
	// - `cancelled`: ended on request.
	// - `failed`: cannot continue; see `error`.
	Status replays.Status `json:"status"`
	// The events to replay. The job covers events that existed when it was created.
	Filter filter `json:"filter"`
	// Whether the job also replays deliveries that have not failed.
	Force bool `json:"force"`
	// The subscription that the events are sent to; `null` for the existing deliveries.
	ToSubscriptionID *string `json:"to_subscription_id" nullable:"true"`
	// The maximum number of deliveries started per second.
	RatePerSecond int `json:"rate_per_second" example:"50"`
	// The counts so far.
	Counts counts `json:"counts"`
	// The estimated share of the environment's events that the job has examined, from 0 to 1.
	Progress float64 `json:"progress" example:"0.42"`
	// Why the job failed; `null` unless `status` is `failed`.
	Error httpapi.OrNull[failure] `json:"error"`
	// The user or API key that created the job.
	CreatedBy creator `json:"created_by"`
	// When the job was created. It does not cover events received later.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the job last made progress or was changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
	// When a worker first started the job; `null` before.
	StartedAt *httpapi.Time `json:"started_at" nullable:"true"`
	// When the job was completed, cancelled or failed; `null` before. It is kept for 30 days after this time.
	FinishedAt *httpapi.Time `json:"finished_at" nullable:"true"`
}

// counts holds the progress of a job.
type counts struct {
	// The examined events that the filter selects. Without `force` and `to_subscription_id`, only those with a delivery
	// that is dead or waits after a failed attempt.
	Matched int64 `json:"matched" example:"120"`
	// The deliveries that were started.
	Replayed int64 `json:"replayed" example:"118"`
	// The started deliveries whose first attempt has not ended.
	InProgress int64 `json:"in_progress" example:"3"`
	// The started deliveries that succeeded, in the first attempt or in a retry before the job checked.
	Succeeded int64 `json:"succeeded" example:"110"`
	// The started deliveries whose first attempt failed. They are retried by the schedule of their subscription, and a
	// retry that succeeds later does not lower this count: the events' own deliveries show it.
	Failed int64 `json:"failed" example:"4"`
	// The started deliveries that ended without an attempt: held because their subscription is disabled or because a
	// probe since the creation of the bulk replay shows that its receiver still fails, cancelled, or replayed again by
	// another request.
	Other int64 `json:"other" example:"1"`
	// The deliveries that were left unchanged. An event without deliveries counts as one.
	Skipped int64 `json:"skipped" example:"2"`
	// The skipped deliveries and events by reason.
	SkippedReasons reasons `json:"skipped_reasons"`
}

// reasons counts skipped deliveries and events by reason.
type reasons struct {
	// Deliveries that were being sent at that moment.
	InFlight int64 `json:"in_flight"`
	// Deliveries to deleted subscriptions.
	SubscriptionDeleted int64 `json:"subscription_deleted"`
	// Events that the subscription in `to_subscription_id` does not match.
	NotMatched int64 `json:"not_matched"`
	// Deliveries to the subscription in `to_subscription_id` that have not failed, and events without a delivery left to
	// replay when the job reached them. `force` replays both.
	NotFailed int64 `json:"not_failed"`
	// Events whose payload has been removed.
	PayloadExpired int64 `json:"payload_expired"`
	// Duplicates.
	Duplicate int64 `json:"duplicate"`
	// Pings and confirmations of the provider.
	Control int64 `json:"control"`
	// Events that matched no subscription when they were received.
	NoDelivery int64 `json:"no_delivery"`
}

// failure describes why a job failed.
type failure struct {
	// The kind of failure.
	Code replays.FailureCode `json:"code"`
	// A human-readable message.
	Message string `json:"message"`
}

// creator is the principal that created a job.
type creator struct {
	// The kind of principal.
	Type access.Kind `json:"type"`
	// The id of the user or API key.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address or the key's name at the time of creation.
	Name string `json:"name"`
}

// preview is the result of a dry run.
type preview struct {
	// Always `true`: no job was created.
	DryRun bool `json:"dry_run"`
	// The events that the job would process.
	Matched int64 `json:"matched" example:"120"`
	// The deliveries that the job would start.
	Replayed int64 `json:"replayed" example:"118"`
	// The deliveries and events that the job would skip.
	Skipped int64 `json:"skipped" example:"2"`
	// The skipped deliveries and events by reason.
	SkippedReasons reasons `json:"skipped_reasons"`
	// Whether counting stopped early: after 10,000 events or deliveries, a million examined events, or 3 seconds. The
	// newest events are counted first.
	AtLeast bool `json:"at_least"`
	// Up to 20 of the deliveries, newest events first.
	Sample []sampled `json:"sample"`
}

// sampled is a delivery that a job would start.
type sampled struct {
	// The event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The event's type.
	EventType string `json:"event_type" example:"issues.opened"`
	// The id of the event's connection.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// When the event was received.
	ReceivedAt httpapi.Time `json:"received_at"`
	// The subscription that the event would be sent to.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func viewReplay(r *replays.Replay) replay {
	out := replay{
		ID: r.ID, EnvironmentID: string(r.Environment), Status: r.Status, Filter: viewFilter(&r.Filter),
		Force: r.Force, ToSubscriptionID: httpapi.NullIfEmpty(r.To), RatePerSecond: r.RatePerSecond, Progress: r.Progress(),
		Counts: counts{Matched: r.Matched, Replayed: r.Replayed, InProgress: int64(r.InProgress()), Succeeded: r.Succeeded,
			Failed: r.Failed, Other: r.Other, Skipped: sumSkipped(r.Skipped), SkippedReasons: viewReasons(r.Skipped)},
		CreatedBy: creator{r.CreatedBy.Kind, r.CreatedBy.ID, r.CreatedBy.Name}, CreatedAt: httpapi.Time(r.CreatedAt),
		UpdatedAt: httpapi.Time(r.UpdatedAt), StartedAt: (*httpapi.Time)(r.StartedAt),
		FinishedAt: (*httpapi.Time)(r.FinishedAt),
	}
	if r.Failure != "" {
		out.Error.Value = &failure{r.Failure, r.Failure.Message()}
	}
	return out
}

func viewPreview(p *replays.Preview) preview {
	out := preview{DryRun: true, Matched: p.Matched, Replayed: p.Replayed, Skipped: sumSkipped(p.Skipped),
		SkippedReasons: viewReasons(p.Skipped), AtLeast: p.AtLeast, Sample: make([]sampled, len(p.Sample))}
	for i := range p.Sample {
		e := &p.Sample[i].Event
		out.Sample[i] = sampled{e.UUID, e.Type, e.ConnectionID, httpapi.Time(e.ReceivedAt), p.Sample[i].SubscriptionID}
	}
	return out
}

func sumSkipped(skipped map[deliveries.SkipReason]int64) (n int64) {
	for _, v := range skipped {
		n += v
	}
	return n
}

func viewReasons(n map[deliveries.SkipReason]int64) reasons {
	return reasons{
		InFlight: n[deliveries.SkipInFlight], SubscriptionDeleted: n[deliveries.SkipSubscriptionDeleted],
		NotMatched: n[deliveries.SkipNotMatched], NotFailed: n[deliveries.SkipNotFailed],
		PayloadExpired: n[deliveries.SkipPayloadExpired], Duplicate: n[deliveries.SkipDuplicate],
		Control: n[deliveries.SkipControl], NoDelivery: n[deliveries.SkipNoDelivery],
	}
}
