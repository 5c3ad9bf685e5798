package main

import (
	"context"
	"fmt"
	"strconv"

	"sallyport/internal/operator"
	"sallyport/internal/platform/secretbox"
)

type keysetCommand struct {
	Create keysetCreate `cmd:"" help:"Create the keyset file. On SQLite, the first start of the server creates it."`
	Rotate keysetRotate `cmd:"" help:"Add a key to the keyset and encrypt everything again with it."`
	Reseal keysetReseal `cmd:"" help:"Encrypt again everything that an older key encrypted. This also completes a rotation that was interrupted."`
	List   keysetList   `cmd:"" help:"List the keys, without their material."`
	Remove keysetRemove `cmd:"" help:"Remove a key that no value in the database needs. Older backups may need it, so keep a copy of the keyset with them."`

	Add     keysetAdd     `cmd:"" help:"Add a key that decrypts and does not encrypt yet. This is the first step of a rotation if each node has its own copy of the file: add, copy the file to all nodes, then promote."`
	Promote keysetPromote `cmd:"" help:"Encrypt with a key of the keyset from now on."`
}

type keysetCreate struct{}

// Run creates the file.
func (keysetCreate) Run(e *env) error {
	path, err := operator.CreateKeyset(e.cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", path)
	e.note("Give the same file to every node, and store a copy apart from the database's backups: without it, " +
		"encrypted values cannot be read.")
	return err
}

type keysetRotate struct {
	KeyOnly bool `help:"Only add the key: running servers encrypt everything again in the background, which doctor shows."`
}

// Run rotates the keyset while servers run. They need no restart.
func (c keysetRotate) Run(ctx context.Context, e *env) error {
	if !c.KeyOnly {
		if err := operator.CheckKeyset(ctx, e.cfg, e.logger()); err != nil {
			return err
		}
	}
	key, err := operator.AddKeysetKey(e.cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.stdout, "added key %d, which encrypts from now on\n", key.ID); err != nil {
		return err
	}
	if c.KeyOnly {
		return nil
	}
	e.note("waiting %s for running servers to read the keyset", operator.KeysetWait)
	err = operator.AwaitKeyset(ctx, e.clock)
	if err == nil {
		err = reseal(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("the key is added, but not everything is encrypted with it; run `sallyport keyset reseal`: %w",
			err)
	}
	return nil
}

type keysetReseal struct{}

// Run encrypts everything again.
func (keysetReseal) Run(ctx context.Context, e *env) error { return reseal(ctx, e) }

// progressStep is the number of values of a column between two lines of progress.
const progressStep = 100_000

func reseal(ctx context.Context, e *env) error {
	shown := 0
	n, err := operator.Reseal(ctx, e.cfg, e.logger(), func(p secretbox.Progress) {
		step := p.Values / progressStep
		switch {
		case p.Done && p.Changed > 0:
			e.note("encrypted again: %d of %s.%s", p.Changed, p.Column.Table, p.Column.Column)
		case !p.Done && step > shown:
			e.note("looked at %d of %s.%s, encrypted again: %d", p.Values, p.Column.Table, p.Column.Column, p.Changed)
		}
		if shown = step; p.Done {
			shown = 0
		}
	})
	if err != nil {
		return fmt.Errorf("after %d values: %w", n, err)
	}
	_, err = fmt.Fprintf(e.stdout, "values encrypted again: %d; no value is left under an older key\n", n)
	return err
}

type keysetAdd struct{}

// Run adds a key that is not used yet.
func (keysetAdd) Run(e *env) error {
	key, err := operator.AddSpareKey(e.cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "added key %d, which only decrypts\n", key.ID)
	e.note("give the keyset to every node, then run `sallyport keyset promote %d`", key.ID)
	return err
}

type keysetPromote struct {
	Key uint32 `arg:"" help:"The key's id, as keyset list shows it."`
}

// Run makes a key the one that encrypts.
func (c keysetPromote) Run(e *env) error {
	key, err := operator.PromoteKey(e.cfg, c.Key)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "key %d encrypts from now on\n", key.ID)
	e.note("give the keyset to every node; running servers encrypt everything again in the background, which " +
		"`sallyport doctor` shows")
	return err
}

type keysetRemove struct {
	Key uint32 `arg:"" help:"The key's id, as keyset list shows it."`
}

// Run removes a key that nothing needs.
func (c keysetRemove) Run(ctx context.Context, e *env) error {
	if err := operator.RemoveKey(ctx, e.cfg, e.clock, e.logger(), c.Key); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "removed key %d\n", c.Key)
	return err
}

type keysetList struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the keys, oldest first.
func (c keysetList) Run(e *env) error {
	keys, err := operator.ListKeyset(e.cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, keys)
	}
	rows := [][]string{{"ID", "STATUS", "USE"}}
	for _, k := range keys {
		use := "decrypts"
		if k.Primary {
			use = "encrypts and decrypts"
		}
		rows = append(rows, []string{strconv.FormatUint(uint64(k.ID), 10), k.Status, use})
	}
	return printTable(e.stdout, rows)
}
