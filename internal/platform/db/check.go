package db

import (
	"context"
	"database/sql"
)

// Check is asked at the end of a transaction, inside it. An error rolls the transaction back and is what Tx returns.
type Check func(ctx context.Context, tx *sql.Tx) error

type checkKey struct{}

// WithCheck returns a context under which every transaction of Tx ends with the check: what somebody else has to store
// with it, or that must still hold for it to be right. A transaction that is repeated asks again.
func WithCheck(ctx context.Context, c Check) context.Context {
	return context.WithValue(ctx, checkKey{}, c)
}

// CheckOf returns the check of the context, or nil. It is for what is committed on another goroutine than its caller's:
// that transaction does not see the caller's context and has to ask the check itself.
func CheckOf(ctx context.Context) Check {
	c, _ := ctx.Value(checkKey{}).(Check)
	return c
}
