package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type catalogShow struct {
	Provider     string `arg:"" name:"provider" help:"The provider, or the key of a provider configuration; with /ACTION or as the name of a tool it is an action, too."`
	Action       string `arg:"" optional:"" name:"action" help:"The action."`
	Format       string `enum:",mcp,openai,anthropic,gemini" default:"" placeholder:"FORMAT" help:"Print the action as the definition of a tool: mcp, openai, anthropic, gemini."`
	Q            string `name:"q" placeholder:"TEXT" help:"Only the provider's actions that match this text, the best first."`
	actionFilter `embed:""`
	lengthFlags  `embed:""`
	apiFlags     `embed:""`
}

// toolSeparator is between the provider and the action in the name of a tool.
const toolSeparator = "__"

// Run shows the provider or the action.
func (c *catalogShow) Run(ctx context.Context, e *env) error {
	provider, action := c.Provider, c.Action
	for _, separator := range []string{"/", toolSeparator} {
		if before, after, found := strings.Cut(provider, separator); found && action == "" {
			provider, action = before, after
		}
	}
	switch {
	case action == "" && c.Format != "":
		return usageError("--format needs an action: sallyport catalog show PROVIDER ACTION --format " + c.Format)
	case action != "" && c.Q != "":
		return usageError("--q searches the actions of a provider and can't be used with an action")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		if action != "" {
			return c.showAction(ctx, e, api, "/actions"+apiclient.Path(provider, action))
		}
		return c.showProvider(ctx, e, api, catalogPath+apiclient.Path(provider))
	})
}

// providerDetail holds the properties of a provider that commands show.
type providerDetail struct {
	providerRow
	ConfigKey    string         `json:"provider_config_key"`
	BaseURLs     []string       `json:"base_urls"`
	AllowedHosts []string       `json:"allowed_hosts"`
	Connection   objectSchema   `json:"connection_config"`
	Auth         []authModeRow  `json:"auth"`
	Rows         []actionOfList `json:"actions"`
}

// actionOfList is the JSON of an action in a list.
type actionOfList = json.RawMessage

type authModeRow struct {
	Name        string       `json:"name"`
	Mode        string       `json:"mode"`
	Title       string       `json:"title"`
	Credentials objectSchema `json:"credentials"`
	OAuthClient bool         `json:"oauth_client"`
	Client      *clientRow   `json:"client"`
}

// clientRow is the OAuth client of a provider configuration.
type clientRow struct {
	Configured    bool     `json:"configured"`
	HostsRequired bool     `json:"hosts_required"`
	Hosts         []string `json:"hosts"`
	MissingHosts  []string `json:"missing_hosts"`
}

// text says what is missing; empty for nothing.
func (c *clientRow) text() string {
	if c == nil {
		return ""
	}
	var out []string
	if !c.Configured {
		out = append(out, "not configured")
	}
	switch {
	case len(c.MissingHosts) > 0:
		out = append(out, "needs --oauth-host "+strings.Join(c.MissingHosts, ","))
	case c.HostsRequired && len(c.Hosts) == 0:
		out = append(out, "needs --oauth-host with the hosts that connections name")
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// showProvider shows a provider with as many of its actions as are wanted. A page has at most 250.
func (c *catalogShow) showProvider(ctx context.Context, e *env, api *apiclient.Client, path string) error {
	if c.Limit < 1 {
		return usageError("--limit must be at least 1")
	}
	q := c.query()
	if c.Q != "" {
		q.Set("q", c.Q)
	}
	first, rows, more, err := c.pages(ctx, api, path, q)
	if err != nil {
		return err
	}
	if c.JSON {
		return printWith(e, first, "actions", array(rows))
	}
	p, err := into[providerDetail](first)
	if err != nil {
		return err
	}
	if err := p.print(e); err != nil {
		return err
	}
	t := e.actionTable()
	for _, row := range rows {
		if err := addAction(t, row); err != nil {
			return err
		}
	}
	if err := e.section("Actions", len(rows), t); err != nil {
		return err
	}
	if more {
		e.note("There are more actions. --limit shows more, --all shows all, and --q searches them.")
	}
	return nil
}

// pages reads the provider, and its actions from as many pages as needed.
func (c *catalogShow) pages(ctx context.Context, api *apiclient.Client, path string,
	q url.Values) (first json.RawMessage, rows []json.RawMessage, more bool, err error) {
	const maxPage = 250
	for {
		size := maxPage
		if !c.All {
			size = min(size, c.Limit-len(rows))
		}
		q.Set("limit", strconv.Itoa(size))
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: path, Query: q})
		if err != nil {
			return nil, nil, false, err
		}
		p, err := into[providerDetail](a.Body)
		if err != nil {
			return nil, nil, false, err
		}
		if first == nil {
			first = a.Body
		}
		rows = append(rows, p.Rows...)
		next := a.Header.Get("X-Next-Cursor")
		switch {
		case next == "":
			return first, rows, false, nil
		case !c.All && len(rows) >= c.Limit:
			return first, rows, true, nil
		case next == q.Get("cursor"):
			return nil, nil, false, apiclient.ErrForeign
		}
		q.Set("cursor", next)
	}
}

