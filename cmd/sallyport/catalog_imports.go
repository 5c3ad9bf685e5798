package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

// importFlags are the flags of every command on imports. These commands work on the database, because API keys only
// read the catalog.
type importFlags struct {
	Environment string `required:"" placeholder:"ID|NAME" help:"The environment of the import."`
	JSON        bool   `name:"json" help:"Print JSON, as in the API."`
}

// with calls fn with the imports of the environment.
func (f importFlags) with(ctx context.Context, e *env, fn func(*operator.Imports) error) error {
	return e.withStore(ctx, func(s *operator.Store) error {
		return s.WithImports(ctx, e.cfg, e.clock, f.Environment, e.logger(), func(i *operator.Imports) error {
			for _, problem := range i.Skipped() {
				e.note("warning: this definition is invalid and left out: %s", visible(problem.String()))
			}
			return fn(i)
		})
	})
}

// command is a command line on imports of the same environment, for advice.
func (f importFlags) command(words ...string) string {
	return "sallyport catalog " + terminal.Inline(strings.Join(words, " ")+" --environment "+f.Environment)
}

// importRow holds the properties of an import that commands show.
type importRow struct {
	ID        string   `json:"id"`
	Provider  string   `json:"provider"`
	Extends   bool     `json:"extends"`
	Status    string   `json:"status"`
	URL       *string  `json:"url"`
	BaseURL   *string  `json:"base_url"`
	Headers   []string `json:"headers"`
	Probe     *string  `json:"probe"`
	Include   []string `json:"include"`
	Exclude   []string `json:"exclude"`
	Trusted   bool     `json:"trusted"`
	CreatedBy struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	} `json:"created_by"`
	CreatedAt   time.Time    `json:"created_at"`
	ActivatedAt *time.Time   `json:"activated_at"`
	Document    *documentRow `json:"document"`
	Error       *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Line    *int   `json:"line"`
		Column  *int   `json:"column"`
	} `json:"error"`
	Outcome *outcomeRow `json:"outcome"`
	Preview *previewRow `json:"preview"`
}

type documentRow struct {
	Format  string `json:"format"`
	Title   string `json:"title"`
	Version string `json:"version"`
	Bytes   int64  `json:"bytes"`
}

func (d *documentRow) text() string {
	if d == nil {
		return ""
	}
	return strings.TrimSpace(d.Title + " " + d.Version)
}

// outcomeRow is what has come of a document.
type outcomeRow struct {
	Operations int          `json:"operations"`
	Actions    int          `json:"actions"`
	Excluded   int          `json:"excluded"`
	LeftOut    int          `json:"left_out"`
	Left       []leftOutRow `json:"left_out_operations"`
	NotesCount int          `json:"notes_count"`
	Notes      []noteRow    `json:"notes"`
}

type leftOutRow struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Message string `json:"message"`
	Line    *int   `json:"line"`
	Column  *int   `json:"column"`
}

type noteRow struct {
	Action  *string `json:"action"`
	Message string  `json:"message"`
}

// previewRow is what the activation of an import would change.
type previewRow struct {
	Digest        string     `json:"digest"`
	Replaces      *string    `json:"replaces_import_id"`
	Added         int        `json:"added"`
	Changed       int        `json:"changed"`
	RiskRaised    int        `json:"risk_raised"`
	Removed       int        `json:"removed"`
	Breaking      *int       `json:"breaking"`
	AccessChanged bool       `json:"access_changed"`
	Access        accessRow  `json:"access"`
	Present       *accessRow `json:"present_access"`
}

func (p *previewRow) counts() string {
	text := fmt.Sprintf("%d added, %d changed", p.Added, p.Changed)
	if p.RiskRaised > 0 {
		text += fmt.Sprintf(" (the risk of %d raised)", p.RiskRaised)
	}
	text += fmt.Sprintf(", %d removed", p.Removed)
	if p.Breaking != nil && *p.Breaking > 0 {
		text += fmt.Sprintf("; %d %s breaking", *p.Breaking, numbered(*p.Breaking, "is", "are"))
	}
	return text
}

// accessRow says where credentials would go.
type accessRow struct {
	Hosts          []string `json:"hosts"`
	TokenEndpoints []string `json:"token_endpoints"`
	AuthModes      []string `json:"auth_modes"`
	Headers        []string `json:"headers"`
	Probe          *string  `json:"probe"`
}

