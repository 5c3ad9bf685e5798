package registry

import (
	"bytes"
	"fmt"
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
	// Risk is that of the definition, without overrides of a provider configuration.
	Risk       risk.Level `json:"risk"`
	Deprecated bool       `json:"deprecated,omitempty"`
	DocsURL    string     `json:"docs_url,omitempty"`
}

func summarizeActions(list []*actions.Action) []ActionSummary {
	out := []ActionSummary{}
	for _, a := range list {
		out = append(out, ActionSummary{Name: a.Name, Title: a.Title, Method: a.Method, Path: a.Path, BaseURL: a.BaseURL,
			Risk: risk.Assess(&a.Call).Level, Deprecated: a.Deprecated, DocsURL: a.DocsURL})
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

// actionSection writes the table of the actions of one provider.
func actionSection(b *bytes.Buffer, list []ActionSummary) {
	if len(list) == 0 {
		return
	}
	b.WriteString("\n| Action | | Risk |\n|---|---|---|\n")
	for i := range list {
		title := plain(list[i].shown())
		if list[i].DocsURL != "" {
			title = link(list[i].shown(), list[i].DocsURL)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", list[i].Name, cell(title), list[i].Risk)
	}
}

// shown is the title, with a mark on an action that is deprecated.
func (a *ActionSummary) shown() string {
	if a.Deprecated {
		return a.Title + " (deprecated)"
	}
	return a.Title
}
