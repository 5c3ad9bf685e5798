package registry

import (
	"maps"
	"slices"
	"strings"

	"sallyport/internal/providers/outbound"
)

// OutboundSummary describes requests to a provider. Texts are as the definition has them.
type OutboundSummary struct {
	// BaseURLs are templates; several are an order of fall-backs. Modes can have others.
	BaseURLs []string `json:"base_urls"`
	// AllowedHosts are the hosts that may get credentials; * is one label.
	AllowedHosts []string `json:"allowed_hosts"`
	// Config are the fields of connection_config.
	Config []FieldSummary `json:"connection_config"`
	// Modes are the ways to authenticate; the first is the default.
	Modes []ModeSummary `json:"auth_modes"`
	// Scopes says in words what OAuth scopes permit.
	Scopes map[string]string `json:"scopes,omitempty"`
	// Limits are what the provider's documentation says about the number of requests.
	Limits LimitsSummary `json:"limits"`
}

// LimitsSummary describes the limits of a provider, as the definition has them.
type LimitsSummary struct {
	Budgets []BudgetSummary `json:"budgets"`
	// Retried are the statuses after which a later attempt may succeed, and Waits the headers that say when.
	Retried []string `json:"retry_statuses"`
	Waits   []string `json:"wait_headers"`
	// Learned are the headers that say how many requests are left.
	Learned []string `json:"remaining_headers"`
	// MaxWait is the longest wait that a request waits out; empty for none.
	MaxWait string `json:"max_wait,omitempty"`
}

// BudgetSummary is a number of requests in a time.
type BudgetSummary struct {
	Requests int                  `json:"requests"`
	Per      string               `json:"per"`
	Scope    outbound.BudgetScope `json:"scope"`
}

// ModeSummary describes a way to authenticate.
type ModeSummary struct {
	Name        string        `json:"name"`
	Mode        outbound.Kind `json:"mode"`
	Title       string        `json:"title"`
	Description string        `json:"description,omitempty"`
	DocsURL     string        `json:"docs_url,omitempty"`
	// BaseURLs replace those of the provider; empty if the mode has none of its own.
	BaseURLs []string `json:"base_urls,omitempty"`
	// Setup is Markdown for operators.
	Setup string `json:"setup,omitempty"`
	// Credentials are its fields.
	Credentials []FieldSummary `json:"credentials"`
	// Config names the fields of connection_config that its requests use.
	Config []string `json:"connection_config"`
	// Client reports that the mode needs an OAuth client in the provider config.
	Client bool `json:"oauth_client"`
	// DefaultScopes are requested if neither a link nor the provider config names others.
	DefaultScopes []string `json:"default_scopes,omitempty"`
	// Tested reports that a connection can be tested.
	Tested bool `json:"tested"`
	// Probes are the requests of a test.
	Probes []string `json:"probes"`
}

// FieldSummary describes a value that a connection may have.
type FieldSummary struct {
	Name        string             `json:"name"`
	Title       string             `json:"title"`
	Description string             `json:"description,omitempty"`
	Type        outbound.FieldType `json:"type"`
	Secret      bool               `json:"secret"`
	Optional    bool               `json:"optional"`
	// RequiredFor names the modes in which a user has to give a value all the same.
	RequiredFor []string             `json:"required_for,omitempty"`
	Pattern     string               `json:"pattern,omitempty"`
	Example     string               `json:"example,omitempty"`
	Enum        []string             `json:"enum,omitempty"`
	Default     string               `json:"default,omitempty"`
	Suffix      string               `json:"suffix,omitempty"`
	Source      outbound.FieldSource `json:"source,omitempty"`
	// Minted values come from the provider's token endpoint, and no one enters them.
	Minted bool `json:"minted,omitempty"`
}

func summarizeOutbound(e *outbound.Engine) *OutboundSummary {
	s := &OutboundSummary{BaseURLs: e.BaseURLs(), AllowedHosts: e.AllowedHosts(),
		Config: summarizeFields(e.ConfigFields()), Modes: []ModeSummary{}}
	for _, m := range e.Modes() {
		s.Scopes = maps.Clone(m.Scopes)
		mode := ModeSummary{Name: m.Name, Mode: m.Kind, DefaultScopes: slices.Clone(m.OAuth.DefaultScopes),
			Title: m.Title, Description: m.Description, DocsURL: m.DocsURL,
			BaseURLs: slices.Clone(m.BaseURLs), Setup: m.Setup, Credentials: summarizeFields(m.Fields), Config: []string{},
			Client: m.Client,
			Tested: len(e.Probes(m.Name)) > 0, Probes: []string{}}
		for _, p := range e.Probes(m.Name) {
			mode.Probes = append(mode.Probes, p.String())
		}
		for i := range m.Config {
			mode.Config = append(mode.Config, m.Config[i].Name)
		}
		s.Modes = append(s.Modes, mode)
	}
	return s
}

