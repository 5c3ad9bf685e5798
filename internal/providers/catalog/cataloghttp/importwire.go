package cataloghttp

import (
	"bytes"
	"encoding/json"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/actiondiff"
	"sallyport/internal/providers/imports"
)

// documentOf returns the document of a body: an object as it is, and the content of a text.
func documentOf(raw []byte) ([]byte, bool) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0:
		return nil, false
	case raw[0] == '{':
		return raw, true
	default:
		var text string
		err := json.Unmarshal(raw, &text)
		return []byte(text), err == nil
	}
}

// ImportSummary is the wire form of an import in a list. It is exported because only exported embedded structs are
// documented.
type ImportSummary struct {
	// The id of the import.
	ID string `json:"id" example:"imp_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The environment that the import belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The slug of the provider.
	Provider string `json:"provider" example:"acme"`
	// Whether the import adds actions to a provider of the installation, and defines none.
	Extends bool `json:"extends" example:"false"`
	// The status of the import:
	// - `queued`: waits for a worker.
	// - `running`: a worker reads the document.
	// - `ready`: can be activated.
	// - `active`: the catalog shows its actions.
	// - `replaced`: was active before another import, and can be activated again.
	// - `failed`: the document could not be imported; see `error`.
	// - `cancelled`: ended on request.
	Status imports.Status `json:"status" example:"ready"`
	// The kind of the document as it was stated; `null` if it was not.
	Source statedSource `json:"source"`
	// Where the document came from; `null` if it came with the request.
	URL *string `json:"url" example:"https://api.acme.example/openapi.json"`
	// The base URL that replaces the document's servers; `null` if none does.
	BaseURL *string `json:"base_url"`
	// The name for people that was stated; `null` for the title of the document.
	DisplayName *string `json:"display_name"`
	// The headers that all requests have although the document does not say so.
	Headers []string `json:"headers" example:"[\"Acme-Version: 2026-11-01\"]"`
	// The path of the action that tests connections; `null` if they are not tested.
	Probe *string `json:"probe" example:"/me"`
	// The actions that are imported, in the forms of the order; empty for all.
	Include []string `json:"include"`
	// The actions that are left out, likewise.
	Exclude []string `json:"exclude"`
	// Whether what the document states about risks may lower them.
	Trusted bool `json:"trusted" example:"false"`
	// The document, as far as it is known; `null` before it was read.
	Document httpapi.OrNull[document] `json:"document"`
	// How far the import is; `null` unless `status` is `running`.
	Progress httpapi.OrNull[progress] `json:"progress"`
	// Why the import failed; `null` unless `status` is `failed`.
	Error httpapi.OrNull[failure] `json:"error"`
	// The user who created the import.
	CreatedBy creator `json:"created_by"`
	// When the import was created.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the import was last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
	// When a worker first began; `null` before.
	StartedAt *httpapi.Time `json:"started_at" nullable:"true"`
	// When the document was read, or the import failed or was cancelled; `null` before.
	FinishedAt *httpapi.Time `json:"finished_at" nullable:"true"`
	// When the import was last activated; `null` if it never was.
	ActivatedAt *httpapi.Time `json:"activated_at" nullable:"true"`
}

// statedSource is a source, or null.
type statedSource string

// MarshalJSON writes the source or null.
func (s statedSource) MarshalJSON() ([]byte, error) {
	return json.Marshal(httpapi.NullIfEmpty(string(s)))
}

// Schema returns the schema of the sources and null.
func (statedSource) Schema(oas.Registry) *oas.Schema { return oas.NullableEnum(imports.Sources()...) }

type document struct {
	// The format: `openapi-3.0`, `openapi-3.1`, `swagger-2.0`, `google-discovery` or `graphql`; empty before the document
	// was read.
	Format string `json:"format" example:"openapi-3.0"`
	// The title of the API; empty if the document has none.
	Title string `json:"title" example:"Acme API"`
	// The version of the API; empty if the document has none.
	Version string `json:"version" example:"2026-11-01"`
	// The size of the document in bytes.
	Bytes int64 `json:"bytes" example:"48213"`
	// The SHA-256 of the document, in hexadecimal.
	SHA256 string `json:"sha256"`
}

type progress struct {
	// The work in progress.
	Phase imports.Phase `json:"phase" example:"reading"`
	// The operations that were read.
	Operations int `json:"operations" example:"400"`
}

type failure struct {
	// The kind of failure.
	Code imports.FailureCode `json:"code" example:"document_invalid"`
	// A human-readable message.
	Message string `json:"message"`
	// The line of the document, from 1; `null` if no place is known.
	Line *int `json:"line" example:"12"`
	// The column of the line, from 1; `null` if no place is known.
	Column *int `json:"column" example:"3"`
}

type creator struct {
	// The kind of principal.
	Type access.Kind `json:"type"`
	// The id of the principal.
	ID string `json:"id" example:"usr_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The user's e-mail address at the time of creation.
	Name string `json:"name"`
}

