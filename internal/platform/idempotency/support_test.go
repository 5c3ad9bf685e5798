package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// world is one database with the keys of two processes.
type world struct {
	t      *testing.T
	db     *db.DB
	clk    *clock.Manual
	keyset string
	store  *idempotency.Store
	other  *idempotency.Store
}

func each(t *testing.T, fn func(w *world)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := &world{t: t, db: s.DB, clk: clock.NewManual(time.UnixMilli(1_750_000_000_000)),
			keyset: filepath.Join(t.TempDir(), "keyset.json")}
		require.NoError(t, secretbox.Create(w.keyset))
		second, err := db.Open(t.Context(), s.URL, s.Dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, second.Close()) })
		w.store = idempotency.New(idempotency.Config{DB: s.DB, Box: w.box(), Clock: w.clk})
		w.other = idempotency.New(idempotency.Config{DB: second, Box: w.box(), Clock: w.clk})
		w.exec("CREATE TABLE things (n bigint NOT NULL)")
		fn(w)
	})
}

func (w *world) box() *secretbox.Box {
	w.t.Helper()
	box, err := secretbox.Open(secretbox.Source{Path: w.keyset}, secretbox.WithClock(w.clk))
	require.NoError(w.t, err)
	return box
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	_, err := w.db.Write().ExecContext(w.t.Context(), text, args...)
	require.NoError(w.t, err)
}

func (w *world) count(table string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// create makes a thing as an operation would, in a transaction of its own.
func (w *world) create(ctx context.Context) error {
	return w.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO things (n) VALUES (1)")
		return err
	})
}

func (w *world) begin(r idempotency.Request) *idempotency.Run {
	w.t.Helper()
	run, response, err := w.store.Begin(w.t.Context(), r)
	require.NoError(w.t, err)
	require.Nil(w.t, response)
	require.NotNil(w.t, run)
	return run
}

func (w *world) refused(s *idempotency.Store, r idempotency.Request, code apperr.Code) {
	w.t.Helper()
	run, response, err := s.Begin(w.t.Context(), r)
	require.True(w.t, apperr.Is(err, code), "%v", err)
	require.Nil(w.t, run)
	require.Nil(w.t, response)
}

func request() idempotency.Request {
	return idempotency.Request{Method: "POST", Path: "/api/v1/things", Key: "key-1", Query: "a=b", Body: []byte(`{"n":1}`),
		Principal: access.Principal{Kind: access.KindAPIKey, ID: "key_1", Environment: id.Environment("env_1")}}
}

func created() idempotency.Response {
	return idempotency.Response{Status: 201, Header: map[string][]string{"Location": {"/things/1"}},
		Body: []byte(`{"key":"shown once"}`)}
}

var errFails = errors.New("fails")

// failing makes a thing and fails.
func (w *world) failing(tx *sql.Tx) error {
	_, err := tx.ExecContext(w.t.Context(), "INSERT INTO things (n) VALUES (1)")
	return errors.Join(err, errFails)
}
