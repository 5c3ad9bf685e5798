package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type catalogCommand struct {
	Search   catalogSearch   `cmd:"" help:"Search the actions of all providers over the API."`
	List     catalogList     `cmd:"" help:"List the providers of the catalog over the API."`
	Show     catalogShow     `cmd:"" help:"Show a provider with its actions, or an action with its inputs and its risk, over the API."`
	Import   catalogImport   `cmd:"" help:"Import a description of an API (OpenAPI, Swagger, Google Discovery or GraphQL), and show what its activation would change."`
	Imports  catalogImports  `cmd:"" help:"List imports, or show one."`
	Diff     catalogDiff     `cmd:"" help:"List the actions that the activation of an import would add, change or remove."`
	Activate catalogActivate `cmd:"" help:"Make an import the version of its provider that the catalog shows."`
	Cancel   catalogCancel   `cmd:"" help:"Cancel an import that has not ended."`
	Remove   catalogRemove   `cmd:"" help:"Remove an import. With an active one its provider leaves the catalog, or the provider that it extends loses its actions."`
}

const catalogPath = "/catalog"

// lengthFlags hold the flags of commands whose lists have one order.
type lengthFlags struct {
	Limit int  `default:"50" placeholder:"N" help:"The maximum number to list."`
	All   bool `help:"List all."`
}

func (f lengthFlags) paging() paging { return paging{Limit: f.Limit, All: f.All} }

// actionFilter holds the flags that narrow a list of actions.
type actionFilter struct {
	Tag        []string `placeholder:"TAG" help:"Only actions with one of these tags."`
	MaxRisk    string   `enum:",low,medium,high,critical" default:"" placeholder:"LEVEL" help:"Only actions whose risk is at most this: low, medium, high, critical. An unknown risk is as high as high."`
	Operation  []string `enum:"read,create,update,delete,opaque" placeholder:"OPERATION" help:"Only actions of these operations: read, create, update, delete, opaque."`
	Flag       []string `placeholder:"FLAG" help:"Only actions with one of these properties, such as moves_money or notifies_people."`
	Deprecated *bool    `negatable:"" help:"Only actions that the provider wants no one to use any more, or only others."`
}

func (f *actionFilter) query() url.Values {
	q := url.Values{"tag": f.Tag, "operation": f.Operation, "flag": f.Flag}
	if f.MaxRisk != "" {
		q.Set("max_risk", f.MaxRisk)
	}
	if f.Deprecated != nil {
		q.Set("deprecated", strconv.FormatBool(*f.Deprecated))
	}
	return q
}

// riskRow holds the properties of a risk that commands show.
type riskRow struct {
	Level      string   `json:"level"`
	Operation  string   `json:"operation"`
	Flags      []string `json:"flags"`
	Source     string   `json:"source"`
	Confidence float64  `json:"confidence"`
	Reasons    []string `json:"reasons"`
}

func riskTone(level string) terminal.Tone {
	switch level {
	case "low":
		return terminal.Good
	case "high", "unknown":
		return terminal.Busy
	case "critical":
		return terminal.Bad
	default:
		return terminal.Plain
	}
}

// requestRow is the method and the path of an action.
type requestRow struct {
	Method string `json:"method"`
	Path   string `json:"path"`
}

// actionRow holds the properties of an action that lists show.
type actionRow struct {
	Provider   string     `json:"provider"`
	Action     string     `json:"action"`
	ToolName   string     `json:"tool_name"`
	Title      string     `json:"title"`
	Tags       []string   `json:"tags"`
	Deprecated bool       `json:"deprecated"`
	HTTP       requestRow `json:"http"`
	Risk       riskRow    `json:"risk"`
}

// actionTable begins a table of actions.
func (e *env) actionTable() *terminal.Table {
	return e.table(terminal.Column{Title: "ACTION", Fixed: true}, terminal.Column{Title: "RISK", Fixed: true,
		Tone: riskTone}, terminal.Column{Title: "REQUEST"}, terminal.Column{Title: "TITLE"})
}

