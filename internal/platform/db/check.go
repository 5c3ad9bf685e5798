package db

import (
	"context"
	"database/sql"
)

// Check runs at the end of a transaction, inside it. Its error rolls the transaction back and is the error of Tx.
type Check func(ctx context.Context, tx *sql.Tx) error

type checkKey struct{}

// WithCheck returns a context under which every transaction of Tx ends with the check, which stores what belongs to the
// transaction or verifies that it is still valid. A transaction that runs again checks again.
func WithCheck(ctx context.Context, c Check) context.Context {
	return context.WithValue(ctx, checkKey{}, c)
}

// CheckOf returns the check of the context, or nil. It is for work that another goroutine commits: that transaction
// does not see the caller's context and must run the check itself.
func CheckOf(ctx context.Context) Check {
	c, _ := ctx.Value(checkKey{}).(Check)
	return c
}
