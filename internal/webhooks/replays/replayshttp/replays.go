// Package replayshttp serves bulk replays over HTTP.
package replayshttp

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/replays"
)

const (
	tag            = "Webhook replays"
	collectionPath = "/webhook-replays"
	itemPath       = "/webhook-replays/{id}"
)

// mount adds the operations on bulk replays to the API.
func mount(api *httpapi.API, svc *replays.Service) {
	h := &handlers{svc: svc}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Route, o.Environment, o.Status = tag, access.RouteWebhooks, true, cmp.Or(o.Status, http.StatusOK)
		if o.Permission == "" {
			o.Permission = access.EventsReplay
		}
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "create-webhook-replay", Method: http.MethodPost, Path: collectionPath, Status: http.StatusAccepted,
		OtherStatuses: []int{http.StatusOK}, Bodies: map[int]any{http.StatusAccepted: replay{}, http.StatusOK: preview{}},
		Errors:  []apperr.Code{apperr.CodeReplaysLimit},
		Summary: "Replay many webhook events",
		Example: `{"filter": {"event_type": ["invoice.*"], "status": ["dead_letter"]}, "dry_run": true}`,
		Missing: []string{"webhook subscription"},
		Description: "Creates a job that sends the events selected by `filter` again, oldest first and with their " +
			"`webhook-id`. The job covers events that exist when it is created. Without `force` it starts the deliveries that " +
			"are dead or wait after a failed attempt, and ignores all other events. If `filter` restricts deliveries " +
			"(`subscription_id`, `http_status`, `error_code`), it starts the matching deliveries only. With " +
			"`to_subscription_id` it sends the events to that subscription alone, including events received before the " +
			"subscription was created, if the subscription matches them.\n\n" +
			"New events take priority over the job. The job continues after a restart. An environment can have " +
			strconv.Itoa(replays.MaxUnfinished) +
			" unfinished jobs. A finished job is kept for 30 days. With `dry_run` no job " +
			"is created: the response has the status code 200 and counts what a job would do.",
	}), h.create)
	httpapi.RegisterList(api, op(httpapi.Operation{
		ID: "list-webhook-replays", Method: http.MethodGet, Path: collectionPath, Permission: access.EventsRead,
		Summary: "List bulk replays", Description: "Lists the environment's bulk replays, newest first.",
	}), httpapi.List[listInput, replays.Replay, replay]{Rows: h.list, View: viewListed,
		Key: func(r *replays.Replay) string { return r.ID }, IsKey: id.Matcher(id.PrefixReplay)})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-webhook-replay", Method: http.MethodGet, Path: itemPath, Permission: access.EventsRead,
		Summary: "Get a bulk replay", Description: "Returns a bulk replay with its progress so far.",
	}), h.get)
	ended := []apperr.Code{apperr.CodeReplayEnded}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "pause-webhook-replay", Method: http.MethodPost, Path: itemPath + "/pause", Errors: ended,
		Summary: "Pause a bulk replay",
		Description: "Pauses the job. After the response it starts no delivery until it is resumed. Deliveries that it has " +
			"already started are sent. A paused job is left unchanged.",
	}), h.changeWith(svc.Pause))
	httpapi.Register(api, op(httpapi.Operation{
		ID: "resume-webhook-replay", Method: http.MethodPost, Path: itemPath + "/resume", Errors: ended,
		Summary:     "Resume a bulk replay",
		Description: "Resumes a paused job where it stopped. A job that is not paused is left unchanged.",
	}), h.changeWith(svc.Resume))
	httpapi.Register(api, op(httpapi.Operation{
		ID: "cancel-webhook-replay", Method: http.MethodPost, Path: itemPath + "/cancel", Errors: ended,
		Summary: "Cancel a bulk replay",
		Description: "Ends the job. After the response it starts no delivery. Deliveries that it has already started are " +
			"sent, and retried by the schedule of their subscription. A cancelled job is left unchanged.",
	}), h.changeWith(svc.Cancel))
}

type handlers struct{ svc *replays.Service }

type createInput struct{ Body creation }

type createOutput struct {
	Status int
	// The path of the job.
	Location string `header:"Location"`
	Body     any
}

func (h *handlers) create(ctx context.Context, in *createInput) (*createOutput, error) {
	order := in.Body.order()
	if in.Body.DryRun.Value {
		p, err := h.svc.Preview(ctx, access.From(ctx), order)
		if err != nil {
			return nil, err
		}
		return &createOutput{Status: http.StatusOK, Body: viewPreview(&p)}, nil
	}
	r, err := h.svc.Create(ctx, access.From(ctx), order)
	if err != nil {
		return nil, err
	}
	return &createOutput{Status: http.StatusAccepted, Location: httpapi.Prefix + collectionPath + "/" + r.ID,
		Body: viewReplay(&r)}, nil
}

type listInput struct {
	page.Query
	// Only jobs with one of these statuses.
	Status []replays.Status `query:"status,explode" maxItems:"50" example:"running"`
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]replays.Replay, error) {
	return h.svc.List(ctx, access.From(ctx).View(), replays.ListFilter{Statuses: in.Status}, p)
}

func viewListed(_ context.Context, r *replays.Replay) replay { return viewReplay(r) }

type itemInput struct {
	// The id of the job.
	ID string `path:"id" example:"rpl_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

type itemOutput struct{ Body replay }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	r, err := h.svc.Get(ctx, access.From(ctx).View(), in.ID)
	if err != nil {
		return nil, err
	}
	return &itemOutput{Body: viewReplay(&r)}, nil
}

// changeWith returns the handler of an operation that changes a job.
func (h *handlers) changeWith(to func(context.Context, access.Principal, string) (replays.Replay,
	error)) func(context.Context, *itemInput) (*itemOutput, error) {
	return func(ctx context.Context, in *itemInput) (*itemOutput, error) {
		r, err := to(ctx, access.From(ctx), in.ID)
		if err != nil {
			return nil, err
		}
		return &itemOutput{Body: viewReplay(&r)}, nil
	}
}
