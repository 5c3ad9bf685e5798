package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sallyport/internal/app"
	"sallyport/internal/platform/atomicfile"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/datadir"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
)

// Errors of Backup and Restore.
var (
	// errNotSQLite says that the database is PostgreSQL, which has tools of its own.
	errNotSQLite = errors.New("the database is PostgreSQL, whose own tools back it up and restore it")
	// errSpace says that the disk has no room for a copy.
	errSpace = errors.New("there is not enough space")
	// errNotSallyport says that a file is a SQLite database of something else.
	errNotSallyport = errors.New("the file is no backup of a Sallyport database")
	// errOccupied says that there is a database where one is to be restored.
	errOccupied = errors.New("there is a database already")
	// errKeysetNeeded says that a backup cannot be restored without its keyset.
	errKeysetNeeded = errors.New("the backup needs the keyset of its time or a later one")
)

// Copied describes a backup or restoration.
type Copied struct {
	// Bytes is the size of the copy.
	Bytes int64
	// Schema is the version of its schema.
	Schema int64
	// Opened is how many sealed values the keyset opened in the check.
	Opened int
	// newer says that a newer release made the schema.
	newer bool
}

// Backup copies SQLite's database to a new file, next to a server that may be running, checks the copy, and with
// keysetTo copies the keyset to another new file and checks that it opens what the copy holds. Either both files are
// there at the end, or none.
func Backup(ctx context.Context, cfg *config.Config, path, keysetTo string) (_ Copied, err error) {
	if !cfg.SQLite() {
		return Copied{}, errNotSQLite
	}
	d, err := openExisting(ctx, cfg)
	if err != nil {
		return Copied{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	f, err := atomicfile.Create(path)
	if err != nil {
		return Copied{}, err
	}
	defer func() { err = errors.Join(err, f.Abort()) }()
	if err := checkSpace(ctx, d, filepath.Dir(path)); err != nil {
		return Copied{}, err
	}
	if err := d.CopyTo(ctx, f.Name()); err != nil {
		return Copied{}, err
	}
	// The keyset is read after the database: it only grows, so that it holds the key of every value in the copy.
	source := cfg.KeysetSource()
	if keysetTo == "" {
		source = secretbox.Source{}
	}
	done, err := inspect(ctx, f.Name(), source)
	if err != nil {
		return Copied{}, err
	}
	if keysetTo != "" {
		if err := secretbox.Copy(source, keysetTo); err != nil {
			return Copied{}, err
		}
	}
	if err := f.Commit(); err != nil {
		if keysetTo != "" {
			err = errors.Join(err, os.Remove(keysetTo))
		}
		return Copied{}, err
	}
	return done, nil
}

// checkSpace refuses a copy that the disk of dir cannot take.
func checkSpace(ctx context.Context, d *db.DB, dir string) error {
	size, err := d.Size(ctx)
	if err != nil {
		return err
	}
	free, err := datadir.Free(dir)
	if err != nil {
		return nil //nolint:nilerr // where it is not known, the copy itself finds out
	}
	if size > 0 && uint64(size) > free {
		return fmt.Errorf("%w: the copy needs up to %d MiB, and %d MiB are free in %s", errSpace, size>>20, free>>20, dir)
	}
	return nil
}

// inspect checks a copy: that it is whole, that it is a database of this product, and, with a keyset, that the keyset
// is its own.
func inspect(ctx context.Context, path string, keyset secretbox.Source) (done Copied, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return Copied{}, fmt.Errorf("read the backup: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return Copied{}, errNotSallyport
	}
	d, err := db.OpenCopy(ctx, path)
	if err != nil {
		return Copied{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.CheckIntegrity(ctx); err != nil {
		return Copied{}, err
	}
	if _, ok, err := db.ReadInstallation(ctx, d.Read()); err != nil || !ok {
		return Copied{}, errNotSallyport
	}
	state, err := migrate.Read(ctx, d)
	if err != nil {
		return Copied{}, err
	}
	done = Copied{Bytes: info.Size(), Schema: state.Current, newer: state.Current > state.Latest}
	if keyset == (secretbox.Source{}) {
		return done, nil
	}
	box, err := secretbox.Open(keyset)
	if err != nil {
		return Copied{}, fmt.Errorf("%w: %w", app.ErrKeyset, err)
	}
	for _, c := range app.SealedColumns() {
		// The other columns may be missing in another release's schema. Every release has this one.
		if state.Current != state.Latest && c.Table != "installation" {
			continue
		}
		n, err := openNewest(ctx, d, box, c)
		if err != nil {
			return Copied{}, err
		}
		done.Opened += n
	}
	return done, nil
}

// Restore puts a backup into the data folder of a server that is not running, and with keysetFrom the keyset into its
// place. It checks the backup first, overwrites nothing, and leaves nothing where it fails.
func Restore(ctx context.Context, cfg *config.Config, path, keysetFrom string) (_ Copied, err error) {
	if !cfg.SQLite() {
		return Copied{}, errNotSQLite
	}
	if _, err := os.Stat(path); err != nil {
		return Copied{}, fmt.Errorf("read the backup: %w", err)
	}
	keyset, err := restoredKeyset(cfg, keysetFrom)
	if err != nil {
		return Copied{}, err
	}
	if err := unoccupied(cfg.Data); err != nil {
		return Copied{}, err
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return Copied{}, fmt.Errorf("%w but a database with its write-ahead log next to it: the content of the log would "+
			"be lost",
			errNotSallyport)
	}
	done, err := inspect(ctx, path, keyset)
	if err != nil {
		return Copied{}, err
	}
	if done.newer {
		return Copied{}, migrate.ErrNewer
	}
	lock, err := datadir.Open(cfg.Data, cfg.SQLite())
	if err != nil {
		return Copied{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// A server may have made one before the folder was taken.
	if err := unoccupied(cfg.Data); err != nil {
		return Copied{}, err
	}
	f, err := atomicfile.Create(filepath.Join(cfg.Data, db.FileName))
	if err != nil {
		return Copied{}, err
	}
	defer func() { err = errors.Join(err, f.Abort()) }()
	if err := fill(ctx, f, path, done.Bytes); err != nil {
		return Copied{}, err
	}
	if keysetFrom != "" {
		if err := os.MkdirAll(filepath.Dir(cfg.KeysetFile), 0o700); err != nil {
			return Copied{}, fmt.Errorf("create the keyset's folder: %w", err)
		}
		if err := secretbox.Copy(keyset, cfg.KeysetFile); err != nil {
			return Copied{}, err
		}
	}
	if err := f.Commit(); err != nil {
		if keysetFrom != "" {
			err = errors.Join(err, os.Remove(cfg.KeysetFile))
		}
		return Copied{}, err
	}
	return done, nil
}

// restoredKeyset is the keyset that a restored database will have: the one that is in place, or else the one given.
func restoredKeyset(cfg *config.Config, from string) (secretbox.Source, error) {
	inPlace := cfg.Keyset != ""
	if !inPlace {
		_, err := os.Lstat(cfg.KeysetFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return secretbox.Source{}, fmt.Errorf("look for the keyset: %w", err)
		}
		inPlace = err == nil
	}
	switch {
	case inPlace && from != "":
		return secretbox.Source{}, errors.New("there is a keyset already: leave out --keyset-from, or move that keyset aside")
	case inPlace:
		return cfg.KeysetSource(), nil
	case from == "":
		return secretbox.Source{}, errKeysetNeeded
	default:
		return secretbox.Source{Path: from}, nil
	}
}

// unoccupied refuses a folder that holds a database, or what SQLite has left of one: a write-ahead log next to a file
// that it does not belong to would damage it.
func unoccupied(dir string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		path := filepath.Join(dir, db.FileName+suffix)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%w: %s", errOccupied, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look at the data folder: %w", err)
		}
	}
	return nil
}

// copyChunk is how much is copied between two looks at the context.
const copyChunk = 8 << 20

// fill copies the file at path, of the size that was checked, into f.
func fill(ctx context.Context, f *atomicfile.File, path string, size int64) error {
	from, err := os.Open(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	defer func() { _ = from.Close() }() // it was only read
	for left := size; left > 0; left -= copyChunk {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("copy the backup: %w", err)
		}
		if _, err := io.CopyN(f, from, min(left, copyChunk)); err != nil {
			return fmt.Errorf("copy the backup: %w", err)
		}
	}
	return nil
}
