package secretbox

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
)

func place() AD { return AD{Table: "connections", Column: "credentials", RowID: "row-1"} }

// newFile returns the path of a fresh keyset file.
func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, Create(path))
	return path
}

func openFile(t *testing.T, path string, opts ...Option) *Box {
	t.Helper()
	b, err := Open(Source{Path: path}, opts...)
	require.NoError(t, err)
	return b
}

// A sealed value opens again in the same place, and names its key.
func TestSealOpen(t *testing.T) {
	t.Parallel()
	b := openFile(t, newFile(t))
	for _, plain := range [][]byte{nil, {0}, []byte("a secret"), bytes.Repeat([]byte("x"), 1<<20)} {
		sealed, err := b.Seal(plain, place())
		require.NoError(t, err)
		require.Len(t, sealed, len(plain)+33)
		id, ok := KeyID(sealed)
		require.True(t, ok)
		require.Equal(t, b.PrimaryKeyID(), id)
		opened, err := b.Open(sealed, place())
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, opened))
	}
}

// A Box for certain columns seals values of no other, and opens every value that its keys have sealed.
func TestSealRefusesUndeclaredColumns(t *testing.T) {
	t.Parallel()
	source := newFile(t)
	all := openFile(t, source)
	some, err := Open(Source{Path: source}, WithColumns([]Column{{Table: place().Table, Column: place().Column}}))
	require.NoError(t, err)
	_, err = some.Seal([]byte("s"), place())
	require.NoError(t, err)
	other := place()
	other.Column += "2"
	_, err = some.Seal([]byte("s"), other)
	require.ErrorIs(t, err, errUndeclared)
	sealed, err := all.Seal([]byte("s"), other)
	require.NoError(t, err)
	_, err = some.Open(sealed, other)
	require.NoError(t, err)
}

// A ciphertext cannot be moved: it opens under no other table, column or row.
func TestOpenRefusesAnotherPlace(t *testing.T) {
	t.Parallel()
	b := openFile(t, newFile(t))
	sealed, err := b.Seal([]byte("s"), place())
	require.NoError(t, err)
	for _, other := range []AD{
		{"connection", "scredentials", "row-1"},
		{"connections", "credentials", "row-2"},
		{"connections", "secret", "row-1"},
		{"users", "credentials", "row-1"},
	} {
		_, err := b.Open(sealed, other)
		require.ErrorIs(t, err, ErrDecrypt)
	}
	for _, incomplete := range []AD{{}, {"t", "c", ""}, {"t", "", "r"}, {"", "c", "r"}} {
		_, err := b.Seal([]byte("s"), incomplete)
		require.ErrorIs(t, err, ErrAD)
		_, err = b.Open(sealed, incomplete)
		require.ErrorIs(t, err, ErrAD)
	}
}

// A change of any single bit is noticed, and no damaged input makes Open panic.
func TestOpenRefusesDamage(t *testing.T) {
	t.Parallel()
	b := openFile(t, newFile(t))
	sealed, err := b.Seal([]byte("secret"), place())
	require.NoError(t, err)
	for i := range len(sealed) * 8 {
		damaged := bytes.Clone(sealed)
		damaged[i/8] ^= 1 << (i % 8)
		_, err := b.Open(damaged, place())
		require.Error(t, err)
	}
	for i := range sealed {
		_, err := b.Open(sealed[:i], place())
		require.Error(t, err)
	}
}

