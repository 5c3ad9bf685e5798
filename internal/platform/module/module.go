// Package module says what a capability brings to the process, and runs it: one Module per capability, one Runner for
// all of them. It knows no capability.
package module

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

// Module is all that one capability brings to the process. The capability returns it itself; a field that is nil means
// that it brings nothing of the kind.
type Module struct {
	// Name is the path of the capability's package under internal, such as "webhooks/deliveries".
	Name string
	// Tables lists the tables that the capability owns: no other package names them in SQL.
	Tables []Table
	// Mount registers the capability's operations.
	Mount func(api *httpapi.API)
	// Services run from the start of the process to its end, and are started in their order. Those of a part of the work
	// that the node's role leaves to others do not run; nor do such jobs.
	Services []Service
	// Jobs run at intervals, from when the module's services have started.
	Jobs []jobs.Periodic
	// Caches are compared with the database at short intervals, for changes that other processes made.
	Caches []Cache
	// ShiftTimes moves the stored due times of the capability after the machine's clock was set by so much. It is called
	// on SQLite only; PostgreSQL has a clock of its own.
	ShiftTimes func(ctx context.Context, tx *sql.Tx, by time.Duration) error
	// Sealed lists the columns that hold sealed values, so that backups are checked and keys rotated.
	Sealed []secretbox.Column
	// Contents lists what keeps an environment from being deleted.
	Contents []Content
	// Metrics are the capability's own metrics.
	Metrics []prometheus.Collector
}

// Table is a table of the schema. One with rows of environments says either which of the module's Contents counts them,
// or why an environment that has some can be deleted.
type Table struct {
	Name string
	// Contents is the name of the Content that counts the rows.
	Contents string
	// Outlives is the reason why the rows do not keep their environment from being deleted.
	Outlives string
}

// Service is a part of a capability that starts and stops with the process. Each function may be nil.
type Service struct {
	// Name distinguishes the service in logs, such as "delivery-workers".
	Name string
	// Part says which nodes run the service.
	Part role.Part
	// Start returns once the service works. A Start that fails leaves nothing running.
	Start func(ctx context.Context) error
	// Drain begins the stop: the service takes nothing new, and ends what would not end by itself. Requests are still
	// in progress for services that started earlier.
	Drain func(ctx context.Context) error
	// Stop ends the service: softly until ctx ends, and then hard. It returns when nothing of the service is left running.
	Stop func(ctx context.Context) error
}

// Background returns a service that runs fn from its start until its stop. fn returns when its context ends.
func Background(name string, fn func(ctx context.Context)) Service {
	var running sync.WaitGroup
	cancel := func() {}
	return Service{
		Name: name,
		Start: func(ctx context.Context) error {
			var inner context.Context
			inner, cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Stop calls it
			running.Go(func() { fn(inner) })
			return nil
		},
		Stop: func(context.Context) error {
			cancel()
			running.Wait()
			return nil
		},
	}
}

// Cache is data of the database that a capability keeps in memory.
type Cache struct {
	// Name says what is cached, such as "subscriptions".
	Name string
	// Refresh drops what another process has changed.
	Refresh func(ctx context.Context) error
	// Drop drops everything. It is called when Refresh has not succeeded for db.MaxUnseen, and does not wait for one that
	// is in progress.
	Drop func()
}

// Content is one kind of resource that keeps an environment from being deleted while the environment has any of it.
//
// Held is a free function of the capability, next to its Module, and not a method of its service: the service that
// deletes environments is constructed before the capabilities that use it, and gets the list from modules that have no
// database. Everything that Held needs comes with the transaction.
type Content struct {
	// Name names the kind in plain words and the plural, such as "connections".
	Name string
	// Held reports whether the environment has any. It reads through q, which is the transaction that deletes the
	// environment.
	Held func(ctx context.Context, q db.Querier, env id.Environment) (bool, error)
}

// Contents returns what keeps environments from being deleted.
func Contents(modules []Module) []Content {
	list := []Content{}
	for _, m := range modules {
		list = append(list, m.Contents...)
	}
	return list
}

// SealedColumns returns the columns of all modules that hold sealed values.
func SealedColumns(modules []Module) []secretbox.Column {
	var list []secretbox.Column
	for _, m := range modules {
		list = append(list, m.Sealed...)
	}
	return list
}

// TableOwners returns every table with the name of the module that owns it.
func TableOwners(modules []Module) map[string]string {
	owners := map[string]string{}
	for _, m := range modules {
		for _, t := range m.Tables {
			owners[t.Name] = m.Name
		}
	}
	return owners
}
