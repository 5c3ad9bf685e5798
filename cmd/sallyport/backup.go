package main

import (
	"context"
	"fmt"

	"sallyport/internal/operator"
)

type backupCommand struct {
	Path          string `arg:"" name:"file" help:"The new file. It contains everything but the keyset."`
	KeysetTo      string `placeholder:"PATH" help:"Also copy the keyset to this new file. Store the two files apart: anyone who has both can read every secret."`
	WithoutKeyset bool   `help:"Do not copy the keyset, because you already have a copy. Without a copy the secrets in the backup are lost."`
}

// Run creates the backup. The user must choose what happens to the keyset, because a backup without it is incomplete.
func (c *backupCommand) Run(ctx context.Context, e *env) error {
	switch {
	case c.KeysetTo == "" && !c.WithoutKeyset:
		return usageError("choose what happens to the keyset, because the secrets in the backup are lost without it: " +
			"--keyset-to PATH copies it, --without-keyset confirms that you have a copy")
	case c.KeysetTo != "" && c.WithoutKeyset:
		return usageError("--keyset-to and --without-keyset can't be used together")
	}
	done, err := operator.Backup(ctx, e.cfg, c.Path, c.KeysetTo)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.stdout, "%s: the database, %s, schema version %d, checked\n", c.Path, mebibytes(done.Bytes),
		done.Schema); err != nil {
		return err
	}
	if c.KeysetTo == "" {
		e.note("The backup does not contain the keyset. Without a copy of the keyset no secret in the backup can be " +
			"decrypted.")
		return nil
	}
	if _, err := fmt.Fprintf(e.stdout, "%s: the keyset, which decrypts the secrets in the backup (%d checked)\n",
		c.KeysetTo, done.Opened); err != nil {
		return err
	}
	e.note("Store the two files apart: anyone who has both can read every secret.")
	return nil
}

type restoreCommand struct {
	Path       string `arg:"" name:"file" help:"A file that backup created."`
	KeysetFrom string `placeholder:"PATH" help:"The keyset's copy, if the keyset is not in the configured place."`
}

// Run restores the backup.
func (c *restoreCommand) Run(ctx context.Context, e *env) error {
	done, err := operator.Restore(ctx, e.cfg, c.Path, c.KeysetFrom)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout,
		"restored into %s: %s, schema version %d, checked; the keyset decrypts its secrets (%d checked)\n",
		e.cfg.Data, mebibytes(done.Bytes), done.Schema, done.Opened)
	e.note("The data is as it was at the time of the backup. When the server starts, it sends open deliveries, " +
		"possibly a second time under the same webhook-id. Keys revoked, passwords changed and sessions ended after the " +
		"backup are valid again: revoke, change and end them again.")
	return err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
