package main

import (
	"context"
	"fmt"

	"sallyport/internal/app"
)

type backupCommand struct {
	Path          string `arg:"" name:"file" help:"The new file. It holds everything but the keyset."`
	KeysetTo      string `placeholder:"PATH" help:"Copy the keyset to this new file too. Keep the two apart: whoever has both reads every secret."`
	WithoutKeyset bool   `help:"Do not copy the keyset, because there is a copy of it elsewhere. Without one the secrets in the backup are lost."`
}

// Run makes the backup. What is to become of the keyset must be said, because a backup without it is no backup.
func (c *backupCommand) Run(ctx context.Context, e *env) error {
	switch {
	case c.KeysetTo == "" && !c.WithoutKeyset:
		return usageError("say what is to become of the keyset, without which the secrets in the backup are lost: " +
			"--keyset-to PATH copies it, --without-keyset says that there is a copy of it elsewhere")
	case c.KeysetTo != "" && c.WithoutKeyset:
		return usageError("--keyset-to and --without-keyset exclude each other")
	}
	done, err := app.Backup(ctx, e.cfg, c.Path, c.KeysetTo)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.stdout, "%s: the database, %s, schema version %d, checked\n", c.Path, mebibytes(done.Bytes),
		done.Schema); err != nil {
		return err
	}
	if c.KeysetTo == "" {
		e.note("The keyset is not in it. Without a copy of the keyset no secret in the backup can be opened.")
		return nil
	}
	if _, err := fmt.Fprintf(e.stdout, "%s: the keyset, which opens what is sealed in it (%d looked at)\n", c.KeysetTo,
		done.Opened); err != nil {
		return err
	}
	e.note("Keep the two apart: whoever has both reads every secret.")
	return nil
}

type restoreCommand struct {
	Path       string `arg:"" name:"file" help:"A file that backup made."`
	KeysetFrom string `placeholder:"PATH" help:"The keyset's copy, where the keyset is not in its place."`
}

// Run restores the backup.
func (c *restoreCommand) Run(ctx context.Context, e *env) error {
	done, err := app.Restore(ctx, e.cfg, c.Path, c.KeysetFrom)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout,
		"restored into %s: %s, schema version %d, checked; the keyset opens what is sealed in it (%d looked at)\n",
		e.cfg.Data, mebibytes(done.Bytes), done.Schema, done.Opened)
	e.note("Everything is as it was then. What was open is sent when the server starts, perhaps once more, under the " +
		"same webhook-id. " +
		"Keys that were revoked since, passwords that were changed and people who signed out are back: end them again.")
	return err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
