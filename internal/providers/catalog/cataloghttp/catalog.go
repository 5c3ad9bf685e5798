// Package cataloghttp serves the catalog and imports over HTTP.
package cataloghttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/toolformat"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/risk"
)

const (
	tag          = "Catalog"
	catalogPath  = "/catalog"
	providerPath = catalogPath + "/{provider}"
	actionsPath  = "/actions"
	actionPath   = actionsPath + "/{provider}/{action_name}"
)

type handlers struct {
	catalog *catalog.Service
	imports *imports.Service
}

// mount adds the operations on the catalog to the API.
func mount(api *httpapi.API, c *catalog.Service, i *imports.Service) {
	h := &handlers{c, i}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Environment, o.Route, o.Permission = tag, true, access.RouteCatalog, access.CatalogRead
		o.Method, o.Status, o.IfNoneMatch = http.MethodGet, http.StatusOK, true
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "list-catalog", Path: catalogPath, Summary: "List providers",
		Description: "Lists the providers of the environment, in the order of their slugs: those that ship, those of the " +
			"operator, and those of active imports.",
	}), h.list)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-catalog-provider", Path: providerPath, Summary: "Get a provider with its actions",
		Description: "Returns a provider: how to connect an account, and a page of its actions, in the order of their " +
			"names. With `q` it has the actions that match the text best, the best first, at most " +
			strconv.Itoa(catalog.MaxFound) + ".",
		Errors: []apperr.Code{apperr.CodeProviderNotFound},
	}), h.get)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "search-actions", Path: actionsPath, Summary: "Search actions",
		Description: "Searches the actions of all providers of the environment. The text is compared word by word with " +
			"names, titles, descriptions, tags, paths and providers; no character in it has a meaning of its own. The best " +
			"match comes first; at most " + strconv.Itoa(catalog.MaxFound) + " are found.",
		Errors: []apperr.Code{apperr.CodeProviderNotFound},
	}), h.search)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-action", Path: actionPath, Summary: "Get an action",
		Description: "Returns an action with its schemas and its risk. With `format` it returns the definition of a tool " +
			"as a client of models takes it, ready to be passed on. Some formats restrict the names of properties; the " +
			"response header `X-Parameter-Names` then has a JSON object from the names in the tool to those of the action, " +
			"unless it would have more than 4 KiB.",
		Errors: []apperr.Code{apperr.CodeProviderNotFound, apperr.CodeActionNotFound},
	}), h.action)
	h.mountImports(api)
}

type listInput struct {
	page.AscendingQuery
	// Only providers whose names, categories or other names contain every word of this text.
	Q string `query:"q" maxLength:"200" example:"git"`
	// Only providers of one of these categories.
	Category []string `query:"category,explode" maxItems:"50" maxLength:"63" example:"developer-tools"`
	// Only providers that know one of these modes of authentication.
	AuthMode []outbound.Kind `query:"auth_mode,explode" maxItems:"20" example:"oauth2"`
	// Only providers of one of these sources.
	Source []source `query:"source,explode" maxItems:"3" example:"builtin"`
}

// source is the wire form of a provider's origin.
type source string

// Schema returns the schema with the sources.
func (source) Schema(oas.Registry) *oas.Schema { return oas.Enum(catalog.Origins()) }

type listOutput struct {
	page.Headers
	httpapi.Versioned
	Body []Provider
}

var isSlug = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

