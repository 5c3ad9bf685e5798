package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sallyport/internal/operator"
	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// These variables belong to commands that call the API of a server. They are not settings of the server.
const (
	serverVariable = "SALLYPORT_SERVER"
	keyVariable    = "SALLYPORT_API_KEY"
)

// apiFlags are the flags of every command that calls the API.
type apiFlags struct {
	Server     string        `placeholder:"URL" help:"The server: scheme, host and port. Default: the variable SALLYPORT_SERVER, else the server in development mode that uses the data folder, else the public URL of the configuration."`
	APIKeyFile string        `name:"api-key-file" placeholder:"PATH" help:"File that contains only the API key. Default: the variable SALLYPORT_API_KEY, else the key that a server in development mode wrote to the data folder."`
	Timeout    time.Duration `default:"30s" placeholder:"DURATION" help:"Timeout of one request."`
	JSON       bool          `name:"json" help:"Print the API's JSON."`
}

// overAPI marks commands that call the API. Their help shows only the settings that matter to them.
type overAPI interface{ overAPI() }

func (apiFlags) overAPI() {}

// withAPI calls f with a client of the server that flags, variables and configuration name.
func (e *env) withAPI(flags apiFlags, f func(c *apiclient.Client) error) error {
	if flags.Timeout <= 0 {
		return usageError("--timeout must be above 0")
	}
	server, key, err := e.credentials(flags)
	if err != nil {
		return err
	}
	c, err := apiclient.New(apiclient.Options{Server: server, Key: key, AllowHTTP: e.cfg.EgressAllowHTTP,
		Timeout: flags.Timeout, UserAgent: "sallyport/" + version(), Clock: e.clock})
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// errNoKey reports that there is no API key.
var errNoKey = errors.New("there is no API key: set the variable SALLYPORT_API_KEY or name its file with " +
	"--api-key-file; `sallyport keys create` creates one. A server in development mode writes its key to the data " +
	"folder: if you have just started one, its log has the reason why it did not")

// credentials returns the server and the key. The key of development mode goes only to the server that wrote it.
func (e *env) credentials(flags apiFlags) (server string, key secretbox.Secret, err error) {
	if server = flags.Server; server == "" {
		server = e.variable(serverVariable)
	}
	if server != "" {
		if _, err := apiclient.SameServer(server, server); err != nil {
			return "", "", err
		}
	}
	switch {
	case flags.APIKeyFile != "":
		key, err = readKey(flags.APIKeyFile)
	default:
		key = secretbox.Secret(strings.TrimSpace(e.variable(keyVariable)))
	}
	if err != nil {
		return "", "", err
	}
	if key == "" {
		dev, ok, err := operator.ReadDevCredentials(e.cfg.Data)
		if err != nil {
			return "", "", err
		}
		if !ok {
			return "", "", errNoKey
		}
		if server == "" {
			return dev.Server, dev.APIKey, nil
		}
		same, err := apiclient.SameServer(server, dev.Server)
		if err == nil && !same {
			err = fmt.Errorf("the credentials in %s are for %s, not for %s: name that server, or the key of this one with "+
				"--api-key-file or the variable %s", e.cfg.Data, dev.Server, strings.TrimRight(server, "/"), keyVariable)
		}
		return dev.Server, dev.APIKey, err
	}
	if server == "" {
		// A key that is given goes to the server of this folder all the same, and not to the default address.
		switch dev, ok, err := operator.ReadDevCredentials(e.cfg.Data); {
		case err != nil:
			return "", "", err
		case ok:
			server = dev.Server
		default:
			server = e.cfg.PublicURL
		}
	}
	return server, key, nil
}

// maxKeyFile is larger than any file with a key.
const maxKeyFile = 4 << 10

func readKey(path string) (secretbox.Secret, error) {
	text, err := readSmall(path, maxKeyFile)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("read the API key: %s is empty", path)
	}
	return secretbox.Secret(key), nil
}

// errLarge reports that a file is larger than any valid content.
var errLarge = errors.New("the file is too large")

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readAtMost(f, limit)
}

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, errLarge
	}
	return text, nil
}

// variable returns a variable of the environment. If it is set several times, the last value counts.
func (e *env) variable(name string) (value string) {
	for _, v := range e.environ {
		if n, text, ok := strings.Cut(v, "="); ok && n == name {
			value = text
		}
	}
	return value
}

// paging holds the flags of commands that list.
type paging struct {
	Limit int    `default:"50" placeholder:"N" help:"The maximum number to list."`
	All   bool   `help:"List all."`
	Order string `enum:"asc,desc" default:"desc" placeholder:"ORDER" help:"desc: newest first. asc: oldest first."`
}

func (p *paging) limit() int {
	if p.All {
		return 0
	}
	return p.Limit
}

// into reads a row.
func into[T any](row json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(row, &v); err != nil {
		return v, fmt.Errorf("%w: %w", apiclient.ErrForeign, err)
	}
	return v, nil
}

// apiHint returns advice about an error of an API call. It is empty if the message says it all or there is no advice.
func apiHint(err error) string {
	var gone *apiclient.Unreachable
	var refused *apiclient.Error
	switch {
	case errors.As(err, &gone):
		return "Check that the server is running. If it runs on another machine, name it with --server or the variable " +
			serverVariable + "."
	case errors.Is(err, apiclient.ErrServer), errors.Is(err, apiclient.ErrForeign):
		return "Name the server with --server or the variable " + serverVariable + "."
	case errors.Is(err, apiclient.ErrPlainHTTP):
		return "Use the server's https:// URL, or allow http:// with --egress-allow-http."
	case errors.As(err, &refused) && needsSchemeNone(refused):
		return "Accept unverified webhooks with --scheme none."
	case errors.As(err, &refused) && refused.Status == http.StatusUnauthorized:
		return "Check the API key in " + keyVariable +
			" or --api-key-file. `sallyport keys list`, run on the server's machine, shows which keys are valid."
	default:
		return ""
	}
}

// needsSchemeNone reports whether a connection was refused because it has to accept webhooks that nothing proves.
func needsSchemeNone(err *apiclient.Error) bool {
	return slices.ContainsFunc(err.Details, func(d apperr.Detail) bool {
		return d.Location == "body.webhook.scheme" && strings.HasPrefix(d.Message, `must be "none"`)
	})
}

// isRejected reports whether err is the server's response about the request, and not about the caller or the server.
func isRejected(err error) bool {
	var refused *apiclient.Error
	return errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict ||
		refused.Status == http.StatusGone || refused.Status == http.StatusUnprocessableEntity)
}