// Two different places never give the same associated data, for any names.
func TestADIsUnambiguous(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a\x00\x01.]{1,4}`)
		a := AD{part.Draw(t, "t1"), part.Draw(t, "c1"), part.Draw(t, "r1")}
		b := AD{part.Draw(t, "t2"), part.Draw(t, "c2"), part.Draw(t, "r2")}
		x, err := a.encode()
		require.NoError(t, err)
		y, err := b.encode()
		require.NoError(t, err)
		require.Equal(t, a == b, bytes.Equal(x, y))
	})
}

// A running Box immediately opens a value that another process sealed with a newer key.
func TestOpenFollowsRotation(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	running := openFile(t, path, WithClock(clock.NewManual(time.UnixMilli(1e12))))
	old, err := running.Seal([]byte("old"), place())
	require.NoError(t, err)

	info, err := Rotate(path)
	require.NoError(t, err)
	other := openFile(t, path)
	require.Equal(t, info.ID, other.PrimaryKeyID())
	sealed, err := other.Seal([]byte("new"), place())
	require.NoError(t, err)

	opened, err := running.Open(sealed, place())
	require.NoError(t, err)
	require.Equal(t, "new", string(opened))
	opened, err = other.Open(old, place())
	require.NoError(t, err)
	require.Equal(t, "old", string(opened), "rotation keeps the older keys")
}

// A running Box seals with the new primary key after five seconds, and checks the file no more often.
func TestSealFollowsRotation(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	c := clock.NewManual(time.UnixMilli(1e12))
	b := openFile(t, path, WithClock(c))
	before := b.PrimaryKeyID()
	info, err := Rotate(path)
	require.NoError(t, err)

	c.Advance(checkInterval - time.Millisecond)
	require.Equal(t, before, b.PrimaryKeyID())
	c.Advance(time.Millisecond)
	sealed, err := b.Seal([]byte("s"), place())
	require.NoError(t, err)
	id, _ := KeyID(sealed)
	require.Equal(t, info.ID, id)
}

// A keyset file that is damaged or deleted while the server runs stops neither sealing nor opening, and is logged.
func TestRunningBoxOutlivesItsFile(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	c := clock.NewManual(time.UnixMilli(1e12))
	var log bytes.Buffer
	b := openFile(t, path, WithClock(c), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	sealed, err := b.Seal([]byte("s"), place())
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	c.Advance(checkInterval)
	_, err = b.Seal([]byte("s"), place())
	require.NoError(t, err)
	require.Contains(t, log.String(), "cannot read the keyset file")

	require.NoError(t, os.Remove(path))
	_, err = b.Open(sealed, place())
	require.NoError(t, err)
	foreign, err := openFile(t, newFile(t)).Seal([]byte("s"), place())
	require.NoError(t, err)
	_, err = b.Open(foreign, place())
	require.ErrorIs(t, err, ErrUnknownKey)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A ciphertext of another keyset has another error than a damaged one: the cause is the configuration.
func TestOpenUnknownKey(t *testing.T) {
	t.Parallel()
	sealed, err := openFile(t, newFile(t)).Seal([]byte("s"), place())
	require.NoError(t, err)
	path := newFile(t)
	_, err = openFile(t, path).Open(sealed, place())
	require.ErrorIs(t, err, ErrUnknownKey)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	inline, err := Open(Source{Inline: Secret(text)})
	require.NoError(t, err)
	_, err = inline.Open(sealed, place())
	require.ErrorIs(t, err, ErrUnknownKey)
}

// An inline keyset is the same keyset as the file with that text.
func TestInlineKeyset(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	inline, err := Open(Source{Inline: Secret(text)})
	require.NoError(t, err)
	sealed, err := inline.Seal([]byte("s"), place())
	require.NoError(t, err)
	opened, err := openFile(t, path).Open(sealed, place())
	require.NoError(t, err)
	require.Equal(t, "s", string(opened))
}

// Sealing and opening stay correct while other goroutines and another process rotate.
func TestConcurrentRotation(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	c := clock.NewManual(time.UnixMilli(1e12))
	b := openFile(t, path, WithClock(c))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				sealed, err := b.Seal([]byte("s"), place())
				if err == nil {
					_, err = b.Open(sealed, place())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for range 5 {
				if _, err := Rotate(path); err != nil {
					t.Error(err)
				}
				c.Advance(checkInterval)
			}
		})
	}
	wg.Wait()
	list, err := List(path)
	require.NoError(t, err)
	require.Len(t, list, 21, "no rotation is lost")
}

// The identifier of a key is read from Tink's prefix only.
func TestKeyID(t *testing.T) {
	t.Parallel()
	id, ok := KeyID([]byte{1, 0xde, 0xad, 0xbe, 0xef})
	require.True(t, ok)
	require.Equal(t, uint32(0xdeadbeef), id)
	for _, none := range [][]byte{nil, {1, 2, 3, 4}, {0, 1, 2, 3, 4, 5}, []byte("plain text")} {
		_, ok := KeyID(none)
		require.False(t, ok)
	}
}

// No form in which a program prints a value shows a Secret.
func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	log.Info("x", "a", Secret("hunter2"), "b", struct{ S Secret }{"hunter2"}, "c", map[string]Secret{"k": "hunter2"})
	require.Contains(t, b.String(), Redacted)
	require.NotContains(t, b.String(), "hunter2")
	require.Equal(t, "hunter2", Secret("hunter2").Reveal())
}