func (h *handlers) list(ctx context.Context, in *listInput) (*listOutput, error) {
	p, badCursor := in.Parse(httpapi.PageScope(ctx), isSlug.MatchString)
	f := catalog.Filter{Search: in.Q, Categories: in.Category, AuthModes: httpapi.ConvertAll[string](in.AuthMode)}
	for _, s := range in.Source {
		f.Origins = append(f.Origins, catalog.Origin(s))
	}
	all, err := h.catalog.List(ctx, access.From(ctx).Environment, f)
	if err != nil {
		return nil, err
	}
	if badCursor != nil {
		return nil, badCursor
	}
	if !p.Ascending {
		slices.Reverse(all)
	}
	all = slices.DeleteFunc(all, func(v catalog.Provider) bool {
		slug := v.Definition.Slug
		return p.After != "" && (slug == p.After || (slug > p.After) != p.Ascending)
	})
	rows, headers := page.Cut(p, all[:min(len(all), p.Fetch())], p.Limit, "",
		func(v *catalog.Provider) string { return v.Definition.Slug }, httpapi.RequestFrom(ctx).URL)
	body := make([]Provider, len(rows))
	for i := range rows {
		body[i] = viewProvider(&rows[i])
	}
	return &listOutput{headers, versionOf(headers, body), body}, nil
}

// versionOf is the version of a response: that of its body and of the next page.
func versionOf(headers page.Headers, body any) httpapi.Versioned {
	return httpapi.Version(etag.Of(headers.NextCursor, body))
}

// Conditions narrow a list of actions. It is exported because only exported embedded structs are documented.
type Conditions struct {
	// Only actions with one of these tags, in any case.
	Tag []string `query:"tag,explode" maxItems:"50" maxLength:"100" example:"issues"`
	// Only actions whose risk is at most this level. `unknown` is as high as `high`.
	MaxRisk risk.Level `query:"max_risk" example:"medium"`
	// Only actions of one of these operations.
	Operation []risk.Operation `query:"operation,explode" maxItems:"5" example:"read"`
	// Only actions with one of these flags.
	Flag []risk.Flag `query:"flag,explode" maxItems:"9" example:"moves_money"`
	// Only deprecated actions, or only others.
	Deprecated []string `query:"deprecated,explode" enum:"true,false" maxItems:"2" example:"false"`
}

func (c *Conditions) domain() *catalog.Conditions {
	return &catalog.Conditions{Tags: c.Tag, MaxRisk: c.MaxRisk, Operations: c.Operation, Flags: c.Flag,
		Deprecated: oneOf(c.Deprecated)}
}

// oneOf reads a filter of a boolean. It is nil for one that selects nothing: without values, or with both.
func oneOf(stated []string) *bool {
	wanted := httpapi.Distinct(stated)
	if len(wanted) != 1 {
		return nil
	}
	is := wanted[0] == "true"
	return &is
}

// Item names a provider in a path. It is exported because only exported embedded structs are documented.
type Item struct {
	// The key of a provider configuration, such as the slug of a provider.
	Provider string `path:"provider" example:"github"`
}

type getInput struct {
	Item
	page.AscendingQuery
	// Text to search actions by.
	Q string `query:"q" maxLength:"10240" example:"create an issue"`
	Conditions
}

type getOutput struct {
	page.Headers
	httpapi.Versioned
	Body providerDetail
}

// Keys of pages: names of actions in their order, and the places of found ones behind a mark that no name has.
const placeMark = "#"

var isPlace = regexp.MustCompile(`^(#[0-9]{1,4}|[a-z][a-z0-9_]{0,47})$`)

func (h *handlers) get(ctx context.Context, in *getInput) (*getOutput, error) {
	p, badCursor := in.Parse(httpapi.PageScope(ctx), isPlace.MatchString)
	detail, set, err := h.catalog.Get(ctx, access.From(ctx).Environment, in.Provider)
	if err != nil {
		return nil, err
	}
	if badCursor != nil {
		return nil, badCursor
	}
	var rows []ActionSummary
	var headers page.Headers
	if strings.TrimSpace(in.Q) == "" {
		listed, err := h.catalog.Page(ctx, set, in.domain(), p.After, p.Ascending, p.Fetch())
		if err != nil {
			return nil, err
		}
		rows, headers = cut(ctx, p, listed, func(_ int, s *catalog.Summary) string { return s.Name })
	} else {
		found, err := h.catalog.Search(ctx, set, in.Q, in.domain())
		if err != nil {
			return nil, err
		}
		rows, headers = cutFound(ctx, p, found)
	}
	body := viewDetail(in.Provider, detail, rows)
	return &getOutput{headers, versionOf(headers, body), body}, nil
}

