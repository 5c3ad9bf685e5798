package app

import (
	"log/slog"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
)

// Declared returns the modules of a process without a database. Their declarations are complete, such as operations and
// sealed columns; nothing of them can run.
func Declared() []module.Module {
	cfg := config.Default()
	d, system := new(db.DB), clock.System()
	p := parts{cfg: &cfg, log: slog.New(slog.DiscardHandler), clock: db.NewClock(d, system, nil), db: d,
		box: new(secretbox.Box), client: NewEgress(&cfg, system)}
	defer p.client.Close()
	var err error
	var made *process
	if p.providers, err = registry.New(registry.Config{Builtin: new(registry.Registry), Logger: p.log}); err == nil {
		made, err = p.build()
	}
	if err != nil {
		panic(err) // the default configuration makes every capability
	}
	return made.modules
}

// TableOwners returns every table of the schema with the package that owns it, as its path under internal.
func TableOwners() map[string]string { return module.TableOwners(Declared()) }

// SealedColumns returns every column that holds sealed values.
func SealedColumns() []secretbox.Column { return module.SealedColumns(Declared()) }
