package main

import (
	"context"
	"encoding/json"
	"fmt"

	"sallyport/internal/operator"
	"sallyport/internal/platform/terminal"
)

// changeRow is what an import changes about an action.
type changeRow struct {
	Action string      `json:"action"`
	Kind   string      `json:"kind"`
	Before *changedRow `json:"before"`
	After  *changedRow `json:"after"`

	Breaking         bool            `json:"breaking"`
	Differences      []differenceRow `json:"differences"`
	DifferencesCount int             `json:"differences_count"`
}

// differenceRow is one thing that differs in an action.
type differenceRow struct {
	Kind     string   `json:"kind"`
	At       string   `json:"at"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Reasons  []string `json:"reasons"`
	Breaking bool     `json:"breaking"`
}

// text shows the values before and after, or the reasons for a risk.
func (d *differenceRow) text() string {
	text := d.To
	switch {
	case d.From != "" && d.To != "":
		text = d.From + " → " + d.To
	case d.From != "":
		text = "was " + d.From
	}
	if len(d.Reasons) > 0 {
		text += ": " + d.Reasons[0]
	}
	return text
}

type changedRow struct {
	Title string     `json:"title"`
	HTTP  requestRow `json:"http"`
	Risk  riskRow    `json:"risk"`
}

// both shows what an action has before and after a change, once if it is the same.
func (r *changeRow) both(of func(*changedRow) string) string {
	switch {
	case r.Before == nil && r.After == nil:
		return ""
	case r.Before == nil:
		return of(r.After)
	case r.After == nil:
		return of(r.Before)
	}
	before, after := of(r.Before), of(r.After)
	if before == after {
		return after
	}
	return before + " → " + after
}

func changeTone(kind string) terminal.Tone {
	switch kind {
	case "added":
		return terminal.Good
	case "risk_raised":
		return terminal.Bad
	case "removed":
		return terminal.Busy
	default:
		return terminal.Plain
	}
}

// importName names an import.
type importName struct {
	Import string `arg:"" name:"import" help:"The import, or its provider: the newest import of it that is ready."`
}

type catalogDiff struct {
	importName  `embed:""`
	Kind        []operator.ChangeKind `enum:"added,changed,risk_raised,removed" placeholder:"KIND" help:"Only changes of these kinds: added, changed, risk_raised, removed."`
	Breaking    bool                  `help:"Only breaking changes: actions that are gone, and those that refuse a call that they accepted, do something else, or return less."`
	importFlags `embed:""`
}

// Run lists the changes, in the order of the actions' names.
func (c *catalogDiff) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(i *operator.Imports) error {
		importID, err := i.Find(ctx, c.Import, operator.ImportReady)
		if err != nil {
			return err
		}
		raw, err := i.Get(ctx, importID)
		if err != nil {
			return err
		}
		list, err := i.Changes(ctx, importID, c.Kind, c.Breaking)
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, array(list))
		}
		r, err := into[importRow](raw)
		if err != nil {
			return err
		}
		if p := r.Preview; p != nil {
			fields := append([][2]string{{"Import", r.ID}, {"Provider", r.Provider}, {"Status", r.Status}},
				r.previewFields(p)...)
			if err := e.printFields(fields); err != nil {
				return err
			}
		}
		return printChanges(e, list)
	})
}

// printChanges prints the changes, and then what differs in the actions that are changed.
func printChanges(e *env, list []json.RawMessage) error {
	t := e.table(terminal.Column{Title: "CHANGE", Fixed: true, Tone: changeTone}, terminal.Column{Title: "ACTION",
		Fixed: true}, terminal.Column{Title: "RISK", Fixed: true}, terminal.Column{Title: "REQUEST"},
		terminal.Column{Title: "TITLE"})
	differences := e.table(terminal.Column{Title: "ACTION", Fixed: true},
		terminal.Column{Title: "DIFFERENCE", Fixed: true}, terminal.Column{Title: "BREAKING", Fixed: true,
			Tone: breakingTone}, terminal.Column{Title: "AT", Fixed: true},
		terminal.Column{Title: "CHANGE"})
	shown := 0
	for _, raw := range list {
		r, err := into[changeRow](raw)
		if err != nil {
			return err
		}
		t.Row(r.Kind, r.Action, r.both(func(a *changedRow) string { return a.Risk.Level }),
			r.both(func(a *changedRow) string { return a.HTTP.Method + " " + a.HTTP.Path }),
			r.both(func(a *changedRow) string { return a.Title }))
		for i := range r.Differences {
			d := &r.Differences[i]
			breaking := ""
			if d.Breaking {
				breaking = isBreaking
			}
			differences.Row(r.Action, d.Kind, breaking, d.At, d.text())
			shown++
		}
		if more := r.DifferencesCount - len(r.Differences); more > 0 {
			differences.Row(r.Action, fmt.Sprintf("(%d more)", more), "", "", "")
		}
	}
	if err := e.section("Changes", len(list), t); err != nil || shown == 0 {
		return err
	}
	return e.section("Differences", shown, differences)
}

// isBreaking marks what callers cannot depend on any more.
const isBreaking = "breaking"

func breakingTone(text string) terminal.Tone {
	if text == isBreaking {
		return terminal.Bad
	}
	return terminal.Plain
}
