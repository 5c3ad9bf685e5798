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
	clk := clock.System()
	p := parts{cfg: &cfg, log: slog.New(slog.DiscardHandler), clock: clk, db: new(db.DB), box: new(secretbox.Box),
		client: NewEgress(&cfg, clk)}
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

// SealedColumns returns every column that holds sealed values.
func SealedColumns() []secretbox.Column {
	var list []secretbox.Column
	for _, m := range Declared() {
		list = append(list, m.Sealed...)
	}
	return list
}
