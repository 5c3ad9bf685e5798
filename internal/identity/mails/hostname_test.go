package mails_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/mails"
)

// The server introduces itself to the mail server by the host of its public URL.
func TestHostName(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://gateway.example.test:8443": "gateway.example.test", "http://[2001:db8::1]": "2001:db8::1",
		"": "localhost", "%": "localhost",
	} {
		require.Equal(t, want, mails.HostName(url), url)
	}
}