func placeOf(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func viewImportSummary(m *imports.Import) ImportSummary {
	out := ImportSummary{ID: m.ID, EnvironmentID: string(m.Environment), Provider: m.Slug, Extends: m.Extends,
		Status: m.Status, Source: statedSource(m.Source), URL: httpapi.NullIfEmpty(m.ShownURL()),
		BaseURL: httpapi.NullIfEmpty(m.BaseURL), Headers: append([]string{}, m.Headers...),
		Probe:       httpapi.NullIfEmpty(m.Probe),
		DisplayName: httpapi.NullIfEmpty(m.DisplayName), Include: append([]string{}, m.Include...),
		Exclude: append([]string{}, m.Exclude...), Trusted: m.Trusted,
		CreatedBy: creator{m.CreatedBy.Kind, m.CreatedBy.ID, m.CreatedBy.Name}, CreatedAt: httpapi.Time(m.CreatedAt),
		UpdatedAt: httpapi.Time(m.UpdatedAt), StartedAt: (*httpapi.Time)(m.StartedAt),
		FinishedAt: (*httpapi.Time)(m.FinishedAt), ActivatedAt: (*httpapi.Time)(m.ActivatedAt)}
	if d := &m.Document; d.SHA256 != "" {
		out.Document.Value = &document{string(d.Format), d.Title, d.Version, d.Bytes, d.SHA256}
	}
	if m.Status == imports.Running && m.Progress != nil {
		out.Progress.Value = &progress{m.Progress.Phase, m.Progress.Done}
	}
	if f := m.Failure; f != nil {
		out.Error.Value = &failure{f.Code, f.Message, placeOf(f.Line), placeOf(f.Column)}
	}
	return out
}

// importDetail is the wire form of an import.
type importDetail struct {
	ImportSummary
	// The result of reading the document; `null` before it was read to its end.
	Outcome httpapi.OrNull[outcome] `json:"outcome"`
	// The changes that the activation of the import would make; `null` if it cannot be activated.
	Preview httpapi.OrNull[preview] `json:"preview"`
}

type outcome struct {
	// The operations of the document.
	Operations int `json:"operations" example:"120"`
	// The operations that became actions.
	Actions int `json:"actions" example:"117"`
	// The operations that `include` and `exclude` leave out.
	Excluded int `json:"excluded" example:"0"`
	// The operations that could not become actions.
	LeftOut int `json:"left_out" example:"3"`
	// The first 500 of the operations that could not become actions.
	LeftOutOperations []leftOut `json:"left_out_operations"`
	// How many notes there are.
	NotesCount int `json:"notes_count" example:"2"`
	// The first 500 notes: what of its description an action or the provider does not have.
	Notes []note `json:"notes"`
}

type leftOut struct {
	// The method of the operation.
	Method string `json:"method" example:"TRACE"`
	// The path of the operation.
	Path string `json:"path" example:"/things"`
	// Why.
	Message string `json:"message" example:"TRACE does nothing with the provider's data"`
	// The line of the document, from 1; `null` if no place is known.
	Line *int `json:"line" example:"12"`
	// The column of the line, from 1; `null` if no place is known.
	Column *int `json:"column" example:"3"`
}

type note struct {
	// The action; `null` for a note about the provider.
	Action *string `json:"action" example:"create_thing"`
	// The note.
	Message string `json:"message"`
}

func viewImport(m *imports.Import) importDetail {
	out := importDetail{ImportSummary: viewImportSummary(m)}
	if !m.HasActions() {
		return out
	}
	o := &m.Outcome
	view := &outcome{Operations: o.Operations, Actions: o.Actions, Excluded: o.Excluded, LeftOut: o.LeftOut,
		LeftOutOperations: []leftOut{}, NotesCount: o.Noted, Notes: []note{}}
	for _, l := range o.Left {
		view.LeftOutOperations = append(view.LeftOutOperations, leftOut{l.Method, l.Path, l.Message, placeOf(l.Line),
			placeOf(l.Column)})
	}
	for _, n := range o.Notes {
		view.Notes = append(view.Notes, note{httpapi.NullIfEmpty(n.Action), n.Message})
	}
	out.Outcome.Value = view
	return out
}

type preview struct {
	// The digest of the preview, to be sent with the activation. It is another one if another version becomes active.
	Digest string `json:"digest" example:"2f0c7f0b4b0f4c7d9d6e0a1b2c3d4e5f"`
	// The import that is active now; `null` if none is.
	ReplacesImportID *string `json:"replaces_import_id" example:"imp_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The actions that are added.
	Added int `json:"added" example:"12"`
	// The actions that are changed, those among them whose risk is raised included.
	Changed int `json:"changed" example:"3"`
	// The changed actions whose risk is higher than before.
	RiskRaised int `json:"risk_raised" example:"1"`
	// The actions that are removed.
	Removed int `json:"removed" example:"0"`
	// The actions that are removed, or changed so that callers cannot depend on them any more. `null` while that is not
	// known, because the changes are many: the next request goes on comparing them.
	Breaking *int `json:"breaking" example:"1"`
	// Whether credentials would go elsewhere than now, or be used in another way. The activation then requires the digest.
	AccessChanged bool `json:"access_changed" example:"true"`
	// Where credentials would go.
	Access accessView `json:"access"`
	// Where credentials go now; `null` if no import is active.
	PresentAccess httpapi.OrNull[accessView] `json:"present_access"`
}

type accessView struct {
	// The hosts that would get requests with credentials; `*` is one label, and `${config.…}` a setting of each
	// connection.
	Hosts []string `json:"hosts" example:"[\"api.acme.example\"]"`
	// The URLs at which tokens are issued, refreshed and revoked.
	TokenEndpoints []string `json:"token_endpoints"`
	// The modes of authentication.
	AuthModes []string `json:"auth_modes" example:"[\"bearer\"]"`
	// Headers that all requests have.
	Headers []string `json:"headers" example:"[\"Acme-Version: 2026-11-01\"]"`
	// The path to which a GET tests connections; `null` if they are not tested.
	Probe *string `json:"probe" example:"/me"`
}

func viewAccess(a *imports.Access) accessView {
	return accessView{append([]string{}, a.Hosts...), append([]string{}, a.TokenEndpoints...),
		append([]string{}, a.AuthModes...), append([]string{}, a.Headers...), httpapi.NullIfEmpty(a.Probe)}
}

func viewPreview(m *imports.Import, p *imports.Preview) *preview {
	out := &preview{Digest: p.Digest, ReplacesImportID: httpapi.NullIfEmpty(p.Base), Added: p.Counts[imports.Added],
		Changed:    p.Counts[imports.Changed] + p.Counts[imports.RiskRaised],
		RiskRaised: p.Counts[imports.RiskRaised], Removed: p.Counts[imports.Removed], Breaking: p.Breaking,
		AccessChanged: p.AccessChanged,
		Access:        viewAccess(&m.Outcome.Access)}
	if p.Base != "" {
		view := viewAccess(&p.BaseAccess)
		out.PresentAccess.Value = &view
	}
	return out
}

// actionChange is the wire form of what an import changes about an action.
type actionChange struct {
	// The name of the action.
	Action string `json:"action" example:"delete_thing"`
	// The kind of change:
	// - `added`: the action is new.
	// - `changed`: its schemas, its description or its request are others.
	// - `risk_raised`: it is changed, and its risk is higher.
	// - `removed`: it is gone.
	Kind imports.ChangeKind `json:"kind" example:"risk_raised"`
	// The action as it is; `null` if it is added.
	Before httpapi.OrNull[changedAction] `json:"before"`
	// The action as it would be; `null` if it is removed.
	After httpapi.OrNull[changedAction] `json:"after"`
	// Whether callers of the action as it is cannot depend on it any more. An action that is removed is breaking, and one
	// that is added is not.
	Breaking bool `json:"breaking" example:"true"`
	// The differences of an action that is changed, the breaking ones first; at most 50. Empty for an action that is added
	// or removed.
	Differences []difference `json:"differences"`
	// The number of differences, those that are not listed included.
	DifferencesCount int `json:"differences_count" example:"1"`
}

// difference is the wire form of one thing that differs in an action.
type difference struct {
	// The kind of difference:
	// - `request`: the method or the path.
	// - `body`: the media type of the body, its GraphQL operation, or whether a body is required.
	// - `input_added`, `input_removed`, `input_required`, `input_optional`: a property of the input is new or gone, or it
	//   is required now or no longer.
	// - `input_type`, `input_enum`, `input_constraint`: its type, its listed values (in `from` those that are gone, in
	//   `to` those that are new), or another limit of it.
	// - `input_moved`: it goes to another place of the request.
	// - `output_added`, `output_removed`, `output_required`, `output_optional`, `output_type`, `output_enum`,
	//   `output_constraint`: the same of the result. A property that is required there is certain to be there.
	// - `scopes`: the OAuth scopes that permit the call.
	// - `pagination`: how the list is continued.
	// - `idempotency`: the header that takes a key.
	// - `risk`: the level, the operation or the flags.
	// - `deprecation`: whether the provider wants no one to use the action any more.
	// - `documentation`: texts, tags and links, and nothing that callers depend on.
	Kind actiondiff.Kind `json:"kind" example:"input_type"`
	// A JSON pointer (RFC 6901) to the property of the input or the output, in which `*` is any item of an array or any
	// further member; empty for the whole.
	At string `json:"at" example:"/filter/status"`
	// The value before; empty if there is none.
	From string `json:"from" example:"string"`
	// The value after; empty if there is none.
	To string `json:"to" example:"integer"`
	// For `risk`: why the risk is as it would be, the reason that decides first.
	Reasons []string `json:"reasons,omitempty" example:"[\"DELETE destroys something.\"]"`
	// Whether callers cannot depend on the action any more because of it.
	Breaking bool `json:"breaking" example:"true"`
}

type changedAction struct {
	// The title.
	Title string `json:"title" example:"Delete a thing"`
	// Whether the provider wants no one to use it any more.
	Deprecated bool `json:"deprecated" example:"false"`
	// The request.
	HTTP request `json:"http"`
	// The risk, without its reasons.
	Risk RiskSummary `json:"risk"`
}

func viewChanged(s *actions.Summary) *changedAction {
	if s == nil {
		return nil
	}
	return &changedAction{s.Title, s.Deprecated, request{s.Method, s.Path}, viewRisk(&s.Risk)}
}

func viewChange(c *imports.ActionChange) actionChange {
	out := actionChange{Action: c.Action, Kind: c.Kind,
		Before:   httpapi.OrNull[changedAction]{Value: viewChanged(c.Before)},
		After:    httpapi.OrNull[changedAction]{Value: viewChanged(c.After)},
		Breaking: c.Breaking, Differences: make([]difference, len(c.Differences)), DifferencesCount: c.Count}
	for i := range c.Differences {
		d := &c.Differences[i]
		out.Differences[i] = difference(*d)
	}
	return out
}