// cut returns the views of a page.
func cut(ctx context.Context, p page.Request, rows []catalog.Summary,
	key func(i int, s *catalog.Summary) string) ([]ActionSummary, page.Headers) {
	views := make([]ActionSummary, len(rows))
	for i := range rows {
		views[i] = viewSummary(&rows[i])
		views[i].place = key(i, &rows[i])
	}
	return page.Cut(p, views, p.Limit, "", func(s *ActionSummary) string { return s.place },
		httpapi.RequestFrom(ctx).URL)
}

// cutFound returns the page of a search: its key is the number of actions before.
func cutFound(ctx context.Context, p page.Request, found []catalog.Summary) ([]ActionSummary, page.Headers) {
	begin, err := strconv.Atoi(strings.TrimPrefix(p.After, placeMark))
	if err != nil {
		begin = 0
	}
	begin = min(begin, len(found))
	rows := found[begin:min(len(found), begin+p.Fetch())]
	return cut(ctx, p, rows, func(i int, _ *catalog.Summary) string { return placeMark + strconv.Itoa(begin+i+1) })
}

type searchInput struct {
	// The maximum number of actions on a page. Default 50.
	Limit int `query:"limit" minimum:"1" maximum:"250" default:"50"`
	// The position of the page: the `X-Next-Cursor` of the previous page, with the same filters.
	Cursor string `query:"cursor" maxLength:"512"`
	// The text. Without it the first actions come in the order of their providers and names.
	Q string `query:"q" maxLength:"10240" example:"create an issue"`
	// Only actions of these provider configurations.
	Provider []string `query:"provider,explode" maxItems:"50" maxLength:"63" example:"github"`
	Conditions
	// How the actions are described. In another format than `default` each is the definition of a tool, as for a single
	// action, and `limit` is at most 50. Actions whose properties have other names in the format are among them: ask for
	// one of these alone to see the names.
	Format format `query:"format" default:"default" example:"default"`
}

// maxTools is how many definitions of tools a page has.
const maxTools = 50

// Check checks the limit of a page.
func (in *searchInput) Check(_ context.Context, v *apperr.Violations) {
	if in.Format != "" && in.Format != defaultFormat && in.Limit > maxTools {
		v.Add("query.limit", "maximum", fmt.Sprintf("must be at most %d with a format", maxTools))
	}
}

type searchOutput struct {
	page.Headers
	httpapi.Versioned
	Body []listed
}

// listed is the JSON of an action in a list: its summary, or the definition of a tool.
type listed []byte

// MarshalJSON returns the JSON as it is.
func (l listed) MarshalJSON() ([]byte, error) { return l, nil }

// Schema returns the schema of a summary, and of the definition of a tool.
func (listed) Schema(r oas.Registry) *oas.Schema {
	return &oas.Schema{AnyOf: []*oas.Schema{oas.Ref[ActionSummary](r), {Type: "object",
		Description: "The definition of a tool in the format."}}}
}

func (h *handlers) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	query := page.AscendingQuery{Limit: in.Limit, Cursor: in.Cursor}
	p, badCursor := query.Parse(httpapi.PageScope(ctx), isPlace.MatchString)
	found, err := h.catalog.SearchAll(ctx, access.From(ctx).Environment, httpapi.Distinct(in.Provider), in.Q, in.domain())
	if err != nil {
		return nil, err
	}
	if badCursor != nil {
		return nil, badCursor
	}
	rows, headers := cutFound(ctx, p, found)
	body, err := h.listed(ctx, rows, in.Format)
	if err != nil {
		return nil, err
	}
	return &searchOutput{headers, versionOf(headers, body), body}, nil
}

