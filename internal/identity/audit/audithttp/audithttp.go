// Package audithttp serves the audit trail over HTTP.
package audithttp

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
)

const collectionPath = "/admin/audit-events"

// Environments looks up the team of an environment.
type Environments interface {
	// HadEnvironment returns nil if the environment belongs to the team, or did before it was deleted. Errors: not_found.
	HadEnvironment(ctx context.Context, team id.Team, env id.Environment) error
}

// Principals looks up the present rights of a user.
type Principals interface {
	// Current returns a user with their present rights. Errors: unauthorized if their session has ended.
	Current(ctx context.Context, p access.Principal) (access.Principal, error)
}

// mount adds the operations on the audit trail to the API.
func mount(api *httpapi.API, store *audit.Store, environments Environments, principals Principals) {
	h := &handlers{store: store, environments: environments, principals: principals}
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-audit-events", Method: http.MethodGet, Path: collectionPath, Status: http.StatusOK, Tag: tag,
		AnyEnvironment: true, EnvironmentQuery: true, Permission: access.AuditRead,
		Errors: []apperr.Code{apperr.CodeNotFound}, Summary: "List audit events",
		Missing: []string{"environment"},
		Description: "Lists an audit trail, newest first. `environment_id`, or the header `Environment-Id`, selects the " +
			"trail of an environment, which may be deleted. Without both the trail is that of the team, with events that " +
			"concern no environment. Every administrative change commits with one event. Events are numbered from 1 " +
			"without gaps after they are committed. They appear here with their number, usually immediately and " +
			"otherwise within a second.\n\n" +
			"If few of many events match the filters, the search ends after half a second. Such a page can be shorter than " +
			"`limit`, or empty, and the next page continues it. Only a page without `X-Next-Cursor` is the last.",
	}, httpapi.List[listInput, audit.Entry, auditEvent]{Search: h.list, View: viewListed, IsKey: isSeq,
		Key: func(e *audit.Entry) string { return strconv.FormatInt(e.Seq, 10) }})
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "export-audit-events", Method: http.MethodGet, Path: collectionPath + "/export", Status: http.StatusOK, Tag: tag,
		AnyEnvironment: true, EnvironmentQuery: true, Permission: access.AuditExport,
		Errors: []apperr.Code{apperr.CodeNotFound}, Download: []string{mediaJSONL, mediaCSV}, Summary: "Export audit events",
		Missing: []string{"environment"},
		Description: "Streams an audit trail, oldest first. `jsonl` is JSON lines: one event a line, as in the list. `csv` " +
			"is RFC 4180 with a header; a text that a spreadsheet would read as a formula begins with an apostrophe. The " +
			"export ends with the newest numbered event. To continue later or after a broken connection, set `after_seq` to " +
			"the number of the last complete event. The export stops if the caller loses the permission.",
	}, h.export)
}

const tag = "Audit"

type handlers struct {
	store        *audit.Store
	environments Environments
	principals   Principals
}

// Filters holds the filters of both operations. It is exported because only exported embedded structs are documented.
type Filters struct {
	// The environment whose trail to read. Default: the trail of the team, with events that concern no environment.
	EnvironmentID string `query:"environment_id" maxLength:"64" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only events of these kinds of actors.
	ActorType []access.Kind `query:"actor_type,explode" maxItems:"10"`
	// Only events of these users, keys or parts of the service.
	ActorID []string `query:"actor_id,explode" minLength:"1" maxLength:"64" maxItems:"50"`
	// Only these actions. `object.*` selects every action on that kind of object.
	Action []string `query:"action,explode" pattern:"^[a-z_]{1,64}\\.([a-z_]{1,64}|\\*)$" maxItems:"50" example:"api_key.*"`
	// Only actions with one of these outcomes.
	Outcome []audit.Outcome `query:"outcome,explode" maxItems:"10"`
	// Only actions on these kinds of objects.
	TargetType []string `query:"target_type,explode" pattern:"^[a-z_]{1,64}$" maxItems:"50" example:"api_key"`
	// Only actions on the objects with these ids.
	TargetID []string `query:"target_id,explode" minLength:"1" maxLength:"64" maxItems:"50"`
	// Only actions of these requests.
	RequestID []string `query:"request_id,explode" minLength:"1" maxLength:"64" maxItems:"50"`
	// Only events after this time (RFC 3339, millisecond precision).
	TimeAfter patch.Optional[httpapi.Time] `query:"time_after" example:"2026-03-04T05:06:07.890Z"`
	// Only events before this time (RFC 3339, millisecond precision).
	TimeBefore patch.Optional[httpapi.Time] `query:"time_before" example:"2026-03-05T05:06:07.890Z"`
}

// readFilter returns the requested trail and filter if the caller has the permission for the trail.
func (h *handlers) readFilter(ctx context.Context, in *Filters,
	want access.Permission) (audit.Trail, audit.Filter, error) {
	actor := access.From(ctx)
	trail := audit.Trail{Team: actor.Team, Environment: id.Environment(in.EnvironmentID)}
	f := audit.Filter{ActorTypes: httpapi.Distinct(in.ActorType),
		ActorIDs: httpapi.Distinct(in.ActorID), Actions: httpapi.Distinct(in.Action),
		Outcomes:    httpapi.Distinct(in.Outcome),
		TargetTypes: httpapi.Distinct(in.TargetType), TargetIDs: httpapi.Distinct(in.TargetID),
		RequestIDs: httpapi.Distinct(in.RequestID)}
	f.After, f.Before = (*time.Time)(in.TimeAfter.Pointer()), (*time.Time)(in.TimeBefore.Pointer())
	if err := actor.RequireIn(trail.Environment, want); err != nil || trail.Environment == "" {
		return trail, f, err
	}
	return trail, f, h.environments.HadEnvironment(ctx, trail.Team, trail.Environment)
}

type listInput struct {
	page.Query
	Filters
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]audit.Entry, string, error) {
	trail, filter, err := h.readFilter(ctx, &in.Filters, access.AuditRead)
	if err != nil {
		return nil, "", err
	}
	return h.store.List(ctx, trail, filter, p)
}

func viewListed(_ context.Context, e *audit.Entry) auditEvent { return viewEvent(e) }

func isSeq(key string) bool {
	n, err := strconv.ParseInt(key, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == key
}
