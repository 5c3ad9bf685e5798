package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/secretbox"
)

// The set-up token comes from its file as from the variable, and a token that could never work is an error.
func TestReadSetupToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	cfg := config.Default()
	read, err := cfg.ReadSetupToken()
	require.NoError(t, err)
	require.Empty(t, read)
	cfg.SetupToken = token
	read, err = cfg.ReadSetupToken()
	require.NoError(t, err)
	require.Equal(t, secretbox.Secret(token), read)

	cfg.SetupTokenFile = filepath.Join(t.TempDir(), "token")
	_, err = cfg.ReadSetupToken()
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, bad := range []string{"", "short", token + " " + token, string(make([]byte, 5000))} {
		require.NoError(t, os.WriteFile(cfg.SetupTokenFile, []byte(bad), 0o600))
		_, err = cfg.ReadSetupToken()
		require.Error(t, err, bad)
	}
	require.NoError(t, os.WriteFile(cfg.SetupTokenFile, []byte(token+"\n"), 0o600))
	read, err = cfg.ReadSetupToken()
	require.NoError(t, err)
	require.Equal(t, secretbox.Secret(token), read)
}
