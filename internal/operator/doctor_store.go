package operator

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/datadir"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/registry"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Free space in the data folder, in bytes: with less than diskFail no event can be expected to be stored for long.
const (
	diskWarn = 1 << 30
	diskFail = 100 << 20
)

func (d *doctor) disk(context.Context) Check {
	free, err := datadir.Free(d.cfg.Data)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return skip("free space is not known on this system")
	case errors.Is(err, fs.ErrNotExist):
		return skip(fmt.Sprintf("the data folder %s does not exist yet", d.cfg.Data))
	case err != nil:
		return failure(fmt.Errorf("look at the data folder: %w", err))
	}
	return diskCheck(free)
}

func diskCheck(free uint64) Check {
	const hint = "Free space on the data folder's disk, or move the folder to a larger one."
	message := fmt.Sprintf("%d MiB are free in the data folder", free>>20)
	switch {
	case free < diskFail:
		return fail(message, hint)
	case free < diskWarn:
		return warn(message, hint)
	default:
		return ok(message)
	}
}

func (d *doctor) database(ctx context.Context) Check {
	opened, err := openExisting(ctx, d.cfg)
	if err != nil {
		return failure(err)
	}
	d.db = opened
	if err := opened.Ping(ctx); err != nil {
		return failure(fmt.Errorf("%w: %w", ErrDatabase, err))
	}
	if opened.Engine() == db.SQLite {
		return ok("SQLite responds")
	}
	return ok("PostgreSQL responds")
}

// durability looks whether a commit is on the disk when it is acknowledged.
func (d *doctor) durability(ctx context.Context) Check {
	if d.db == nil {
		return skip(noDatabaseMessage)
	}
	weak, err := d.db.Weaknesses(ctx)
	if err != nil {
		return failure(err)
	}
	return durabilityCheck(weak)
}

func durabilityCheck(weak []string) Check {
	if len(weak) == 0 {
		return ok("each commit is on the disk before it is acknowledged")
	}
	return warn(strings.Join(weak, "; "), "Turn the setting on in the database's configuration, and restart or reload it.")
}

const noDatabaseMessage = "the database cannot be used"

func (d *doctor) schema(ctx context.Context) Check {
	if d.db == nil {
		return skip(noDatabaseMessage)
	}
	state, err := migrate.Read(ctx, d.db)
	if err != nil {
		return failure(err)
	}
	switch err := state.Check(); {
	case errors.Is(err, migrate.ErrNewer):
		return fail(fmt.Sprintf("version %d, and this binary knows %d", state.Current, state.Latest), hintNewer)
	case errors.Is(err, migrate.ErrPending):
		return fail(fmt.Sprintf("version %d of %d: migrations are pending", state.Current, state.Latest), hintPending)
	case err != nil:
		return failure(err)
	}
	d.current = true
	return ok(fmt.Sprintf("version %d, nothing pending", state.Current))
}

// clockWarn is the offset that is worth a word. At db.MaxClockOffset a server is no longer ready.
const clockWarn = 500 * time.Millisecond

func (d *doctor) clocks(ctx context.Context) Check {
	if d.db == nil {
		return skip(noDatabaseMessage)
	}
	if d.db.Engine() == db.SQLite {
		return skip("SQLite shares this machine's clock")
	}
	offset, err := db.ClockOffset(ctx, d.db, d.clock)
	if err != nil {
		return failure(err)
	}
	return clockCheck(offset)
}

func clockCheck(offset time.Duration) Check {
	const hint = "Synchronise the clocks of this machine and of the database's: leases and due times assume that they " +
		"agree."
	side := "ahead of"
	if offset < 0 {
		side = "behind"
	}
	message := fmt.Sprintf("the database's clock is %s %s this machine's", offset.Abs().Round(time.Millisecond), side)
	switch {
	case offset.Abs() > db.MaxClockOffset:
		return fail(message, hint)
	case offset.Abs() > clockWarn:
		return warn(message, hint)
	default:
		return ok(message)
	}
}