// way says how credentials are used: the modes, and what else requests have.
func (a *accessRow) way() string {
	parts := []string{strings.Join(a.AuthModes, " ")}
	if len(a.Headers) > 0 {
		parts = append(parts, strings.Join(a.Headers, ", "))
	}
	if a.Probe != nil {
		parts = append(parts, "tested by GET "+*a.Probe)
	}
	return strings.Join(parts, "; ")
}

func (a *accessRow) hosts() string {
	if len(a.Hosts) == 0 {
		return "those that each connection names"
	}
	return strings.Join(a.Hosts, " ")
}

// fields returns the access as fields with names that begin with a word.
func (a *accessRow) fields(word string) [][2]string {
	name := func(text string) string {
		if word == "" {
			return text
		}
		return word + " " + strings.ToLower(text)
	}
	return [][2]string{{name("Hosts"), a.hosts()}, {name("Token endpoints"), strings.Join(a.TokenEndpoints, " ")},
		{name("Auth modes"), strings.Join(a.AuthModes, " ")}}
}

func importTone(status string) terminal.Tone {
	switch status {
	case "ready", "active":
		return terminal.Good
	case "queued", "running":
		return terminal.Busy
	case "failed":
		return terminal.Bad
	default:
		return terminal.Plain
	}
}

// failure returns why the import failed, in the form FILE:LINE:COLUMN: MESSAGE; empty if it did not.
func (r *importRow) failure(file string) string {
	if r.Error == nil {
		return ""
	}
	return place(file, r.Error.Line, r.Error.Column) + ": " + r.Error.Message
}

// place is a place in a file, or the file if none is known.
func place(file string, line, column *int) string {
	for _, n := range []*int{line, column} {
		if n == nil {
			break
		}
		if file != "" {
			file += ":"
		}
		file += strconv.Itoa(*n)
	}
	return file
}

// print prints an import with at most so many of the operations that were left out, and of the notes.
func (r *importRow) print(e *env, most int) error {
	kind, document, trusted := "a provider of its own", "", ""
	if r.Extends {
		kind = "further actions for the provider of this name"
	}
	if d := r.Document; d != nil {
		document = fmt.Sprintf("%s (%s, %d bytes)", d.text(), d.Format, d.Bytes)
	}
	if r.Trusted {
		trusted = "its document may lower risks"
	}
	fields := [][2]string{{"Import", r.ID}, {"Provider", r.Provider + " (" + kind + ")"}, {"Status", r.Status},
		{"Error", strings.TrimPrefix(r.failure(""), ": ")}, {"Document", strings.TrimSpace(document)}, {"URL", value(r.URL)},
		{"Base URL", value(r.BaseURL)}, {"Headers", strings.Join(r.Headers, ", ")},
		{"Probe", value(r.Probe)}, {"Include", strings.Join(r.Include, " ")}, {"Exclude", strings.Join(r.Exclude, " ")},
		{"Trusted", trusted}}
	if o := r.Outcome; o != nil {
		fields = append(fields, [2]string{"Operations", fmt.Sprintf("%d: %d %s, %d excluded, %d left out", o.Operations,
			o.Actions, numbered(o.Actions, "action", "actions"), o.Excluded, o.LeftOut)})
	}
	if p := r.Preview; p != nil {
		fields = append(fields, r.previewFields(p)...)
	}
	fields = append(fields, [2]string{"Created", clock.Wire(r.CreatedAt)})
	if r.ActivatedAt != nil {
		fields = append(fields, [2]string{"Activated", clock.Wire(*r.ActivatedAt)})
	}
	if err := e.printFields(fields); err != nil || r.Outcome == nil {
		return err
	}
	return r.Outcome.print(e, most)
}

// previewFields returns what the activation would change. The access of an import that extends a provider is that
// provider's.
func (r *importRow) previewFields(p *previewRow) (fields [][2]string) {
	if !r.Extends {
		fields = p.Access.fields("")
	}
	if r.Status == "active" {
		return fields
	}
	if p.Present != nil && p.AccessChanged {
		fields = append(fields, p.Present.fields("Present")...)
	}
	return append(fields, [][2]string{{"Replaces", value(p.Replaces)}, {"Changes", p.counts()}, {"Digest", p.Digest}}...)
}