// printWith prints a JSON object with another value of one of its members.
func printWith(e *env, object json.RawMessage, name string, value json.RawMessage) error {
	members, err := into[map[string]json.RawMessage](object)
	if err != nil {
		return err
	}
	members[name] = value
	text, err := json.Marshal(members)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return printRaw(e.stdout, text)
}

func (p *providerDetail) print(e *env) error {
	fields := [][2]string{{"Provider", p.Provider}, {"Name", p.DisplayName}}
	if p.ConfigKey != p.Provider {
		fields = append(fields, [2]string{"Configuration", p.ConfigKey})
	}
	fields = append(fields, [][2]string{{"Categories", strings.Join(p.Categories, " ")}, {"Source", p.source()},
		{"Documentation", value(p.DocsURL)}, {"Base URL", strings.Join(p.BaseURLs, " ")},
		{"Hosts", strings.Join(p.AllowedHosts, " ")}, {"Settings", p.Connection.names()}}...)
	for i := range p.Auth {
		m := &p.Auth[i]
		text := m.Name
		if m.Title != "" {
			text += " (" + m.Title + ")"
		}
		if m.OAuthClient {
			text += ", with your OAuth client" + m.Client.text()
		}
		if names := m.Credentials.names(); names != "" {
			text += ": " + names
		}
		fields = append(fields, [2]string{"Auth mode", text})
	}
	return e.printFields(append(fields, [][2]string{{"Version", p.Version},
		{"Actions", strconv.Itoa(p.Actions)}}...))
}

// actionDetail holds the properties of an action that commands show.
type actionDetail struct {
	actionRow
	Version      string           `json:"version"`
	Description  string           `json:"description"`
	DocsURL      *string          `json:"docs_url"`
	BaseURL      *string          `json:"base_url"`
	Input        objectSchema     `json:"input_schema"`
	Output       json.RawMessage  `json:"output_schema"`
	ParameterMap []parameterRow   `json:"parameter_map"`
	Scopes       [][]string       `json:"scopes"`
	Body         *bodyRow         `json:"body"`
	Idempotency  *idempotencyRow  `json:"idempotency"`
	Pagination   *paginationRow   `json:"pagination"`
	Limits       []limitOfRequest `json:"limits"`
}

type bodyRow struct {
	ContentType string `json:"content_type"`
}

type idempotencyRow struct {
	Header string `json:"header"`
}

type paginationRow struct {
	Type      string `json:"type"`
	Parameter string `json:"parameter"`
	Size      string `json:"size"`
	MaxSize   int    `json:"max_size"`
}

func (p *paginationRow) text() string {
	if p == nil {
		return ""
	}
	text := p.Type
	if p.Parameter != "" {
		text += " in " + p.Parameter
	}
	if p.Size != "" {
		text += ", size in " + p.Size
	}
	if p.MaxSize > 0 {
		text += " up to " + strconv.Itoa(p.MaxSize)
	}
	return text
}

