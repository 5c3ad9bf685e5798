package cataloghttp

import (
	"encoding/json"
	"maps"
	"slices"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/toolformat"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

// Provider is the wire form of a provider in a list. It is exported because only exported embedded structs are
// documented.
type Provider struct {
	// The slug of the provider.
	Provider string `json:"provider" example:"github"`
	// The provider's own spelling of its name.
	DisplayName string `json:"display_name" example:"GitHub"`
	// The categories of the provider.
	Categories []string `json:"categories" example:"[\"developer-tools\"]"`
	// The documentation that the definition was written from; `null` if an import has made it and its document names none.
	DocsURL *string `json:"docs_url" example:"https://docs.github.com/en/rest"`
	// The modes of authentication that connections can have.
	AuthModes []string `json:"auth_modes" example:"[\"oauth2\", \"bearer\"]"`
	// Whether the provider sends webhooks that can be verified.
	Webhooks bool `json:"webhooks" example:"true"`
	// The number of actions: of the provider in a list, and of those that the provider configuration offers in the
	// provider itself.
	ActionsCount int `json:"actions_count" example:"25"`
	// The number of triggers. There are none yet.
	TriggersCount int `json:"triggers_count" example:"0"`
	// Where the definition comes from:
	// - `builtin`: it ships.
	// - `manual`: the operator wrote it.
	// - `openapi`: an import made it from a description of the API.
	Source source `json:"source" example:"builtin"`
	// The id of the active import that defines the provider or adds actions to it; `null` if there is none.
	ImportID *string `json:"import_id" example:"imp_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Whether the environment has a provider configuration of the provider.
	Configured bool `json:"configured" example:"false"`
	// The keys of the provider configurations that connections can name, the slug among them.
	ProviderConfigKeys []string `json:"provider_config_keys" example:"[\"github\"]"`
	// The version of the provider's actions: another version may have others.
	Version string `json:"version" example:"3f1c0a9be2d4f6a8"`
}

func viewProvider(p *catalog.Provider) Provider {
	d := &p.Definition
	return Provider{Provider: d.Slug, DisplayName: d.DisplayName, Categories: append([]string{}, d.Categories...),
		DocsURL: httpapi.NullIfEmpty(d.DocsURL), AuthModes: append([]string{}, p.AuthModes()...),
		Webhooks: p.Webhooks != nil, ActionsCount: p.Actions, Source: source(p.Origin),
		ImportID: httpapi.NullIfEmpty(p.Import), Configured: p.Configured, ProviderConfigKeys: p.Keys, Version: p.Version()}
}

// providerDetail is the wire form of a provider with a page of its actions.
type providerDetail struct {
	Provider
	// The key of the provider configuration whose actions follow.
	ProviderConfigKey string `json:"provider_config_key" example:"github"`
	// Other names by which people look for the provider.
	Aliases []string `json:"aliases"`
	// The base URLs of the API, as templates; empty if no requests are made to the provider.
	BaseURLs []string `json:"base_urls" example:"[\"https://api.github.com\"]"`
	// The hosts that may get credentials; `*` is one label.
	AllowedHosts []string `json:"allowed_hosts" example:"[\"api.github.com\"]"`
	// The values that a connection has besides its credentials, as a JSON Schema (2020-12) of `connection_config`.
	ConnectionConfig map[string]any `json:"connection_config"`
	// How connections authenticate; the first is the default.
	Auth []authMode `json:"auth"`
	// The meaning of OAuth scopes, by their names, as far as the definition says it.
	Scopes map[string]string `json:"scopes"`
	// How webhooks are set up at the provider, in Markdown; `null` if it sends none that can be verified.
	WebhookSetup *string `json:"webhook_setup"`
	// A page of the actions.
	Actions []ActionSummary `json:"actions"`
}

type authMode struct {
	// The name of the mode, as connections have it in `auth_mode`.
	Name string `json:"name" example:"token"`
	// The kind of the mode.
	Mode outbound.Kind `json:"mode" example:"bearer"`
	// A title for people.
	Title string `json:"title" example:"Personal access token"`
	// A description for people; `null` if there is none.
	Description *string `json:"description"`
	// The provider's documentation of it; `null` if there is none.
	DocsURL *string `json:"docs_url"`
	// The steps that an operator takes first, in Markdown; `null` if there are none.
	Setup *string `json:"setup"`
	// The credentials of a connection, as a JSON Schema (2020-12).
	Credentials map[string]any `json:"credentials"`
	// Whether the mode needs an OAuth client in the provider configuration.
	OAuthClient bool `json:"oauth_client" example:"true"`
	// The OAuth client of the provider configuration; `null` if the mode needs none.
	Client httpapi.OrNull[oauthClient] `json:"client"`
	// The scopes that are requested by default.
	DefaultScopes []string `json:"default_scopes"`
	// Whether a connection can be tested.
	Tested bool `json:"tested" example:"true"`
}

type oauthClient struct {
	// Whether the provider configuration has an OAuth client. Without one no connection can be made in this mode.
	Configured bool `json:"configured" example:"false"`
	// Whether the secrets of a client go only to hosts that `oauth.hosts` of the provider configuration lists. That is so
	// for a provider that an import defines, because any user who may import chooses its hosts, and where a setting of
	// each connection names the host. The hosts of other definitions need not be listed.
	HostsRequired bool `json:"hosts_required" example:"true"`
	// The hosts to list, as far as they are the same for all connections.
	Hosts []string `json:"hosts" example:"[\"auth.acme.example\"]"`
	// Those of `hosts` that the provider configuration does not list. Secrets of a client are not sent there; a client
	// without any needs none of them.
	MissingHosts []string `json:"missing_hosts" example:"[\"auth.acme.example\"]"`
}

func viewClient(c *catalog.OAuthClient) (out httpapi.OrNull[oauthClient]) {
	if c != nil {
		out.Value = &oauthClient{c.Configured, c.HostsRequired, append([]string{}, c.Hosts...),
			append([]string{}, c.Missing...)}
	}
	return out
}

func viewDetail(key string, p *catalog.Provider, rows []ActionSummary) providerDetail {
	out := providerDetail{Provider: viewProvider(p), ProviderConfigKey: key, Aliases: []string{}, BaseURLs: []string{},
		AllowedHosts: []string{}, ConnectionConfig: schemaOf(nil, nil), Auth: []authMode{}, Scopes: map[string]string{},
		Actions: rows}
	s := p.Summary()
	out.Aliases = append(out.Aliases, s.Aliases...)
	if s.Webhooks != nil {
		out.WebhookSetup = &s.Webhooks.Setup
	}
	o := s.Outbound
	if o == nil {
		return out
	}
	out.BaseURLs, out.AllowedHosts = append(out.BaseURLs, o.BaseURLs...), append(out.AllowedHosts, o.AllowedHosts...)
	out.ConnectionConfig = schemaOf(o.Config, nil)
	maps.Copy(out.Scopes, o.Scopes)
	for i := range o.Modes {
		m := &o.Modes[i]
		out.Auth = append(out.Auth, authMode{Name: m.Name, Mode: m.Mode, Title: m.Title,
			Description: httpapi.NullIfEmpty(m.Description), DocsURL: httpapi.NullIfEmpty(m.DocsURL),
			Setup: httpapi.NullIfEmpty(m.Setup), Credentials: schemaOf(m.Credentials, &m.Name), OAuthClient: m.Client,
			Client:        viewClient(p.OAuthClient(m.Name)),
			DefaultScopes: append([]string{}, m.DefaultScopes...), Tested: m.Tested})
	}
	return out
}

// schemaOf returns a JSON Schema of fields. mode is that for which a value is required; nil for any.
func schemaOf(fields []registry.FieldSummary, mode *string) map[string]any {
	properties := map[string]any{}
	required := []string{}
	for i := range fields {
		f := &fields[i]
		property := map[string]any{"title": f.Title}
		switch f.Type {
		case outbound.TypeInteger:
			property["type"] = "integer"
		case outbound.TypeBoolean:
			property["type"] = "boolean"
		case outbound.TypeURL:
			property["type"], property["format"] = "string", "uri"
		default:
			property["type"] = "string"
		}
		for name, value := range map[string]string{"description": f.Description, "default": f.Default} {
			if value != "" {
				property[name] = value
			}
		}
		if f.Pattern != "" {
			property["pattern"] = "^(?:" + f.Pattern + ")$"
		}
		if f.Example != "" {
			property["examples"] = []string{f.Example}
		}
		if len(f.Enum) > 0 {
			property["enum"] = f.Enum
		}
		if f.Secret {
			property["writeOnly"] = true
		}
		properties[f.Name] = property
		optional := f.Optional || f.Minted || f.Default != "" || f.Source != "" && f.Source != outbound.SourceUser
		if !optional || mode != nil && slices.Contains(f.RequiredFor, *mode) {
			required = append(required, f.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
}

// ActionSummary is the wire form of an action in a list. It is exported because only exported embedded structs are
// documented.
type ActionSummary struct {
	// The key of the provider configuration.
	Provider string `json:"provider" example:"github"`
	// The name of the action.
	Action string `json:"action" example:"create_issue"`
	// The name of the action as a tool, which is unique among those of all providers.
	ToolName string `json:"tool_name" example:"github__create_issue"`
	// A title for people; empty if there is none.
	Title string `json:"title" example:"Create an issue"`
	// The beginning of the description, on one line; empty if there is none.
	Summary string `json:"summary" example:"Opens an issue in a repository."`
	// The tags of the action.
	Tags []string `json:"tags" example:"[\"issues\"]"`
	// Whether the provider wants no one to use the action any more.
	Deprecated bool `json:"deprecated" example:"false"`
	// The request.
	HTTP request `json:"http"`
	// The risk, without its reasons.
	Risk RiskSummary `json:"risk"`

	place string
}

type request struct {
	// The method.
	Method string `json:"method" example:"POST"`
	// The path below the base URL, with the names of parameters in braces.
	Path string `json:"path" example:"/repos/{owner}/{repo}/issues"`
}

// RiskSummary is the wire form of a risk in a list. It is exported because only exported embedded structs are
// documented.
type RiskSummary struct {
	// How much harm the action can do. `unknown` is as high as `high`.
	Level risk.Level `json:"level" example:"medium"`
	// The effect on the provider's data.
	Operation risk.Operation `json:"operation" example:"create"`
	// Properties of the action that matter for its risk.
	Flags []risk.Flag `json:"flags" example:"[\"notifies_people\"]"`
	// The statement that decided the level.
	Source risk.Source `json:"source" example:"definition"`
	// How often actions that look like this one are what they look like, from 0 to 1.
	Confidence float64 `json:"confidence" example:"1"`
}

func viewRisk(r *risk.Risk) RiskSummary {
	return RiskSummary{r.Level, r.Operation, append([]risk.Flag{}, r.Flags...), r.Source, r.Confidence}
}

func viewSummary(s *catalog.Summary) ActionSummary {
	return ActionSummary{Provider: s.Key, Action: s.Name, ToolName: s.ToolName(), Title: s.Title,
		Summary: s.Description, Tags: append([]string{}, s.Tags...), Deprecated: s.Deprecated,
		HTTP: request{s.Method, s.Path},
		Risk: viewRisk(&s.Risk)}
}

// action is the wire form of an action.
type action struct {
	ActionSummary
	// The version of the provider's actions that the action is of.
	Version string `json:"version" example:"3f1c0a9be2d4f6a8"`
	// A description, possibly in Markdown; empty if there is none.
	Description string `json:"description"`
	// The provider's page about it; `null` if none is known.
	DocsURL *string `json:"docs_url" example:"https://docs.github.com/en/rest/issues/issues#create-an-issue"`
	// Where the path begins, in place of the provider's `base_urls`: a template, in which `${config.name}` is a setting of
	// the connection. `null` for an action of the provider's base URL.
	BaseURL *string `json:"base_url" example:"https://sheets.googleapis.com"`
	// The input: a JSON Schema (2020-12) of one flat object.
	InputSchema schema `json:"input_schema"`
	// The output of a successful call: a JSON Schema (2020-12); `null` if it is not known.
	OutputSchema schema `json:"output_schema"`
	// Where each property of the input goes in the request.
	ParameterMap []parameter `json:"parameter_map"`
	// The body of the request; `null` if it has none.
	Body httpapi.OrNull[requestBody] `json:"body"`
	// The OAuth scopes that permit the call: each list is enough.
	Scopes [][]string `json:"scopes" example:"[[\"repo\"]]"`
	// How the provider recognises a call that it has had; `null` if it does not.
	Idempotency httpapi.OrNull[idempotency] `json:"idempotency"`
	// How the list that the action returns is continued; `null` if it returns none in pages.
	Pagination httpapi.OrNull[pagination] `json:"pagination"`
	// The risk.
	Risk riskDetail `json:"risk"`
	// Hints for clients of models, as the Model Context Protocol has them.
	Annotations annotations `json:"annotations"`
	// The provider's declared limits of requests.
	Limits []limit `json:"limits"`
}

// schema is a JSON Schema.
type schema json.RawMessage

// MarshalJSON returns the schema, or null.
func (s schema) MarshalJSON() ([]byte, error) {
	if len(s) == 0 {
		return []byte("null"), nil
	}
	return s, nil
}

// Schema returns the schema of schemas.
func (schema) Schema(oas.Registry) *oas.Schema { return &oas.Schema{} }

type parameter struct {
	// The property of the input.
	Property string `json:"property" example:"owner"`
	// The place in the request: `path`, `query`, `header`, `body` for a member of the body, or `whole_body`.
	In string `json:"in" example:"path"`
	// The name there.
	Name string `json:"name" example:"owner"`
	// How arrays and objects are written, as OpenAPI 3 names it; empty for the default of the place.
	Style string `json:"style,omitempty"`
	// Whether each item is a parameter of its own.
	Explode bool `json:"explode,omitempty"`
	// Whether the value is written as JSON.
	JSON bool `json:"json,omitempty"`
	// Whether slashes in a value of the path stay. Values with a segment that is empty, `.` or `..` are refused.
	Reserved bool `json:"reserved,omitempty"`
}

type pagination struct {
	// How the next page is requested: `link` follows the header `Link` (RFC 8288), and `body_link` a URL in the response;
	// `cursor` sends a value of the response, `offset` the number of items so far, and `page` the number of the page.
	Type actions.PageType `json:"type" example:"link"`
	// A JSON pointer (RFC 6901) to the items in a response; empty if the response is the list.
	Items string `json:"items" example:"/data"`
	// The property of the input that asks for the next page: a cursor, an offset or a number; empty for links.
	Parameter string `json:"parameter,omitempty" example:"cursor"`
	// The property of the input with the number of items of a page; empty if there is none.
	Size string `json:"size,omitempty" example:"limit"`
	// The greatest number of items of a page; 0 if it is not known.
	MaxSize int `json:"max_size,omitempty" example:"100"`
	// A JSON pointer to the cursor or the URL of the next page; the list ends where it is absent, null or empty.
	Next string `json:"next,omitempty" example:"/response_metadata/next_cursor"`
	// Whether the next cursor is `next` within the last item.
	NextOfLast bool `json:"next_of_last,omitempty"`
	// A JSON pointer to a boolean that is false on the last page; empty if there is none.
	More string `json:"more,omitempty" example:"/has_more"`
	// The number of the first page, for pages by number.
	First int `json:"first,omitempty" example:"1"`
}

type idempotency struct {
	// The name of the request header that takes a key.
	Header string `json:"header" example:"Idempotency-Key"`
}

type requestBody struct {
	// The media type.
	ContentType string `json:"content_type" example:"application/json"`
	// Whether a call without a body is not valid.
	Required bool `json:"required" example:"true"`
	// The text of a GraphQL operation, which is sent with the members of the body as its variables; empty for other calls.
	GraphQL string `json:"graphql,omitempty"`
}

// riskDetail is the wire form of a risk.
type riskDetail struct {
	RiskSummary
	// Why, in sentences for people; the reason that decided is the first.
	Reasons []string `json:"reasons" example:"[\"POST makes a change.\"]"`
}

type annotations struct {
	// The title.
	Title string `json:"title,omitempty" example:"Create an issue"`
	// Whether the action changes nothing.
	ReadOnlyHint bool `json:"readOnlyHint" example:"false"`
	// Whether the action may destroy something.
	DestructiveHint bool `json:"destructiveHint" example:"false"`
	// Whether calling it twice does no more than calling it once.
	IdempotentHint bool `json:"idempotentHint" example:"false"`
	// Whether it reaches beyond this service, which all actions do.
	OpenWorldHint bool `json:"openWorldHint" example:"true"`
}

type limit struct {
	// The number of requests within `per_seconds`.
	Requests int64 `json:"requests" example:"5000"`
	// The length of the time, in seconds.
	PerSeconds int64 `json:"per_seconds" example:"3600"`
}

func viewAction(a *catalog.Action) action {
	hints := toolformat.HintsOf(&a.Risk)
	out := action{
		ActionSummary: ActionSummary{Provider: a.Key, Action: a.Name, ToolName: a.ToolName(), Title: a.Title,
			Summary: actions.Shorten(a.Description), Tags: append([]string{}, a.Tags...),
			Deprecated: a.Deprecated, HTTP: request{a.Method, a.Path}},
		Version: a.Version, Description: a.Description, DocsURL: httpapi.NullIfEmpty(a.DocsURL),
		BaseURL: httpapi.NullIfEmpty(a.BaseURL), InputSchema: schema(a.Input), OutputSchema: schema(a.Output),
		ParameterMap: []parameter{}, Scopes: append([][]string{}, a.Scopes...),
		Idempotency: httpapi.OrNull[idempotency]{Value: (*idempotency)(a.Idempotency)},
		Pagination:  httpapi.OrNull[pagination]{Value: (*pagination)(a.Pagination)},
		Risk:        riskDetail{viewRisk(&a.Risk), append([]string{}, a.Risk.Reasons...)},
		Annotations: annotations{a.Title, hints.ReadOnly, hints.Destructive, hints.Idempotent, hints.OpenWorld},
		Limits:      []limit{},
	}
	for _, p := range a.Parameters {
		out.ParameterMap = append(out.ParameterMap, parameter{Property: p.Property, In: string(p.Place), Name: p.Name,
			Style: p.Style, Explode: p.Explode, JSON: p.JSON, Reserved: p.Reserved})
	}
	if a.Body.ContentType != "" {
		out.Body.Value = &requestBody{a.Body.ContentType, a.Body.Required, a.Body.GraphQL}
	}
	for _, l := range a.Limits() {
		out.Limits = append(out.Limits, limit(l))
	}
	return out
}