func (o *outcomeRow) print(e *env, most int) error {
	if o.LeftOut > 0 {
		t := e.table(terminal.Column{Title: "LINE", Fixed: true}, terminal.Column{Title: "OPERATION", Fixed: true},
			terminal.Column{Title: "REASON"})
		shown := o.Left[:min(len(o.Left), most)]
		for i := range shown {
			l := &shown[i]
			t.Row(place("", l.Line, l.Column), l.Method+" "+l.Path, l.Message)
		}
		if err := e.section("Left out", len(shown), t); err != nil {
			return err
		}
		e.noteMore(o.LeftOut-len(shown), "left out")
	}
	if o.NotesCount > 0 {
		t := e.table(terminal.Column{Title: "ACTION", Fixed: true}, terminal.Column{Title: "NOTE"})
		shown := o.Notes[:min(len(o.Notes), most)]
		for _, n := range shown {
			action := value(n.Action)
			if action == "" {
				action = "(provider)"
			}
			t.Row(action, n.Message)
		}
		if err := e.section("Notes", len(shown), t); err != nil {
			return err
		}
		e.noteMore(o.NotesCount-len(shown), "noted")
	}
	return nil
}

// noteMore says that more of something is not shown.
func (e *env) noteMore(n int, what string) {
	if n > 0 {
		e.note("%d more %s %s. `sallyport catalog imports IMPORT` shows up to 500.", n, numbered(n, "is", "are"), what)
	}
}

// show prints an import of the database.
func (f importFlags) show(ctx context.Context, e *env, i *operator.Imports, importID string, most int) error {
	raw, err := i.Get(ctx, importID)
	if err != nil {
		return err
	}
	if f.JSON {
		return printRaw(e.stdout, raw)
	}
	r, err := into[importRow](raw)
	if err != nil {
		return err
	}
	return r.print(e, most)
}

// maxListed is as many operations and notes as an import has.
const maxListed = 500

type catalogImports struct {
	Import      string                  `arg:"" optional:"" name:"import" help:"Show this import, or the newest one of this provider, with all that was left out and noted."`
	Provider    []string                `placeholder:"SLUG" help:"Only imports of these providers."`
	Status      []operator.ImportStatus `enum:"queued,running,ready,active,replaced,failed,cancelled" placeholder:"STATUS" help:"Only imports with one of these statuses: queued, running, ready, active, replaced, failed, cancelled."`
	lengthFlags `embed:""`
	importFlags `embed:""`
}

// Run lists the imports, newest first, or shows one.
func (c *catalogImports) Run(ctx context.Context, e *env) error {
	if c.Limit < 1 {
		return usageError("--limit must be at least 1")
	}
	return c.with(ctx, e, func(i *operator.Imports) error {
		if c.Import != "" {
			importID, err := i.Find(ctx, c.Import)
			if err != nil {
				return err
			}
			return c.show(ctx, e, i, importID, maxListed)
		}
		limit := c.paging()
		list, more, err := i.List(ctx, c.Provider, c.Status, limit.limit())
		if err != nil {
			return err
		}
		if c.JSON {
			err = printRaw(e.stdout, array(list))
		} else {
			err = c.table(e, list)
		}
		if err == nil && more {
			e.note("There are more imports. --limit shows more, --all shows all.")
		}
		return err
	})
}

func (c *catalogImports) table(e *env, list []json.RawMessage) error {
	t := e.table(terminal.Column{Title: "IMPORT", Fixed: true}, terminal.Column{Title: "PROVIDER", Fixed: true},
		terminal.Column{Title: "STATUS", Fixed: true, Tone: importTone}, terminal.Column{Title: "CREATED (UTC)", Fixed: true},
		terminal.Column{Title: "BY"}, terminal.Column{Title: "DOCUMENT"}, terminal.Column{Title: "ERROR"})
	for _, raw := range list {
		r, err := into[importRow](raw)
		if err != nil {
			return err
		}
		by := r.CreatedBy.Name
		if by == "" {
			by = r.CreatedBy.ID
		}
		t.Row(r.ID, r.Provider, r.Status, second(r.CreatedAt), by, r.Document.text(),
			strings.TrimPrefix(r.failure(""), ": "))
	}
	return t.Flush()
}