func addAction(t *terminal.Table, row json.RawMessage) error {
	r, err := into[actionRow](row)
	title := r.Title
	if r.Deprecated {
		title = strings.TrimSpace(title + " (deprecated)")
	}
	t.Row(r.Provider+"/"+r.Action, r.Risk.Level, r.HTTP.Method+" "+r.HTTP.Path, title)
	return err
}

type catalogSearch struct {
	Text         []string `arg:"" name:"text" help:"Words to search names, titles, descriptions, tags and paths for."`
	Provider     []string `placeholder:"KEY" help:"Only actions of these providers."`
	actionFilter `embed:""`
	Limit        int  `default:"20" placeholder:"N" help:"The maximum number to list."`
	All          bool `help:"List all that the server finds, the best 250."`
	apiFlags     `embed:""`
}

// Run lists the actions that match best, the best first.
func (c *catalogSearch) Run(ctx context.Context, e *env) error {
	q := c.query()
	q.Set("q", strings.Join(c.Text, " "))
	q["provider"] = c.Provider
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		n, err := e.rows(ctx, api, apiclient.Request{Path: "/actions", Query: q}, paging{Limit: c.Limit, All: c.All}, c.JSON,
			"actions", e.actionTable(), addAction)
		if err == nil && n == 0 && !c.JSON {
			e.note("No action matches. `sallyport catalog list` lists the providers, and `sallyport catalog import` adds one.")
		}
		return err
	})
}

// providerRow holds the properties of a provider that the catalog's commands show.
type providerRow struct {
	Provider    string   `json:"provider"`
	DisplayName string   `json:"display_name"`
	Categories  []string `json:"categories"`
	DocsURL     *string  `json:"docs_url"`
	AuthModes   []string `json:"auth_modes"`
	Actions     int      `json:"actions_count"`
	Source      string   `json:"source"`
	ImportID    *string  `json:"import_id"`
	Keys        []string `json:"provider_config_keys"`
	Version     string   `json:"version"`
}

// source says where the definition and further actions come from.
func (r *providerRow) source() string {
	switch {
	case r.ImportID == nil:
		return r.Source
	case r.Source == "openapi":
		return *r.ImportID
	default:
		return r.Source + " and " + *r.ImportID
	}
}

type catalogList struct {
	Q           string   `name:"q" placeholder:"TEXT" help:"Only providers whose names or categories contain these words."`
	Category    []string `placeholder:"CATEGORY" help:"Only providers of one of these categories."`
	AuthMode    []string `placeholder:"MODE" help:"Only providers that know one of these modes of authentication, such as oauth2."`
	Source      []string `enum:"builtin,manual,openapi" placeholder:"SOURCE" help:"Only providers that ship (builtin), that are the operator's (manual) or that an import made (openapi)."`
	lengthFlags `embed:""`
	apiFlags    `embed:""`
}

// Run lists the providers, in the order of their slugs.
func (c *catalogList) Run(ctx context.Context, e *env) error {
	q := url.Values{"category": c.Category, "auth_mode": c.AuthMode, "source": c.Source}
	if c.Q != "" {
		q.Set("q", c.Q)
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "PROVIDER", Fixed: true}, terminal.Column{Title: "NAME"},
			terminal.Column{Title: "ACTIONS"}, terminal.Column{Title: "AUTH"}, terminal.Column{Title: "CATEGORIES"},
			terminal.Column{Title: "SOURCE"})
		return e.list(ctx, api, apiclient.Request{Path: catalogPath, Query: q}, c.paging(), c.JSON, "providers", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[providerRow](row)
				t.Row(r.Provider, r.DisplayName, strconv.Itoa(r.Actions), strings.Join(r.AuthModes, " "),
					strings.Join(r.Categories, " "), r.source())
				return err
			})
	})
}