func (d *doctor) keyset(context.Context) Check {
	box, err := secretbox.Open(d.cfg.KeysetSource(), secretbox.WithClock(d.clock))
	if err != nil {
		return failure(fmt.Errorf("%w: %w", app.ErrKeyset, err))
	}
	d.box = box
	if d.cfg.Keyset != "" {
		return ok("readable, from the variable SALLYPORT_KEYSET")
	}
	keys, err := ListKeyset(d.cfg)
	if err != nil {
		return failure(err)
	}
	return ok(fmt.Sprintf("readable by its owner only; keys: %d; key %d encrypts", len(keys), box.PrimaryKeyID()))
}

// sealed opens the newest value of every sealed column, and counts the values of each key.
func (d *doctor) sealed(ctx context.Context) Check {
	if !d.current || d.box == nil {
		return skip("needs the database with a current schema, and the keyset")
	}
	opened := 0
	for _, c := range app.SealedColumns() {
		n, err := openNewest(ctx, d.db, d.box, c)
		if err != nil {
			return failure(err)
		}
		opened += n
	}
	if opened == 0 {
		return skip("the database holds no sealed value yet")
	}
	counts, err := secretbox.Count(ctx, d.db, app.SealedColumns())
	complete := !errors.Is(err, context.DeadlineExceeded)
	if err != nil && complete {
		return failure(err)
	}
	keys := []secretbox.KeyInfo{{ID: d.box.PrimaryKeyID(), Primary: true}}
	if d.cfg.Keyset == "" {
		if keys, err = ListKeyset(d.cfg); err != nil {
			return failure(err)
		}
	}
	return sealedCheck(opened, keys, counts, complete)
}

// sealedCheck judges how many values each key encrypted. Without complete there were more than could be counted.
func sealedCheck(opened int, keys []secretbox.KeyInfo, counts map[uint32]int, complete bool) Check {
	parts, known := []string{fmt.Sprintf("the keyset opens them (%d looked at)", opened)}, map[uint32]bool{}
	older, unknown, atLeast := 0, 0, ""
	if !complete {
		atLeast = "at least "
	}
	spare := false
	for _, k := range keys {
		known[k.ID] = true
		n := counts[k.ID]
		switch {
		case k.Primary:
			parts = append(parts, fmt.Sprintf("key %d encrypts, %s%d values", k.ID, atLeast, n))
			spare = true // those after it were added for a rotation
		case n > 0:
			older += n
			parts = append(parts, fmt.Sprintf("key %d: %s%d values to encrypt again", k.ID, atLeast, n))
		case spare:
			parts = append(parts, fmt.Sprintf("key %d is ready to be promoted", k.ID))
		case complete:
			parts = append(parts, fmt.Sprintf("key %d has no values: `sallyport keyset remove %d`", k.ID, k.ID))
		}
	}
	for key, n := range counts {
		if !known[key] {
			unknown += n
		}
	}
	message := strings.Join(parts, "; ")
	switch {
	case unknown > 0:
		return warn(fmt.Sprintf("%s; %d values are of keys other than these", message, unknown),
			"Run `sallyport keyset reseal`. Values that it names do not open: restore the keyset that has their keys.")
	case older > 0:
		return warn(message, "Running servers encrypt them again in the background; `sallyport keyset reseal` does it now.")
	default:
		return ok(message)
	}
}

