package configs

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

const (
	table            = "provider_configs"
	columnSecret     = "client_secret"
	columnPrivateKey = "private_key"
)

// sealedColumns returns the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{
		{Table: table, Column: columnSecret, IDColumn: "id"},
		{Table: table, Column: columnPrivateKey, IDColumn: "id"},
	}
}

func place(column, rowID string) secretbox.AD {
	return secretbox.AD{Table: table, Column: column, RowID: rowID}
}

func columns(c *Config) db.Columns {
	return db.Columns{
		db.Col("id", &c.ID),
		db.Col("environment_id", &c.Environment),
		db.Col("provider_config_key", &c.Key),
		db.Col("provider", &c.Provider),
		db.Col("display_name", &c.DisplayName),
		db.Col("client_id", &c.ClientID),
		db.Col(columnSecret, &c.sealedSecret),
		db.Col("client_secret_hint", &c.SecretHint),
		db.Col(columnPrivateKey, &c.sealedKey),
		db.Col("private_key_id", &c.KeyID),
		db.Col("client_hosts", db.JSON(&c.ClientHosts)),
		db.Col("scopes", db.JSON(&c.Scopes)),
		db.Col("base_url", &c.BaseURL),
		db.Col("rate_limit", db.JSON(&c.RateLimit)),
		db.Col("actions_included", db.JSON(&c.Include)),
		db.Col("actions_excluded", db.JSON(&c.Exclude)),
		db.Col("risk", db.JSON(&c.Risk)),
		db.Col("created_ms", db.Millis(&c.CreatedAt)),
		db.Col("updated_ms", db.Millis(&c.UpdatedAt)),
	}
}

func of(env id.Environment) *db.Where { return new(db.Where).And("environment_id = ?", string(env)) }

func find(ctx context.Context, q db.Querier, env id.Environment, key string) (Config, bool, error) {
	c, found, err := db.One(ctx, q, columns, "FROM "+table, of(env).And("provider_config_key = ?", key), "")
	if err != nil {
		return Config{}, false, fmt.Errorf("read the provider configuration: %w", err)
	}
	return c, found, nil
}

// lock is find with the row held until the transaction ends. Both engines lock a row by writing it.
func lock(ctx context.Context, tx *sql.Tx, env id.Environment, key string) (Config, bool, error) {
	var c Config
	cols := columns(&c)
	found, err := db.Found("the provider configuration", cols.Scan(tx.QueryRowContext(ctx, "UPDATE "+table+
		" SET updated_ms = updated_ms WHERE environment_id = $1 AND provider_config_key = $2 RETURNING "+cols.Names(),
		string(env), key)))
	return c, found, err
}

// ClientID returns the id of the OAuth client of a configuration as a transaction sees it; empty if there is none.
func ClientID(ctx context.Context, q db.Querier, env id.Environment, key string) (string, error) {
	c, _, err := find(ctx, q, env, key)
	return c.ClientID, err
}

// Filter narrows a list. An empty field matches everything.
type Filter struct {
	// Providers are slugs.
	Providers []string
	// Prefix is the beginning of the key.
	Prefix string
}

func list(ctx context.Context, q db.Querier, env id.Environment, f Filter, p page.Request) ([]Config, error) {
	w := of(env)
	db.AnyOf(w, "provider", f.Providers)
	if f.Prefix != "" {
		w.And(fmt.Sprintf("substr(provider_config_key, 1, %d) = ?", len(f.Prefix)), f.Prefix)
	}
	return readAll(ctx, q, w, w.Page("id", p))
}

func readAll(ctx context.Context, q db.Querier, w *db.Where, tail string) ([]Config, error) {
	rows, err := db.All(ctx, q, columns, "FROM "+table, w, tail)
	if err != nil {
		return nil, fmt.Errorf("read provider configurations: %w", err)
	}
	return rows, nil
}

func count(ctx context.Context, q db.Querier, env id.Environment) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM provider_configs WHERE environment_id = $1", string(env)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count provider configurations: %w", err)
	}
	return n, nil
}

// CountOfProvider counts the configurations of a provider in an environment.
func CountOfProvider(ctx context.Context, q db.Querier, env id.Environment, slug string) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM provider_configs WHERE environment_id = $1 AND provider = $2",
		string(env), slug).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the provider configurations of a provider: %w", err)
	}
	return n, nil
}

// KeyOfProvider is the key of a configuration with its OAuth client.
type KeyOfProvider struct{ Key, ClientID string }

// KeysOfProvider returns the keys of a provider's configurations in an environment; its slug is among them.
func KeysOfProvider(ctx context.Context, q db.Querier, env id.Environment, slug string) ([]KeyOfProvider, error) {
	bind := func(k *KeyOfProvider) db.Columns {
		return db.Columns{db.Col("provider_config_key", &k.Key), db.Col("client_id", &k.ClientID)}
	}
	rows, err := db.All(ctx, q, bind, "FROM "+table, of(env).And("provider = ?", slug), "")
	if err != nil {
		return nil, fmt.Errorf("read the keys of a provider: %w", err)
	}
	if !slices.ContainsFunc(rows, func(k KeyOfProvider) bool { return k.Key == slug }) {
		rows = append(rows, KeyOfProvider{Key: slug})
	}
	return rows, nil
}

// insert stores the configuration unless its environment has one of that key.
func insert(ctx context.Context, tx *sql.Tx, c *Config) (inserted bool, err error) {
	inserted, err = db.Insert(ctx, tx, "INSERT INTO "+table, columns(c),
		"ON CONFLICT (environment_id, provider_config_key) DO NOTHING")
	if err != nil {
		return false, fmt.Errorf("store the provider configuration: %w", err)
	}
	return inserted, nil
}

// update writes what differs of a locked configuration from before, in one statement: readers see the old client or the
// new one.
func update(ctx context.Context, tx *sql.Tx, before, after *Config) error {
	changed, err := columns(after).Changed(columns(before))
	if err == nil {
		_, err = db.Update(ctx, tx, "UPDATE "+table, changed, of(after.Environment).And("id = ?", after.ID))
	}
	if err != nil {
		return fmt.Errorf("store the provider configuration: %w", err)
	}
	return nil
}

func remove(ctx context.Context, tx *sql.Tx, c *Config) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM provider_configs WHERE environment_id = $1 AND id = $2",
		string(c.Environment), c.ID)
	if err != nil {
		return fmt.Errorf("remove the provider configuration: %w", err)
	}
	return nil
}

// hold returns the provider of a configuration that no one can delete until the transaction ends.
func hold(ctx context.Context, tx *sql.Tx, engine db.Engine, env id.Environment, key string) (provider string,
	found bool, err error) {
	query := "SELECT provider FROM provider_configs WHERE environment_id = $1 AND provider_config_key = $2"
	if engine == db.Postgres { // SQLite has one writer
		query += " FOR SHARE"
	}
	found, err = db.Found("the provider configuration", tx.QueryRowContext(ctx, query, string(env), key).Scan(&provider))
	return provider, found, err
}

// holdsConfigs reports whether an environment has any provider configuration.
func holdsConfigs(ctx context.Context, q db.Querier, env id.Environment) (bool, error) {
	n, err := count(ctx, q, env)
	return n > 0, err
}
