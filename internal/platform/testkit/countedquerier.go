package testkit

import (
	"context"
	"database/sql"

	"sallyport/internal/platform/db"
)

// CountedQuerier is a Querier that counts the statements that ask for rows.
type CountedQuerier struct {
	db.Querier
	Queries int
}

// QueryContext counts a statement.
func (c *CountedQuerier) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.Queries++
	return c.Querier.QueryContext(ctx, query, args...)
}

// QueryRowContext counts a statement.
func (c *CountedQuerier) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.Queries++
	return c.Querier.QueryRowContext(ctx, query, args...)
}