// openNewest opens the newest value of a sealed column and returns how many there were: 1, or 0 in an empty column.
func openNewest(ctx context.Context, d *db.DB, box *secretbox.Box, c secretbox.Column) (int, error) {
	var rowID string
	var value []byte
	err := d.Read().QueryRowContext(ctx, "SELECT "+c.IDColumn+", "+c.Column+" FROM "+c.Table+
		" WHERE "+c.Column+" IS NOT NULL ORDER BY "+c.IDColumn+" DESC LIMIT 1").Scan(&rowID, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read a sealed value of %s.%s: %w", c.Table, c.Column, err)
	}
	plain, err := box.Open(value, secretbox.AD{Table: c.Table, Column: c.Column, RowID: rowID})
	clear(plain)
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// definitions loads the provider definitions and looks whether connections have others.
func (d *doctor) definitions(ctx context.Context) Check {
	const hint = "Put the definitions back into the folder that --providers-dir names, or delete the connections."
	live, err := app.LoadProviders(d.cfg, slog.New(slog.DiscardHandler))
	var load *registry.LoadError
	switch {
	case errors.As(err, &load) && len(load.Problems) > 0:
		return fail(fmt.Sprintf("%d problems, the first: %s", len(load.Problems), load.Problems[0]),
			"`sallyport providers lint` lists all of them; with these no server starts.")
	case err != nil:
		return fail(err.Error(), "Name a folder that can be read with --providers-dir, or none.")
	}
	list := live.Registry().List()
	folder := 0
	for _, p := range list {
		if p.Source == registry.SourceFolder {
			folder++
		}
	}
	message := fmt.Sprintf("%d built in, %d in providers-dir", len(list)-folder, folder)
	if !d.current {
		return ok(message)
	}
	used, err := connections.UsedProviders(ctx, d.db)
	if err != nil {
		return failure(err)
	}
	missing := slices.DeleteFunc(used, func(slug string) bool { _, known := live.Get(slug); return known })
	if len(missing) > 0 {
		return fail("connections have providers without a definition: "+strings.Join(missing, ", "), hint)
	}
	return ok(message)
}

// nodes counts the servers that share the database.
func (d *doctor) nodes(ctx context.Context) Check {
	if !d.current {
		return skip("needs the database with a current schema")
	}
	if d.db.Engine() == db.SQLite {
		return skip("SQLite has a single node")
	}
	offset, err := db.ClockOffset(ctx, d.db, d.clock)
	if err != nil {
		return failure(err)
	}
	seen, err := fleet.Count(ctx, d.db, d.clock.Now().Add(offset))
	if err != nil {
		return failure(err)
	}
	return nodesCheck(seen)
}

func nodesCheck(seen map[role.Role]int) Check {
	const hint = "Start a node with --role worker, or with --role all: what the others accept is safe and waits."
	message := fmt.Sprintf("running, by role: all %d, api %d, worker %d", seen[role.All], seen[role.API],
		seen[role.Worker])
	switch {
	case len(seen) == 0:
		return skip("no server is running")
	case fleet.Idle(seen):
		return fail(message+"; none of them sends deliveries", hint)
	case seen[role.All]+seen[role.API] == 0:
		return warn(message+"; none of them accepts webhooks", "Start a node with --role api, or with --role all.")
	default:
		return ok(message)
	}
}

// Ages of the oldest delivery that is due: a server that keeps up sends within seconds.
const (
	queueWarn = time.Minute
	queueFail = 15 * time.Minute
)

func (d *doctor) deliveries(ctx context.Context) Check {
	if !d.current {
		return skip("needs the database with a current schema")
	}
	now := d.clock.Now()
	depth, err := deliveries.NewStore(deliveries.StoreConfig{DB: d.db,
		Events: events.New(events.Config{DB: d.db, Deliveries: deliveries.Filter{}})}).Depth(ctx, now)
	if err != nil {
		return failure(err)
	}
	return queueCheck(depth, now)
}

func queueCheck(depth deliveries.Depth, now time.Time) Check {
	const hint = "Check that a server runs, that it reaches the receivers, and whether --delivery-concurrency lets it " +
		"keep up."
	if depth.Due == 0 {
		return ok("none is due")
	}
	age := now.Sub(depth.Oldest)
	more := ""
	if depth.Due >= deliveries.DepthLimit {
		more = "at least "
	}
	message := fmt.Sprintf("%s%d are due, the oldest for %s", more, depth.Due, age.Round(time.Second))
	switch {
	case age > queueFail:
		return fail(message, hint)
	case age > queueWarn:
		return warn(message, hint)
	default:
		return ok(message)
	}
}
