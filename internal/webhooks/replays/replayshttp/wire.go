package replayshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/replays"
)

// replay is a job on the wire.
type replay struct {
	// The id of the job.
	ID string `json:"id" example:"rpl_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The environment that the job belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// queued: waits for a worker. running: is being worked on. paused: waits to be resumed. completed: has started
	// everything, and every first try has ended. cancelled: was ended on request. failed: cannot go on; error says why.
	Status string `json:"status" enum:"queued,running,paused,completed,cancelled,failed"`
	// Which events the job is about, of those that were there when it was made.
	Filter filter `json:"filter"`
	// Whether deliveries that have not failed are replayed, too.
	Force bool `json:"force"`
	// The subscription that the events go to; null for the deliveries that there are.
	ToSubscriptionID *string `json:"to_subscription_id" nullable:"true"`
	// How many deliveries are started a second, at most.
	RatePerSecond int `json:"rate_per_second" example:"50"`
	// What the job has done so far.
	Counts counts `json:"counts"`
	// An estimate of the share of the environment's events that the job has looked at, from 0 to 1.
	Progress float64 `json:"progress" example:"0.42"`
	// Why the job failed; null unless it has.
	Error httpapi.OrNull[failure] `json:"error"`
	// Who made the job.
	CreatedBy creator `json:"created_by"`
	// When the job was made. Events received later are none of its.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the job last got on or was changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
	// When a worker first took the job; null before that.
	StartedAt *httpapi.Time `json:"started_at" nullable:"true"`
	// When the job was completed, cancelled or failed; null before that. It is kept for 30 days from then on.
	FinishedAt *httpapi.Time `json:"finished_at" nullable:"true"`
}

// counts is what a job has done.
type counts struct {
	// The events that the filter selected, of those that the job has come to. Without force and to_subscription_id: those
	// of them with a delivery that is dead or waits after a failed try.
	Matched int64 `json:"matched" example:"120"`
	// The deliveries that were started.
	Replayed int64 `json:"replayed" example:"118"`
	// Those of them whose first try has not ended.
	InProgress int64 `json:"in_progress" example:"3"`
	// Those of them whose first try, or a later one by the time the job looked, succeeded.
	Succeeded int64 `json:"succeeded" example:"110"`
	// Those of them whose first try failed. They are retried as their subscription says.
	Failed int64 `json:"failed" example:"4"`
	// Those of them that ended without a try: held because their subscription is disabled, cancelled, or replayed once
	// more by somebody else.
	Other int64 `json:"other" example:"1"`
	// What was left as it was: deliveries, and events as one where they have none to count.
	Skipped int64 `json:"skipped" example:"2"`
	// The same by reason.
	SkippedReasons reasons `json:"skipped_reasons"`
}

// reasons counts what was skipped.
type reasons struct {
	// Deliveries that were being sent at that moment.
	InFlight int64 `json:"in_flight"`
	// Deliveries to subscriptions that were deleted.
	SubscriptionDeleted int64 `json:"subscription_deleted"`
	// Events that the subscription named by to_subscription_id does not take.
	NotMatched int64 `json:"not_matched"`
	// Deliveries to the subscription named by to_subscription_id that have not failed, and events of which nothing was
	// left to replay when the job came to them. force replays them.
	NotFailed int64 `json:"not_failed"`
	// Events whose payload has been removed.
	PayloadExpired int64 `json:"payload_expired"`
	// Events that repeat another.
	Duplicate int64 `json:"duplicate"`
	// Pings and confirmations of the provider.
	Control int64 `json:"control"`
	// Events that no subscription took when they came.
	NoDelivery int64 `json:"no_delivery"`
}

// failure is why a job failed.
type failure struct {
	// The kind of failure.
	Code string `json:"code" enum:"subscription_deleted,internal_error"`
	// A sentence for a person.
	Message string `json:"message"`
}

// creator is who made a job.
type creator struct {
	// What kind of principal it was.
	Type string `json:"type" enum:"user,api_key,system"`
	// The id of the user or API key.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address or the key's name at that time.
	Name string `json:"name"`
}

// preview is what a job would do.
type preview struct {
	// Always true: nothing was made.
	DryRun bool `json:"dry_run"`
	// The events that the job would come to.
	Matched int64 `json:"matched" example:"120"`
	// The deliveries that it would start.
	Replayed int64 `json:"replayed" example:"118"`
	// What it would leave as it is.
	Skipped int64 `json:"skipped" example:"2"`
	// The same by reason.
	SkippedReasons reasons `json:"skipped_reasons"`
	// Whether counting ended before the end: at 10,000 events or deliveries, a million events looked at, or three seconds.
	// The newest are counted first.
	AtLeast bool `json:"at_least"`
	// Up to 20 of the deliveries, newest events first.
	Sample []sampled `json:"sample"`
}

// sampled is a delivery that would be started.
type sampled struct {
	// The event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The event's type.
	EventType string `json:"event_type" example:"issues.opened"`
	// The id of the event's connection.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// When the event was received.
	ReceivedAt httpapi.Time `json:"received_at"`
	// The subscription that it would go to.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

func view(r *replays.Replay) replay {
	out := replay{
		ID: r.ID, EnvironmentID: string(r.Environment), Status: string(r.Status), Filter: filterView(&r.Filter),
		Force: r.Force, ToSubscriptionID: orNull(r.To), RatePerSecond: r.RatePerSecond, Progress: r.Progress(),
		Counts: counts{Matched: r.Matched, Replayed: r.Replayed, InProgress: int64(r.InProgress()), Succeeded: r.Succeeded,
			Failed: r.Failed, Other: r.Other, Skipped: total(r.Skipped), SkippedReasons: reasonsView(r.Skipped)},
		CreatedBy: creator{string(r.CreatedBy.Kind), r.CreatedBy.ID, r.CreatedBy.Name}, CreatedAt: httpapi.Time(r.CreatedAt),
		UpdatedAt: httpapi.Time(r.UpdatedAt), StartedAt: (*httpapi.Time)(r.StartedAt),
		FinishedAt: (*httpapi.Time)(r.FinishedAt),
	}
	if r.Failure != "" {
		out.Error.Value = &failure{string(r.Failure), r.Failure.Message()}
	}
	return out
}

func previewView(p *replays.Preview) preview {
	out := preview{DryRun: true, Matched: p.Matched, Replayed: p.Replayed, Skipped: total(p.Skipped),
		SkippedReasons: reasonsView(p.Skipped), AtLeast: p.AtLeast, Sample: make([]sampled, len(p.Sample))}
	for i := range p.Sample {
		e := &p.Sample[i].Event
		out.Sample[i] = sampled{e.UUID, e.Type, e.ConnectionID, httpapi.Time(e.ReceivedAt), p.Sample[i].SubscriptionID}
	}
	return out
}

func total(skipped map[deliveries.SkipReason]int64) (n int64) {
	for _, v := range skipped {
		n += v
	}
	return n
}

func reasonsView(n map[deliveries.SkipReason]int64) reasons {
	return reasons{
		InFlight: n[deliveries.SkipInFlight], SubscriptionDeleted: n[deliveries.SkipSubscriptionDeleted],
		NotMatched: n[deliveries.SkipNotMatched], NotFailed: n[deliveries.SkipNotFailed],
		PayloadExpired: n[deliveries.SkipPayloadExpired], Duplicate: n[deliveries.SkipDuplicate],
		Control: n[deliveries.SkipControl], NoDelivery: n[deliveries.SkipNoDelivery],
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
