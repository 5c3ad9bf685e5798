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
	KeyOnly bool `help:"Only add the key. Use it if each node has its own copy of the file: rotate, copy the file to all nodes, then run keyset reseal."`
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

func reseal(ctx context.Context, e *env) error {
	n, err := operator.Reseal(ctx, e.cfg, e.logger(), func(c secretbox.Column, changed int) {
		if changed > 0 {
			e.note("encrypted again: %d of %s.%s", changed, c.Table, c.Column)
		}
	})
	if err != nil {
		return fmt.Errorf("after %d values: %w", n, err)
	}
	_, err = fmt.Fprintf(e.stdout, "values encrypted again: %d; no value is left under an older key\n", n)
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
