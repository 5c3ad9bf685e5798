package secretbox

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// A key that was added opens and does not seal until it is promoted: nodes that get a copy of the file one after the
// other never meet a value that they cannot open. Keys that are not there, the sealing key and a key in use are not
// removed, and a refusal leaves the file as it was.
func TestAddPromoteRemove(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	first, err := List(path)
	require.NoError(t, err)
	added, err := Add(path)
	require.NoError(t, err)
	require.Equal(t, KeyInfo{ID: added.ID, Status: "enabled"}, added)
	require.Equal(t, first[0].ID, openFile(t, path).PrimaryKeyID())

	promoted, err := Promote(path, added.ID)
	require.NoError(t, err)
	require.Equal(t, KeyInfo{ID: added.ID, Primary: true, Status: "enabled"}, promoted)
	require.Equal(t, added.ID, openFile(t, path).PrimaryKeyID())
	_, err = Promote(path, 1)
	require.ErrorIs(t, err, ErrNoKey)

	before, err := os.ReadFile(path)
	require.NoError(t, err)
	unused := func(time.Time) error { return nil }
	inUse := errors.New("in use")
	require.ErrorIs(t, Remove(path, 1, unused), ErrNoKey)
	require.ErrorIs(t, Remove(path, added.ID, unused), ErrPrimary)
	require.ErrorIs(t, Remove(path, first[0].ID, func(changed time.Time) error {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, info.ModTime(), changed)
		return inUse
	}), inUse)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	require.NoError(t, Remove(path, first[0].ID, unused))
	left, err := List(path)
	require.NoError(t, err)
	require.Equal(t, []KeyInfo{promoted}, left)
}

// Sealed values that a process has in memory open for a minute after their key was removed from the file, which is the
// time to read them again: Changes shows that it is needed. After that the key is gone from the process too.
func TestRemovedKeyOpensWhatIsInMemory(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	clk := clock.NewManual(time.Now())
	box, err := Open(Source{Path: path}, WithClock(clk))
	require.NoError(t, err)
	ad := AD{"t", "c", "r"}
	kept, err := box.Seal([]byte("secret"), ad)
	require.NoError(t, err)
	old := box.PrimaryKeyID()
	_, err = Rotate(path)
	require.NoError(t, err)
	require.NoError(t, Remove(path, old, func(time.Time) error { return nil }))
	before := box.Changes()
	clk.Advance(checkInterval)
	require.Greater(t, box.Changes(), before)
	for range 2 {
		plain, err := box.Open(kept, ad)
		require.NoError(t, err)
		require.Equal(t, "secret", string(plain))
	}
	require.Equal(t, before+1, box.Changes())
	clk.Advance(retiredLife)
	_, err = box.Open(kept, ad)
	require.ErrorIs(t, err, ErrUnknownKey)
}
