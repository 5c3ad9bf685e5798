package operator

import (
	"strings"

	"sallyport/internal/identity/setup"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// DevCredentials are the credentials that a server in development mode leaves for commands on the same machine.
type DevCredentials struct {
	// Server is scheme, host and port.
	Server string
	APIKey secretbox.Secret
}

// ReadDevCredentials returns what a server in development mode has left in a data folder; false where there is nothing.
func ReadDevCredentials(dataDir string) (DevCredentials, bool, error) {
	base, key, err := setup.ReadDev(dataDir)
	d := DevCredentials{Server: strings.TrimSuffix(base, httpapi.Prefix), APIKey: key}
	return d, d.Server != "" && d.APIKey != "", err
}
