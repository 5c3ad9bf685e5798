package registry

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// ActionSummary describes an action for a list.
type ActionSummary struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// BaseURL stands in place of the definition's; empty for an action below that.
	BaseURL string `json:"base_url,omitempty"`
	// Tags group actions.
	Tags []string `json:"tags,omitempty"`
	// Risk is that of the definition, without overrides of a provider configuration, and Flags are the reasons for it
	// that rules can ask for.
	Risk  risk.Level  `json:"risk"`
	Flags []risk.Flag `json:"flags,omitempty"`
	// Scopes are OAuth scopes that permit the call: one of the lists is enough.
	Scopes [][]string `json:"scopes,omitempty"`
	// Pages is how the list that the action returns continues; empty for one that returns no list in pages. PageSize is
	// the greatest number of items of a page; 0 if it is not known.
	Pages    actions.PageType `json:"pages,omitempty"`
	PageSize int              `json:"page_size,omitempty"`
	// KeyHeader is the header by which the provider recognises a call that it has had; empty if it does not.
	KeyHeader  string `json:"idempotency_header,omitempty"`
	Deprecated bool   `json:"deprecated,omitempty"`
	DocsURL    string `json:"docs_url,omitempty"`
}

func summarizeActions(list []*actions.Action) []ActionSummary {
	out := []ActionSummary{}
	for _, a := range list {
		assessed := risk.Assess(&a.Call)
		s := ActionSummary{Name: a.Name, Title: a.Title, Method: a.Method, Path: a.Path, BaseURL: a.BaseURL,
			Tags: slices.Clone(a.Tags),
			Risk: assessed.Level, Flags: assessed.Flags, Deprecated: a.Deprecated, DocsURL: a.DocsURL}
		for _, scopes := range a.Scopes {
			s.Scopes = append(s.Scopes, slices.Clone(scopes))
		}
		if a.Pagination != nil {
			s.Pages, s.PageSize = a.Pagination.Type, a.Pagination.MaxSize
		}
		if a.Idempotency != nil {
			s.KeyHeader = a.Idempotency.Header
		}
		out = append(out, s)
	}
	return out
}

// actionLines writes the actions behind the facts of Text.
func actionLines(b *strings.Builder, list []ActionSummary) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\nActions\n")
	longest := 0
	for i := range list {
		longest = max(longest, len(list[i].Name))
	}
	for i := range list {
		fmt.Fprintf(b, "  %-*s  %-8s  %s\n", longest, list[i].Name, list[i].Risk, list[i].shown())
	}
}

// shown is the title, with a mark on an action that is deprecated.
func (a *ActionSummary) shown() string {
	if a.Deprecated {
		return a.Title + " (deprecated)"
	}
	return a.Title
}
