package credentials_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// BenchmarkOpen measures what each request with credentials pays: the look-up in memory and the opening of a token.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	d, err := db.Open(b.Context(), "", dir)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	_, _, err = migrate.Up(b.Context(), d)
	require.NoError(b, err)
	w := newWorld(b, testkit.Store{DB: d, Dir: dir})
	w.store(b, apiKey(w, uuidA1, "ghp_0123456789abcdefghijklmnopqrstuvwxyz"))
	ctx := b.Context()
	values := map[string]secretbox.Secret{}
	for b.Loop() {
		sealed, err := w.vault.Sealed(ctx, w.a, uuidA1)
		if err != nil {
			b.Fatal(err)
		}
		if values, err = w.vault.Open(sealed, "api_key"); err != nil {
			b.Fatal(err)
		}
	}
	require.Len(b, values, 1)
}
