package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"sallyport/internal/operator"
	"sallyport/internal/platform/terminal"
)

type catalogImport struct {
	Document    string                `arg:"" name:"file" help:"The document: a file, a URL that begins with https://, or - for standard input. JSON, YAML or GraphQL, at most 64 MiB."`
	Provider    string                `placeholder:"SLUG" help:"The slug of the new provider. A later import with the same slug is another version of it."`
	Extends     string                `placeholder:"SLUG" help:"Instead of a new provider: the provider of the installation that gets the actions, under its hosts and with its authentication."`
	Source      operator.ImportSource `enum:",openapi3,swagger2,google_discovery,graphql" default:"" placeholder:"SOURCE" help:"The kind of the document: openapi3, swagger2, google_discovery, graphql. Default: what it says itself."`
	DisplayName string                `placeholder:"TEXT" help:"The provider's name for people. Default: the title of the document."`
	BaseURL     string                `name:"base-url" placeholder:"URL" help:"The base URL of the API, instead of the document's servers. A GraphQL schema names none: without this flag each connection has a URL."`
	Headers     []string              `name:"header" sep:"none" placeholder:"HEADER" help:"A header that all requests have although the document does not say so, as in 'Acme-Version: 2026-11-01'. Not for credentials, which each connection has."`
	Probe       string                `placeholder:"PATH" help:"The path of an action that tests connections by GET, such as /me. It must need no input."`
	Include     []string              `placeholder:"PATTERN" help:"Only actions that one of these chooses: a pattern of names (list_*), a tag (tag:billing), or a method and a path (GET /v1/invoices/**). Default: all."`
	Exclude     []string              `placeholder:"PATTERN" help:"No actions that one of these chooses, in the same forms."`
	Trusted     bool                  `help:"Let the document lower risks. Its statements about risks only raise them otherwise."`
	Activate    bool                  `help:"Activate the import when it is ready. If credentials would go elsewhere than now, it asks."`
	Yes         bool                  `help:"With --activate: confirm that credentials go to other hosts than now, or are used in another way."`
	NoWait      bool                  `name:"no-wait" help:"Return when the document is stored. A server reads it."`
	importFlags `embed:""`
}

// Validate rejects flags that contradict each other.
func (c *catalogImport) Validate() error {
	switch {
	case c.Provider == "" && c.Extends == "":
		return errors.New("name the new provider with --provider, or one that gets the actions with --extends")
	case c.Provider != "" && c.Extends != "":
		return errors.New("--provider and --extends can't be used together")
	case c.Activate && c.NoWait:
		return errors.New("--activate and --no-wait can't be used together")
	case c.Yes && !c.Activate:
		return errors.New("--yes is for --activate")
	default:
		return nil
	}
}

func (c *catalogImport) isURL() bool {
	return strings.HasPrefix(c.Document, "https://") || strings.HasPrefix(c.Document, "http://")
}

// order returns what to import.
func (c *catalogImport) order() operator.ImportOrder {
	o := operator.ImportOrder{Slug: c.Provider, Extends: c.Extends != "", DisplayName: c.DisplayName, Source: c.Source,
		BaseURL: c.BaseURL, Headers: c.Headers, Probe: c.Probe, Include: c.Include, Exclude: c.Exclude, Trusted: c.Trusted}
	if o.Extends {
		o.Slug = c.Extends
	}
	if c.isURL() {
		o.URL = c.Document
	}
	return o
}

// open opens the document; it is nil for one with a URL.
func (c *catalogImport) open(e *env) (document io.Reader, closeIt func(), err error) {
	switch {
	case c.isURL():
		return nil, func() {}, nil
	case c.Document == "-":
		return e.stdin, func() {}, nil
	}
	f, err := os.Open(filepath.Clean(c.Document))
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil // it was only read
}

// shownAtEnd is how many operations that were left out, and how many notes, are shown when an import ends.
const shownAtEnd = 5

// Run stores the document, waits until it was read, and shows what has come of it.
func (c *catalogImport) Run(ctx context.Context, e *env) error {
	document, closeIt, err := c.open(e)
	if err != nil {
		return err
	}
	defer closeIt()
	return c.with(ctx, e, func(i *operator.Imports) error {
		importID, err := i.Create(ctx, c.order(), document)
		if err != nil {
			return err
		}
		if c.NoWait {
			if err := c.show(ctx, e, i, importID, shownAtEnd); err != nil {
				return err
			}
			e.note("A server reads the document. The outcome: %s", c.command("imports", importID))
			return nil
		}
		return c.follow(ctx, e, i, importID)
	})
}

// follow waits for the end of an import and shows it.
func (c *catalogImport) follow(ctx context.Context, e *env, i *operator.Imports, importID string) error {
	line := e.progressLine()
	err := i.Await(ctx, importID, func(p operator.ImportProgress) { line.set(progressText(p)) })
	line.end()
	if err != nil && ctx.Err() != nil {
		e.note("The import goes on when a server runs. Its outcome: %s\nTo end it: %s", c.command("imports", importID),
			c.command("cancel", importID))
		return exitError(exitFailed)
	}
	if err != nil {
		return err
	}
	raw, err := i.Get(ctx, importID)
	if err != nil {
		return err
	}
	r, err := into[importRow](raw)
	if err != nil {
		return err
	}
	switch {
	case r.Error != nil:
		e.note("%s", terminal.Inline(r.failure(named(c.Document))))
		if c.JSON {
			if err := printRaw(e.stdout, raw); err != nil {
				return err
			}
		}
		return exitError(exitFailed)
	case r.Status == "cancelled":
		return errors.New("the import was cancelled")
	case c.Activate:
		return c.activateAtEnd(ctx, e, i, &r)
	case c.JSON:
		return printRaw(e.stdout, raw)
	}
	if err := r.print(e, shownAtEnd); err != nil {
		return err
	}
	e.note("Look at the changes, and activate them:\n  %s\n  %s", c.command("diff", importID),
		c.command("activate", importID))
	return nil
}

// activateAtEnd activates an import that is ready.
func (c *catalogImport) activateAtEnd(ctx context.Context, e *env, i *operator.Imports, r *importRow) error {
	if !c.JSON {
		if err := r.print(e, shownAtEnd); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(e.stdout); err != nil {
			return err
		}
	}
	if err := c.activate(ctx, e, i, r.ID, "", c.Yes); err != nil {
		return err
	}
	if c.JSON {
		return c.show(ctx, e, i, r.ID, maxListed)
	}
	return nil
}

func progressText(p operator.ImportProgress) string {
	text := "Waiting for a server to read the document"
	switch p.Phase {
	case "":
		if p.Own {
			text = "Reading the document"
		}
	case "fetching":
		text = "Fetching the document"
	case "indexing":
		text = fmt.Sprintf("Indexing %d operations", p.Operations)
	default:
		text = fmt.Sprintf("Reading the document: %d operations", p.Operations)
	}
	return text
}

// progressLine is a line on standard error that shows what a command waits for, if that is a terminal.
type progressLine struct {
	out   io.Writer
	shown bool
}

func (e *env) progressLine() *progressLine {
	f, ok := e.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progressLine{out: io.Discard}
	}
	return &progressLine{out: f}
}

// eraseLine returns to the line's beginning and erases it (ECMA-48, section 8.3.41).
const eraseLine = "\r\x1b[K"

func (l *progressLine) set(text string) {
	_, _ = fmt.Fprint(l.out, eraseLine+text+"…") // the terminal is gone when this fails
	l.shown = true
}

// end removes the line.
func (l *progressLine) end() {
	if l.shown {
		_, _ = fmt.Fprint(l.out, eraseLine)
	}
}
