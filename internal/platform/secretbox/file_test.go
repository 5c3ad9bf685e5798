package secretbox

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/mac"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
)

// Create never touches an existing keyset: overwriting one would lose every secret.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.ErrorIs(t, Create(path), ErrExists)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// A half-written temporary file of a crash hinders no later writer.
func TestWritersSurviveLeftovers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyset.json")
	for range 2 {
		require.NoError(t, os.WriteFile(path+nextSuffix, []byte("{half"), 0o600))
		if _, err := os.Stat(path); err != nil {
			require.NoError(t, Create(path))
			continue
		}
		_, err := Rotate(path)
		require.NoError(t, err)
	}
	list, err := List(path)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.NoFileExists(t, path+nextSuffix)
}

// A rotation adds one primary key and keeps the others, behind a symbolic link too, and List shows no material.
func TestRotateAndList(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	link := filepath.Join(t.TempDir(), "link.json")
	require.NoError(t, os.Symlink(path, link))
	before, err := List(link)
	require.NoError(t, err)
	require.Equal(t, []KeyInfo{{ID: before[0].ID, Primary: true, Status: "enabled"}}, before)

	made, err := Rotate(link)
	require.NoError(t, err)
	require.Equal(t, KeyInfo{ID: made.ID, Primary: true, Status: "enabled"}, made)
	after, err := List(path)
	require.NoError(t, err)
	require.Equal(t, []KeyInfo{{ID: before[0].ID, Status: "enabled"}, made}, after)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)

	_, err = Rotate(filepath.Join(t.TempDir(), "missing.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// An administrator who rotates as root does not lock the server out of its keyset.
func TestRotateKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := newFile(t)
	require.NoError(t, os.Chown(path, 4711, 4712))
	old, err := os.Stat(path)
	require.NoError(t, err)
	_, err = Rotate(path)
	require.NoError(t, err)
	now, err := os.Stat(path)
	require.NoError(t, err)
	require.False(t, os.SameFile(old, now))
	require.Equal(t, owner(old), owner(now))
}

// A keyset that others can read is no secret: the server must not start with it.
func TestOpenRefusesReadableFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("permission bits mean nothing there")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644, 0o610} {
		path := newFile(t)
		require.NoError(t, os.Chmod(path, mode))
		_, err := Open(Source{Path: path})
		require.ErrorIs(t, err, ErrPermissions, mode)
		_, err = Rotate(path)
		require.ErrorIs(t, err, ErrPermissions, mode)
	}
	path := newFile(t)
	require.NoError(t, os.Chmod(path, 0o400))
	openFile(t, path)
}

// keysetJSON returns a keyset in Tink's JSON form.
func keysetJSON(t *testing.T, template *tinkpb.KeyTemplate) []byte {
	t.Helper()
	h, err := keyset.NewHandle(template)
	require.NoError(t, err)
	b, err := encodeHandle(h)
	require.NoError(t, err)
	return b
}

// Only random AES-256-GCM keys are accepted, and no error quotes the file.
func TestOpenRefusesOtherKeysets(t *testing.T) {
	t.Parallel()
	noPrefix := aead.AES256GCMKeyTemplate()
	noPrefix.OutputPrefixType = tinkpb.OutputPrefixType_RAW
	h, err := newHandle()
	require.NoError(t, err)
	zeroed := insecurecleartextkeyset.KeysetMaterial(h)
	// The serialised key is a protocol buffer field header of two bytes and the 32 bytes of the key.
	value := zeroed.Key[0].KeyData.Value
	clear(value[len(value)-32:])
	var zero bytes.Buffer
	require.NoError(t, keyset.NewJSONWriter(&zero).Write(zeroed))

	cases := map[string][]byte{
		"empty":           nil,
		"blank":           []byte(" \n"),
		"empty object":    []byte("{}"),
		"no keys":         []byte(`{"primaryKeyId":1,"key":[]}`),
		"not JSON":        []byte("hunter2"),
		"AES-128":         keysetJSON(t, aead.AES128GCMKeyTemplate()),
		"CTR with HMAC":   keysetJSON(t, aead.AES256CTRHMACSHA256KeyTemplate()),
		"a MAC":           keysetJSON(t, mac.HMACSHA256Tag256KeyTemplate()),
		"without prefix":  keysetJSON(t, noPrefix),
		"all bytes equal": zero.Bytes(),
		"too large":       bytes.Repeat([]byte(" "), maxKeysetBytes+1),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "keyset.json")
			require.NoError(t, os.WriteFile(path, text, 0o600))
			_, err := Open(Source{Path: path})
			require.ErrorIs(t, err, ErrKeyset)
			require.NotContains(t, err.Error(), "hunter2")
			_, err = Open(Source{Inline: Secret(text)})
			require.ErrorIs(t, err, ErrKeyset)
		})
	}
	_, err = Open(Source{Path: "a", Inline: "b"})
	require.ErrorIs(t, err, ErrKeyset)
	_, err = Open(Source{Path: t.TempDir()})
	require.Error(t, err)
}

// A copy opens what the keyset sealed, whether that is a file or inline, is its owner's alone, and replaces nothing.
func TestCopy(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	box, err := Open(Source{Path: path})
	require.NoError(t, err)
	ad := AD{Table: "t", Column: "c", RowID: "r"}
	sealed, err := box.Seal([]byte("secret"), ad)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, source := range []Source{{Path: path}, {Inline: Secret(text)}} {
		to := filepath.Join(t.TempDir(), "copy.json")
		require.NoError(t, Copy(source, to))
		info, err := os.Stat(to)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		copied, err := Open(Source{Path: to})
		require.NoError(t, err)
		plain, err := copied.Open(sealed, ad)
		require.NoError(t, err)
		require.Equal(t, "secret", string(plain))
		require.ErrorIs(t, Copy(source, to), fs.ErrExist)
		entries, err := os.ReadDir(filepath.Dir(to))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	require.Error(t, Copy(Source{Inline: "{}"}, filepath.Join(t.TempDir(), "copy.json")))
}
