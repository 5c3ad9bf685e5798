package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"sallyport/internal/operator"
	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/platform/terminal"
	"sallyport/internal/reference"
)

type providersCommand struct {
	List      providersList      `cmd:"" help:"List the providers."`
	Show      providersShow      `cmd:"" help:"Show how a provider's webhooks are verified and set up, and how its API is called."`
	Lint      providersLint      `cmd:"" help:"Check definition files; if they have errors, report all of them and exit with 1."`
	Reference providersReference `cmd:"" help:"Print the reference of the built-in definitions."`
}

type providersList struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the providers, sorted by slug.
func (c providersList) Run(e *env) error {
	list, err := operator.Providers(e.cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, list)
	}
	rows := [][]string{{"PROVIDER", "NAME", "CATEGORIES", "SCHEME", "HANDSHAKES", "GRADE", "SOURCE", "AUTH"}}
	for i := range list {
		p := &list[i]
		scheme, handshakes, grade := "no webhooks", "", ""
		if p.Webhooks != nil {
			scheme, handshakes = p.Webhooks.Proof.SchemeText(), p.Webhooks.HandshakeText()
		}
		if p.Evidence != nil {
			grade = string(p.Evidence.Grade)
		}
		auth := ""
		if p.Outbound != nil {
			auth = modesText(p.Outbound.Modes)
		}
		rows = append(rows, []string{p.Slug, visible(p.DisplayName), strings.Join(p.Categories, ","), scheme, handshakes,
			grade, string(p.Source), auth})
	}
	return printTable(e.stdout, rows)
}

// modesText lists the first modes of a provider; a line has no room for all of one that has many.
func modesText(modes []operator.ProviderMode) string {
	const most = 4
	names := make([]string, len(modes))
	for i := range modes {
		names[i] = modes[i].Name
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ","), len(names)-most)
	}
	return strings.Join(names, ",")
}

type providersShow struct {
	Slug string `arg:"" name:"provider" help:"The provider's slug, as shown by providers list."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run describes one provider.
func (c providersShow) Run(e *env) error {
	list, err := operator.Providers(e.cfg)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Slug != c.Slug {
			continue
		}
		if c.JSON {
			return printJSON(e.stdout, list[i])
		}
		_, err := io.WriteString(e.stdout, visible(list[i].Text()))
		return err
	}
	slugs, aliases := make([]string, len(list)), map[string]string{}
	for i := range list {
		slugs[i] = list[i].Slug
		for _, alias := range list[i].Aliases {
			aliases[alias] = list[i].Slug
		}
	}
	return fmt.Errorf("there is no provider %q; `sallyport providers list` lists them%s", c.Slug,
		suggest.Question(c.Slug, slugs, aliases))
}

type providersLint struct {
	Paths    []string          `arg:"" name:"path" help:"Files, and folders whose .yaml files are checked."`
	Shipping bool              `help:"Check definitions as built-in ones: they need evidence and links to the provider's pages, and may have the slug of a built-in definition."`
	Document map[string]string `placeholder:"SLUG=PATH" mapsep:"none" help:"A description of the API of a definition's provider, with which its actions are compared: OpenAPI 3.0 or 3.1, Swagger 2.0, Google Discovery or GraphQL. May be given several times."`
	JSON     bool              `name:"json" help:"Print the errors as JSON."`
}

func (providersLint) unconfigured() {}

// Run prints every error of the files. It needs no configuration, no data and no network.
func (c providersLint) Run(e *env) error {
	checked, findings, err := operator.LintProviders(c.Paths, operator.LintOptions{Shipping: c.Shipping,
		Documents: c.Document})
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(e.stdout, findings)
	} else {
		err = printFindings(e.stdout, findings)
	}
	if err != nil {
		return err
	}
	e.note("definitions: %d, errors: %d", checked, len(findings))
	if len(findings) > 0 {
		return exitError(exitFailed)
	}
	return nil
}

func printFindings(w io.Writer, findings []operator.ProviderProblem) error {
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, visible(f.String())); err != nil {
			return err
		}
	}
	return nil
}

type providersReference struct {
	Pages string `placeholder:"FOLDER" help:"Write the page of each provider into this folder instead: its modes, actions, webhooks and limits."`
}

func (providersReference) unconfigured() {}

// Run prints the list of providers, or writes a page for each of them.
func (c providersReference) Run(e *env) error {
	if c.Pages != "" {
		return reference.ProviderPages(c.Pages)
	}
	return reference.Providers(e.stdout)
}

// visible escapes control characters of text from other people's files, so that it cannot control the terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// missingProvider returns the message that the server has no such provider, with the one that is probably meant;
// empty if it has, or if the server does not say.
func missingProvider(ctx context.Context, api *apiclient.Client, name string) string {
	_, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: "/webhook-events/types",
		Query: url.Values{"provider": {name}, "limit": {"1"}}})
	var refused *apiclient.Error
	if !errors.As(err, &refused) || refused.Code != apperr.CodeValidation || len(refused.Details) != 1 {
		return ""
	}
	return refused.Details[0].Message
}

// warnProviders warns of filters by providers that the server does not have. They can match older events all the same.
func (e *env) warnProviders(ctx context.Context, api *apiclient.Client, names []string) {
	for _, name := range names {
		if name == ownProvider {
			continue
		}
		if message := missingProvider(ctx, api, name); message != "" {
			e.note("warning: %s", terminal.Inline(message))
		}
	}
}

// ownProvider is the provider of the gateway's own events and of published ones.
const ownProvider = "sallyport"