// listed returns actions in a format. Those that are gone since they were found are left out of definitions.
func (h *handlers) listed(ctx context.Context, rows []ActionSummary, f format) ([]listed, error) {
	body := make([]listed, 0, len(rows))
	if f == "" || f == defaultFormat {
		for i := range rows {
			text, err := json.Marshal(&rows[i])
			if err != nil {
				return nil, err //nolint:wrapcheck // a bug
			}
			body = append(body, text)
		}
		return body, nil
	}
	found := make([]catalog.Summary, len(rows))
	for i := range rows {
		found[i] = catalog.Summary{Key: rows[i].Provider, Summary: actions.Summary{Name: rows[i].Action}}
	}
	list, err := h.catalog.FindAll(ctx, access.From(ctx).Environment, found)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		definition, err := render(a, f)
		if err != nil {
			return nil, err
		}
		body = append(body, listed(definition.JSON))
	}
	return body, nil
}

// render returns the definition of a tool in a format that is not the default.
func render(a *catalog.Action, f format) (*toolformat.Definition, error) {
	//nolint:wrapcheck // a bug
	return toolformat.Render(toolformat.Format(f), &toolformat.Tool{Name: a.ToolName(), Action: a.Action, Risk: a.Risk})
}

// format is how an action is described.
type format string

const defaultFormat format = "default"

// Schema returns the schema with the formats.
func (format) Schema(oas.Registry) *oas.Schema {
	all := []format{defaultFormat}
	for _, f := range toolformat.Formats() {
		all = append(all, format(f))
	}
	return oas.Enum(all)
}

type actionInput struct {
	Item
	// The name of the action.
	Name string `path:"action_name" example:"create_issue"`
	// How the action is described:
	// - `default`: all that is known.
	// - `mcp`: a tool of the Model Context Protocol.
	// - `openai`: a function tool of OpenAI's Responses API.
	// - `anthropic`: a tool of Anthropic's Messages API.
	// - `gemini`: a function declaration of Google's Gemini API.
	Format format `query:"format" default:"default" example:"default"`
}

// described is the JSON of an action in any format.
type described []byte

// MarshalJSON returns the JSON as it is.
func (d described) MarshalJSON() ([]byte, error) { return d, nil }

// Schema returns the schema of the default format, and of the definition of a tool.
func (described) Schema(r oas.Registry) *oas.Schema {
	return &oas.Schema{AnyOf: []*oas.Schema{oas.Ref[action](r), {Type: "object",
		Description: "The definition of a tool in the format."}}}
}

type actionOutput struct {
	httpapi.Versioned
	// Names of properties in the tool that are not those of the action: a JSON object from the former to the latter;
	// absent if all are the same.
	Names string `header:"X-Parameter-Names"`
	Body  described
}

// maxNames is the length of the longest header with names, in bytes.
const maxNames = 4 << 10

func (h *handlers) action(ctx context.Context, in *actionInput) (*actionOutput, error) {
	a, err := h.catalog.Find(ctx, access.From(ctx).Environment, in.Provider, in.Name)
	if err != nil {
		return nil, err
	}
	out := &actionOutput{}
	if in.Format == "" || in.Format == defaultFormat {
		if out.Body, err = json.Marshal(viewAction(a)); err != nil {
			return nil, err //nolint:wrapcheck // a bug
		}
	} else {
		definition, err := render(a, in.Format)
		if err != nil {
			return nil, err
		}
		out.Body = described(definition.JSON)
		if len(definition.Names) > 0 {
			names, err := json.Marshal(definition.Names)
			if err != nil {
				return nil, err //nolint:wrapcheck // a bug
			}
			if len(names) <= maxNames { // proxies refuse long headers
				out.Names = string(names)
			}
		}
	}
	out.Versioned = httpapi.Version(etag.Of(string(out.Body)))
	return out, nil
}
