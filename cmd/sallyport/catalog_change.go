package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sallyport/internal/operator"
	"sallyport/internal/platform/terminal"
)

type catalogActivate struct {
	importName  `embed:""`
	Digest      string `placeholder:"DIGEST" xor:"confirmation" help:"The digest of the preview that you have seen, as catalog diff prints it. The activation fails if another version has become active since."`
	Yes         bool   `xor:"confirmation" help:"Confirm that credentials go to other hosts than now, or are used in another way."`
	importFlags `embed:""`
}

// Run activates the import.
func (c *catalogActivate) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(i *operator.Imports) error {
		importID, err := i.Find(ctx, c.Import, operator.ImportReady)
		if err != nil {
			return err
		}
		if err := c.activate(ctx, e, i, importID, c.Digest, c.Yes); err != nil {
			return err
		}
		if c.JSON {
			return c.show(ctx, e, i, importID, maxListed)
		}
		return nil
	})
}

// activate activates an import by its digest. A change of where credentials go needs a confirmation: the digest of the
// preview that shows it, or that of the user.
func (f importFlags) activate(ctx context.Context, e *env, i *operator.Imports, importID, digest string,
	confirmed bool) error {
	raw, err := i.Get(ctx, importID)
	if err != nil {
		return err
	}
	r, err := into[importRow](raw)
	if err != nil {
		return err
	}
	if p := r.Preview; p != nil && digest == "" {
		digest = p.Digest
		if p.AccessChanged && !confirmed {
			if err := f.confirmAccess(ctx, e, &r); err != nil {
				return err
			}
		}
	}
	if err := i.Activate(ctx, importID, digest); err != nil || f.JSON {
		return err
	}
	if r.Status == "active" {
		_, err = fmt.Fprintf(e.stdout, "%s is active already\n", r.ID)
		return err
	}
	changes := ""
	if r.Preview != nil {
		changes = ": " + r.Preview.counts()
	}
	if _, err := fmt.Fprintf(e.stdout, "%s is the active version of %s%s\n", r.ID, terminal.Inline(r.Provider),
		changes); err != nil {
		return err
	}
	if r.Preview != nil && r.Preview.Replaces != nil {
		e.note("To go back: %s", f.command("activate", *r.Preview.Replaces))
	}
	e.note("Servers show it within a second: sallyport catalog show %s", terminal.Inline(r.Provider))
	return nil
}

// confirmAccess asks the user whether credentials may go where an import sends them.
func (f importFlags) confirmAccess(ctx context.Context, e *env, r *importRow) error {
	p := r.Preview
	text := "Credentials of " + r.Provider + " would go to " + p.Access.hosts()
	if len(p.Access.TokenEndpoints) > 0 {
		text += ", and be exchanged at " + strings.Join(p.Access.TokenEndpoints, " ")
	}
	if strings.Contains(p.Access.hosts(), "${config.") {
		text += " (a setting of each connection)"
	}
	if p.Present != nil {
		text += ". Now they go to " + p.Present.hosts()
		if p.Present.hosts() == p.Access.hosts() {
			text += " in another way (" + p.Present.way() + ")"
		}
	}
	return e.confirm(ctx, terminal.Inline(text)+".", "Activate "+r.ID+"?", "Confirm it with --yes, or with --digest "+
		p.Digest+": "+f.command("activate", r.ID, "--yes"))
}

// errNotConfirmed reports that the user does not want it.
var errNotConfirmed = errors.New("not confirmed; nothing was changed")

type catalogCancel struct {
	Import      string `arg:"" name:"import" help:"The import, or its provider: the newest import of it that has not ended."`
	importFlags `embed:""`
}

// Run cancels the import.
func (c *catalogCancel) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(i *operator.Imports) error {
		importID, err := i.Find(ctx, c.Import, operator.ImportQueued, operator.ImportRunning)
		if err != nil {
			return err
		}
		if err := i.Cancel(ctx, importID); err != nil {
			return err
		}
		if c.JSON {
			return c.show(ctx, e, i, importID, maxListed)
		}
		return e.reportDone(false, "%s is cancelled", importID)
	})
}

type catalogRemove struct {
	Import      string `arg:"" name:"import" help:"The import, or its provider: the active import of it."`
	Yes         bool   `help:"Confirm the removal of an active import."`
	importFlags `embed:""`
}

// Run removes the import.
func (c *catalogRemove) Run(ctx context.Context, e *env) error {
	return c.with(ctx, e, func(i *operator.Imports) error {
		importID, err := i.Find(ctx, c.Import, operator.ImportActive)
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
		if r.Status == "active" && !c.Yes {
			text := "The provider " + r.Provider + " would leave the catalog, with all of its actions."
			if r.Extends {
				text = "The provider " + r.Provider + " would lose the actions of this import."
			}
			if err := e.confirm(ctx, terminal.Inline(text), "Remove "+r.ID+"?", "Confirm it with --yes: "+
				c.command("remove", r.ID, "--yes")); err != nil {
				return err
			}
		}
		if err := i.Remove(ctx, importID); err != nil {
			return err
		}
		return e.reportDone(c.JSON, "%s is removed", importID)
	})
}