type limitOfRequest struct {
	Requests   int64 `json:"requests"`
	PerSeconds int64 `json:"per_seconds"`
}

// parameterRow says where a property of the input goes.
type parameterRow struct {
	Property string `json:"property"`
	In       string `json:"in"`
	Name     string `json:"name"`
}

func (p *parameterRow) place() string {
	in := strings.ReplaceAll(p.In, "_", " ")
	if p.Name == "" || p.Name == p.Property || strings.TrimPrefix(p.Name, "/") == p.Property {
		return in
	}
	return in + ": " + p.Name
}

// showAction shows an action, or prints the definition of a tool.
func (c *catalogShow) showAction(ctx context.Context, e *env, api *apiclient.Client, path string) error {
	q := url.Values{}
	if c.Format != "" {
		q.Set("format", c.Format)
	}
	a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: path, Query: q})
	if err != nil {
		return err
	}
	if c.Format != "" {
		if names := a.Header.Get("X-Parameter-Names"); names != "" {
			e.note("Some properties have other names in the tool than in the action: %s", terminal.Inline(names))
		}
		return printRaw(e.stdout, a.Body)
	}
	if c.JSON {
		return printRaw(e.stdout, a.Body)
	}
	d, err := into[actionDetail](a.Body)
	if err != nil {
		return err
	}
	return d.print(e)
}

func (d *actionDetail) print(e *env) error {
	deprecated, body, idempotency, limits := "", "", "", make([]string, len(d.Limits))
	if d.Deprecated {
		deprecated = "the provider wants no one to use it any more"
	}
	if d.Body != nil {
		body = d.Body.ContentType
	}
	if d.Idempotency != nil {
		idempotency = "by a key in the header " + d.Idempotency.Header
	}
	for i, l := range d.Limits {
		limits[i] = fmt.Sprintf("%d requests per %d seconds", l.Requests, l.PerSeconds)
	}
	fields := [][2]string{{"Action", d.Provider + "/" + d.Action}, {"Tool name", d.ToolName}, {"Title", d.Title},
		{"Deprecated", deprecated}, {"Request", d.HTTP.Method + " " + d.HTTP.Path},
		{"Base URL", value(d.BaseURL)}, {"Body", body}, {"Risk", d.Risk.text()}}
	for i, reason := range d.Risk.Reasons {
		name := "Reason"
		if i > 0 {
			name = "Also"
		}
		fields = append(fields, [2]string{name, reason})
	}
	scopes := make([]string, len(d.Scopes))
	for i, together := range d.Scopes {
		scopes[i] = strings.Join(together, " ")
	}
	fields = append(fields, [][2]string{{"Scopes", strings.Join(scopes, ", or ")}, {"Tags", strings.Join(d.Tags, " ")},
		{"Pagination", d.Pagination.text()}, {"Idempotency", idempotency}, {"Limits", strings.Join(limits, ", ")},
		{"Documentation", value(d.DocsURL)}, {"Version", d.Version}}...)
	if err := e.printFields(fields); err != nil {
		return err
	}
	if text := strings.TrimSpace(d.Description); text != "" {
		if _, err := fmt.Fprintf(e.stdout, "\nDescription\n%s\n", terminal.Text(text)); err != nil {
			return err
		}
	}
	if err := e.printInputs(d); err != nil {
		return err
	}
	if kind := typeOf(d.Output, 0); len(d.Output) > 0 && string(d.Output) != "null" {
		_, err := fmt.Fprintf(e.stdout, "\nOutput: %s; --json prints its schema\n", terminal.Inline(kind))
		return err
	}
	return nil
}

func (r *riskRow) text() string {
	text := r.Level + " (" + r.Operation
	for _, flag := range r.Flags {
		text += ", " + flag
	}
	text += "), by " + strings.ReplaceAll(r.Source, "_", " ")
	if r.Confidence < 1 {
		text += fmt.Sprintf(" with confidence %.2g", r.Confidence)
	}
	return text
}
