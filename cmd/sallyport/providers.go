package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"sallyport/internal/app"
)

type providersCommand struct {
	List      providersList      `cmd:"" help:"List the providers."`
	Show      providersShow      `cmd:"" help:"Show how a provider's webhooks are verified and set up."`
	Lint      providersLint      `cmd:"" help:"Check definition files; exit with 1 and every fault when they have some."`
	Reference providersReference `cmd:"" help:"Print the reference of the definitions that ship."`
}

type providersList struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the providers by their slugs.
func (c providersList) Run(e *env) error {
	list, err := app.Providers(e.cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, list)
	}
	rows := [][]string{{"PROVIDER", "NAME", "CATEGORIES", "SCHEME", "HANDSHAKES", "GRADE", "SOURCE"}}
	for i := range list {
		p := &list[i]
		scheme, handshakes, grade := "no webhooks", "", ""
		if p.Webhooks != nil {
			scheme, handshakes = p.Webhooks.Proof.SchemeText(), p.Webhooks.HandshakeText()
		}
		if p.Evidence != nil {
			grade = string(p.Evidence.Grade)
		}
		rows = append(rows, []string{p.Slug, visible(p.DisplayName), strings.Join(p.Categories, ","), scheme, handshakes,
			grade, string(p.Source)})
	}
	return printTable(e.stdout, rows)
}

type providersShow struct {
	Slug string `arg:"" name:"provider" help:"The provider's slug, as providers list shows it."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run describes one provider.
func (c providersShow) Run(e *env) error {
	list, err := app.Providers(e.cfg)
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
	return errors.New("there is no such provider; `sallyport providers list` lists them")
}

type providersLint struct {
	Paths    []string `arg:"" name:"path" help:"Files, and folders whose .yaml files are checked."`
	Shipping bool     `help:"Check definitions that are to ship: they need evidence, and may have the slug of one that does."`
	JSON     bool     `name:"json" help:"Print the faults as JSON."`
}

func (providersLint) unconfigured() {}

// Run prints every fault of the files. It needs no configuration, no data and no network.
func (c providersLint) Run(e *env) error {
	checked, faults, err := app.LintProviders(c.Paths, c.Shipping)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(e.stdout, faults)
	} else {
		err = printFaults(e.stdout, faults)
	}
	if err != nil {
		return err
	}
	e.note("definitions: %d, faults: %d", checked, len(faults))
	if len(faults) > 0 {
		return exitError(exitFailed)
	}
	return nil
}

func printFaults(w io.Writer, faults []app.ProviderFault) error {
	for _, f := range faults {
		if _, err := fmt.Fprintln(w, visible(f.String())); err != nil {
			return err
		}
	}
	return nil
}

type providersReference struct{}

func (providersReference) unconfigured() {}

// Run prints the reference.
func (providersReference) Run(e *env) error { return app.ProvidersReference(e.stdout) }

// visible keeps text from a file that others wrote from steering the terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
