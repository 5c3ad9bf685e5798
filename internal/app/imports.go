package app

import (
	"context"
	"encoding/json"
	"log/slog"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/catalog/cataloghttp"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/imports"
)

// Imports are what NewImports needs of the process.
type Imports struct {
	DB           *db.DB
	Clock        clock.Clock
	Logger       *slog.Logger
	Definitions  *imports.Definitions
	Environments imports.Environments
	Configs      *configs.Service
	Client       *egress.Client
	// Node names the process among those that share the database.
	Node string
	// Hints lead to the workers on other nodes; nil in a command.
	Hints *fleet.Hints
	// Heap is the limit of the heap; nil in a command.
	Heap *heaplimit.Limit
}

// NewImports returns the imports of a database, for servers and commands alike: the rules are the same.
func NewImports(c Imports) *imports.Service {
	return imports.New(imports.Config{DB: c.DB, Clock: c.Clock, Logger: c.Logger, Definitions: c.Definitions,
		Environments: c.Environments, Keys: func() imports.Keys { return c.Configs }, Users: usersOf, Targets: c.Client,
		// A worker of a server follows: the first connections, too.
		OnAccessChange: connections.ConfigWatch{Clock: c.Clock}.ProviderChanged,
		Client:         c.Client, Node: c.Node, Hints: c.Hints, Heap: c.Heap})
}

// usersOf counts what belongs to a provider of an environment.
func usersOf(ctx context.Context, q db.Querier, env id.Environment, slug string) (conns, ofConfigs int, err error) {
	if conns, err = connections.CountOfProvider(ctx, q, env, slug); err != nil {
		return 0, 0, err
	}
	ofConfigs, err = configs.CountOfProvider(ctx, q, env, slug)
	return conns, ofConfigs, err
}

// EncodeImport returns an import in the form that the API shows. preview is nil for one that cannot be activated.
func EncodeImport(m *imports.Import, preview *imports.Preview) (json.RawMessage, error) {
	return cataloghttp.EncodeImport(m, preview)
}

// EncodeImportSummary returns an import in the form that lists of the API show.
func EncodeImportSummary(m *imports.Import) (json.RawMessage, error) {
	return cataloghttp.EncodeImportSummary(m)
}

// EncodeActionChange returns what an import changes about an action in the form that the API shows.
func EncodeActionChange(c *imports.ActionChange) (json.RawMessage, error) {
	return cataloghttp.EncodeActionChange(c)
}
