package setup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/setup"
)

const apiURL = identitytest.Issuer + "/api/v1"

// ensured calls Ensure as a server that starts and returns the one message that it logs, if any.
func ensured(t *testing.T, f identitytest.World, level slog.Level, token func() (setup.Token, error)) map[string]any {
	t.Helper()
	var log bytes.Buffer
	require.NoError(t, f.Setup.Ensure(t.Context(), setup.Options{URL: apiURL, Token: token,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level}))}))
	var message map[string]any
	d := json.NewDecoder(&log)
	if err := d.Decode(&message); errors.Is(err, io.EOF) {
		return nil
	}
	require.False(t, d.More())
	return message
}

func configured(token setup.Token) func() (setup.Token, error) {
	return func() (setup.Token, error) { return token, nil }
}

// A server without a team logs a token that works, at every log level. With a team it logs nothing.
func TestEnsureLogsAToken(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelError} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			identitytest.Each(t, func(t *testing.T, f identitytest.World) {
				message := ensured(t, f, level, configured(""))
				require.Regexp(t, `^sps_[0-9a-z]{26}$`, message["setup_token"])
				require.Equal(t, apiURL+"/team/setup", message["url"])
				logged, _ := message["setup_token"].(string)
				_, err := f.Setup.Complete(t.Context(), identitytest.Client(), setup.Token(logged), newInstallation())
				require.NoError(t, err)
				require.Nil(t, ensured(t, f, level, configured("")))
			})
		})
	}
}

// A configured token works and is not logged. With a team it is not even read, so that its file may be gone.
func TestEnsureConfiguredToken(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		const token = setup.Token("0123456789abcdef0123456789abcdef")
		broken := errors.New("the file cannot be read")
		unreadable := func() (setup.Token, error) { return "", broken }
		err := f.Setup.Ensure(t.Context(), setup.Options{URL: apiURL, Token: unreadable,
			Logger: slog.New(slog.DiscardHandler)})
		require.ErrorIs(t, err, broken, "a server whose token cannot work does not start")

		require.Equal(t, "as configured", ensured(t, f, slog.LevelInfo, configured(token))["setup_token"])
		_, err = f.Setup.Complete(t.Context(), identitytest.Client(), token, newInstallation())
		require.NoError(t, err)
		require.Nil(t, ensured(t, f, slog.LevelInfo, unreadable))
	})
}
