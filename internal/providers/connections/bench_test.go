package connections_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

// BenchmarkCredentials measures what a call through a connection pays for its credentials, in memory: where they may be
// sent, whether the access token is valid, and the opening of the values.
func BenchmarkCredentials(b *testing.B) {
	for _, mode := range []string{"oauth2", "bearer"} {
		b.Run(mode, func(b *testing.B) {
			dir := b.TempDir()
			d, err := db.Open(b.Context(), "", dir)
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, d.Close()) })
			_, _, err = migrate.Up(b.Context(), d)
			require.NoError(b, err)
			s := testkit.Store{DB: d, Dir: dir}
			var w *world
			var in connections.NewConnection
			if mode == "oauth2" {
				w, _ = newTokenWorld(b, s)
				at := w.clock.Now().Add(time.Hour)
				in = tokenConnection(mode, newRotor(b), connections.Credentials{ExpiresAt: &at,
					Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}})
			} else {
				w = newWorld(b, s).withAPI(b)
				in = acmeConnection("acme-1", newProvider(b).URL, bearer("good-token"))
			}
			c := w.create(b, w.a, in)
			ctx := b.Context()
			for b.Loop() {
				if _, err := connections.AccessToken(ctx, w.svc, &c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
