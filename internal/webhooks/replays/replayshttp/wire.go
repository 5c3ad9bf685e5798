package replayshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/replays"
)

// replay is a job on the wire.
type replay struct {
	ID               string                  `json:"id" doc:"The id of the job." example:"rpl_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	EnvironmentID    string                  `json:"environment_id" doc:"The environment that the job belongs to." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Status           string                  `json:"status" enum:"queued,running,paused,completed,cancelled,failed" doc:"queued: waits for a worker. running: is being worked on. paused: waits to be resumed. completed: has started everything, and every first try has ended. cancelled: was ended on request. failed: cannot go on; error says why."`
	Filter           filter                  `json:"filter" doc:"Which events the job is about, of those that were there when it was made."`
	Force            bool                    `json:"force" doc:"Whether deliveries that have not failed are replayed, too."`
	ToSubscriptionID *string                 `json:"to_subscription_id" nullable:"true" doc:"The subscription that the events go to; null for the deliveries that there are."`
	RatePerSecond    int                     `json:"rate_per_second" doc:"How many deliveries are started a second, at most." example:"50"`
	Counts           counts                  `json:"counts" doc:"What the job has done so far."`
	Progress         float64                 `json:"progress" doc:"An estimate of the share of the environment's events that the job has looked at, from 0 to 1." example:"0.42"`
	Error            httpapi.OrNull[failure] `json:"error" doc:"Why the job failed; null unless it has."`
	CreatedBy        creator                 `json:"created_by" doc:"Who made the job."`
	CreatedAt        httpapi.Time            `json:"created_at" doc:"When the job was made. Events received later are none of its."`
	UpdatedAt        httpapi.Time            `json:"updated_at" doc:"When the job last got on or was changed."`
	StartedAt        *httpapi.Time           `json:"started_at" nullable:"true" doc:"When a worker first took the job; null before that."`
	FinishedAt       *httpapi.Time           `json:"finished_at" nullable:"true" doc:"When the job was completed, cancelled or failed; null before that. It is kept for 30 days from then on."`
}

// counts is what a job has done.
type counts struct {
	Matched        int64   `json:"matched" doc:"The events that the filter selected, of those that the job has come to. Without force and to_subscription_id: those of them with a delivery that is dead or waits after a failed try." example:"120"`
	Replayed       int64   `json:"replayed" doc:"The deliveries that were started." example:"118"`
	InProgress     int64   `json:"in_progress" doc:"Those of them whose first try has not ended." example:"3"`
	Succeeded      int64   `json:"succeeded" doc:"Those of them whose first try, or a later one by the time the job looked, succeeded." example:"110"`
	Failed         int64   `json:"failed" doc:"Those of them whose first try failed. They are retried as their subscription says." example:"4"`
	Other          int64   `json:"other" doc:"Those of them that ended without a try: held because their subscription is disabled, cancelled, or replayed once more by somebody else." example:"1"`
	Skipped        int64   `json:"skipped" doc:"What was left as it was: deliveries, and events as one where they have none to count." example:"2"`
	SkippedReasons reasons `json:"skipped_reasons" doc:"The same by reason."`
}

// reasons counts what was skipped.
type reasons struct {
	InFlight            int64 `json:"in_flight" doc:"Deliveries that were being sent at that moment."`
	SubscriptionDeleted int64 `json:"subscription_deleted" doc:"Deliveries to subscriptions that were deleted."`
	NotMatched          int64 `json:"not_matched" doc:"Events that the subscription named by to_subscription_id does not take."`
	NotFailed           int64 `json:"not_failed" doc:"Deliveries to the subscription named by to_subscription_id that have not failed, and events of which nothing was left to replay when the job came to them. force replays them."`
	PayloadExpired      int64 `json:"payload_expired" doc:"Events whose payload has been removed."`
	Duplicate           int64 `json:"duplicate" doc:"Events that repeat another."`
	Control             int64 `json:"control" doc:"Pings and confirmations of the provider."`
	NoDelivery          int64 `json:"no_delivery" doc:"Events that no subscription took when they came."`
}

// failure is why a job failed.
type failure struct {
	Code    string `json:"code" enum:"subscription_deleted,internal_error" doc:"The kind of failure."`
	Message string `json:"message" doc:"A sentence for a person."`
}

// creator is who made a job.
type creator struct {
	Type string `json:"type" enum:"user,api_key,system" doc:"What kind of principal it was."`
	ID   string `json:"id" doc:"The id of the user or API key." example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Name string `json:"name" doc:"The user's e-mail address or the key's name at that time."`
}

// preview is what a job would do.
type preview struct {
	DryRun         bool      `json:"dry_run" doc:"Always true: nothing was made."`
	Matched        int64     `json:"matched" doc:"The events that the job would come to." example:"120"`
	Replayed       int64     `json:"replayed" doc:"The deliveries that it would start." example:"118"`
	Skipped        int64     `json:"skipped" doc:"What it would leave as it is." example:"2"`
	SkippedReasons reasons   `json:"skipped_reasons" doc:"The same by reason."`
	AtLeast        bool      `json:"at_least" doc:"Whether counting ended before the end: at 10,000 events or deliveries, a million events looked at, or three seconds. The newest are counted first."`
	Sample         []sampled `json:"sample" doc:"Up to 20 of the deliveries, newest events first."`
}

// sampled is a delivery that would be started.
type sampled struct {
	EventUUID      string       `json:"event_uuid" format:"uuid" doc:"The event." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	EventType      string       `json:"event_type" doc:"The event's type." example:"issues.opened"`
	ConnectionID   string       `json:"connection_id" doc:"The id of the event's connection." example:"acme-production"`
	ReceivedAt     httpapi.Time `json:"received_at" doc:"When the event was received."`
	SubscriptionID string       `json:"subscription_id" doc:"The subscription that it would go to." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
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