// summarizeLimits describes the declared limits; nil stands for none of the provider's own.
func summarizeLimits(d *outbound.RateLimit) LimitsSummary {
	s := LimitsSummary{Budgets: []BudgetSummary{}, Retried: []string{}, Waits: []string{}, Learned: []string{}}
	if d == nil {
		return s
	}
	s.Retried, s.MaxWait = append(s.Retried, d.RetryStatuses...), d.MaxWait
	add := func(to *[]string, header string) {
		if !slices.Contains(*to, header) {
			*to = append(*to, header)
		}
	}
	for _, w := range d.Wait {
		add(&s.Waits, w.Header)
	}
	for _, l := range d.Learn {
		add(&s.Learned, l.Remaining)
	}
	for _, b := range d.Budget {
		one := BudgetSummary{Requests: b.Limit, Per: b.Per, Scope: b.Scope}
		if one.Scope == "" {
			one.Scope = outbound.ScopeConnection
		}
		s.Budgets = append(s.Budgets, one)
	}
	return s
}

func summarizeFields(fields []outbound.Field) []FieldSummary {
	out := []FieldSummary{}
	for i := range fields {
		f := &fields[i]
		out = append(out, FieldSummary{Name: f.Name, Title: f.Title, Description: f.Description, Type: f.Type,
			Secret: f.Secret, Optional: f.Optional, RequiredFor: slices.Clone(f.RequiredFor), Pattern: f.Pattern,
			Example: f.Example, Enum: slices.Clone(f.Enum),
			Default: f.Default, Suffix: f.Suffix, Source: f.Source, Minted: f.Minted})
	}
	return out
}

// ModesText lists the names of the modes.
func (s *OutboundSummary) ModesText() string {
	names := make([]string, len(s.Modes))
	for i := range s.Modes {
		names[i] = s.Modes[i].Name
	}
	return strings.Join(names, ", ")
}

// modesOf lists the modes that use a field of connection_config; empty if all of them do.
func (s *OutboundSummary) modesOf(field string, quote func(string) string) string {
	var names []string
	for i := range s.Modes {
		if slices.Contains(s.Modes[i].Config, field) {
			names = append(names, s.Modes[i].Name)
		}
	}
	if len(names) == len(s.Modes) {
		return ""
	}
	return " For " + quoteAll(names, quote) + "."
}

// allBaseURLs lists the templates of all base URLs: those of the provider, then those of its modes.
func (s *OutboundSummary) allBaseURLs() []string {
	out := slices.Clone(s.BaseURLs)
	for i := range s.Modes {
		for _, text := range s.Modes[i].BaseURLs {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// title names a mode with its kind where that is another word.
func (m *ModeSummary) title() string {
	if m.Name == string(m.Mode) {
		return m.Title
	}
	return m.Title + " (" + string(m.Mode) + ")"
}

// credentialsText lists the credentials that are entered, or where they come from.
func (m *ModeSummary) credentialsText(quote func(string) string) string {
	var entered []string
	for i := range m.Credentials {
		f := &m.Credentials[i]
		if f.Minted {
			continue
		}
		text := quote(f.Name)
		if f.Optional {
			text += " (optional)"
		}
		entered = append(entered, text)
	}
	var parts []string
	switch {
	case m.Mode == outbound.OAuth2 || m.Mode == outbound.OAuth1:
		parts = append(parts, "from the provider, after the user's consent")
	case len(entered) == 0:
		parts = append(parts, "none")
	default:
		parts = append(parts, strings.Join(entered, ", "))
	}
	if m.Client {
		parts = append(parts, "with the OAuth client of the provider config")
	}
	return strings.Join(parts, ", ")
}

// valuesText says which values a field accepts.
func (f *FieldSummary) valuesText(quote func(string) string) string {
	var parts []string
	switch {
	case len(f.Enum) > 0:
		parts = append(parts, quoteAll(f.Enum, quote))
	case f.Pattern != "":
		parts = append(parts, "matching "+quote(f.Pattern))
	default:
		parts = append(parts, string(f.Type))
	}
	if f.Suffix != "" {
		parts = append(parts, "before "+quote(f.Suffix))
	}
	if f.Example != "" {
		parts = append(parts, "such as "+quote(f.Example))
	}
	if f.Secret {
		parts = append(parts, "secret")
	}
	return strings.Join(parts, ", ")
}

func (f *FieldSummary) defaultText(quote func(string) string) string {
	if len(f.RequiredFor) > 0 {
		return f.usualText(quote) + ", required for " + quoteAll(f.RequiredFor, quote)
	}
	return f.usualText(quote)
}

// usualText says what a field has without a value from a user.
func (f *FieldSummary) usualText(quote func(string) string) string {
	switch {
	case f.Default != "":
		return quote(f.Default)
	case f.Source != "" && f.Source != outbound.SourceUser:
		return "from the " + strings.ReplaceAll(string(f.Source), "_", " ")
	case f.Optional:
		return "none"
	default:
		return "required"
	}
}
