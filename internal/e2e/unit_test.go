package e2e_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// unit returns the directives of the section Service of the systemd unit.
func unit(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", "sallyport.service"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "[Service]\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n[")
	out := map[string]string{}
	for line := range strings.Lines(section) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			require.NotContains(t, out, name)
			out[name] = value
		}
	}
	return out
}

// The systemd unit runs the configuration of the guide: with the unit's command, working directory, umask and empty
// environment the server starts, is ready, takes a large body, ends in order within the unit's time, and writes nothing
// outside the unit's state directory. The lines in the guide are those of the unit.
func TestUnit(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	u := unit(t)
	guide := filepath.Join("..", "..", "docs", "guides", "first-production-start.md")
	blocks := steps(t, guide, "")
	configuration := ""
	for _, s := range blocks {
		if s.file == "sallyport.yaml" {
			configuration = s.text
		}
		if s.language == "ini" {
			for line := range strings.Lines(s.text) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				require.Equal(t, value, u[name], "the guide's line %s is not the unit's", name)
			}
		}
	}
	require.NotEmpty(t, configuration)
	state := "/var/lib/" + u["StateDirectory"]
	require.Equal(t, state, u["WorkingDirectory"], "the relative paths of the configuration begin in what can be written")

	root := t.TempDir()
	inside := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{state + "/keys", "/etc/sallyport", "/tmp"} {
		require.NoError(t, os.MkdirAll(inside(dir), 0o700))
	}
	free := []step{{text: configuration}}
	translate(t, free)
	file := inside("/etc/sallyport/sallyport.yaml")
	require.NoError(t, os.WriteFile(file, []byte(free[0].text), 0o600))
	parsed, err := config.Load([]string{"--config", file}, nil, os.ReadFile)
	require.NoError(t, err)
	stop, err := time.ParseDuration(u["TimeoutStopSec"] + "s")
	require.NoError(t, err)
	require.Greater(t, stop, parsed.ShutdownTimeout, "systemd must not kill a server that ends in order")
	for _, path := range []string{parsed.Data, parsed.KeysetFile, parsed.TLSCert, parsed.TLSKey, parsed.SetupTokenFile} {
		require.True(t, filepath.IsLocal(path), "%s is outside what the unit can write", path)
	}

	start := func(ctx context.Context, args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, testkit.Binary(t), args...)
		c.Dir, c.Env = inside(state), []string{"PATH=/usr/bin", "USER=" + u["User"], "TMPDIR=" + inside("/tmp")}
		return c
	}
	out, err := start(t.Context(), "keyset", "create", "--keyset-file", "keys/keyset.json").CombinedOutput()
	require.NoError(t, err, "%s", out)
	token := []byte(strings.Repeat("0123456789abcdef", 3) + "\n")
	require.NoError(t, os.WriteFile(inside(state+"/keys/setup.token"), token, 0o600))
	client := certificate(t, inside(state+"/keys"))

	words := strings.Fields(u["ExecStart"])
	require.Equal(t, []string{"/usr/local/bin/sallyport", "serve", "--config", "/etc/sallyport/sallyport.yaml"}, words)
	words[3] = file
	var log bytes.Buffer
	server := start(context.WithoutCancel(t.Context()), words[1:]...)
	server.Stderr = &log
	require.NoError(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() { _ = server.Process.Kill() }) // it has ended unless the test failed
	await.Condition(t, "the server to be ready", func() bool {
		select {
		case err := <-ended:
			require.Fail(t, "the server has ended", "%v: %s", err, log.String())
		default:
		}
		r, err := client.Get("https://" + parsed.Listen + "/readyz") //nolint:noctx // loopback, and the test waits
		if err != nil {
			return false
		}
		require.NoError(t, r.Body.Close())
		return r.StatusCode == http.StatusOK
	})
	large, err := client.Post("https://"+parsed.Listen+prefix+"/webhook/nowhere", "text/plain", //nolint:noctx // as above
		bytes.NewReader(make([]byte, 1<<20)))
	require.NoError(t, err)
	require.NoError(t, large.Body.Close())
	require.Equal(t, http.StatusNotFound, large.StatusCode)
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	require.NoError(t, await.Value(t, "the end of the server", ended, log.String))

	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		inState := strings.HasPrefix(path, inside(state)+string(filepath.Separator))
		require.True(t, inState || d.IsDir() || path == file, "%s is outside the state directory", path)
		if inState && !d.IsDir() {
			info, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others", path)
		}
		return nil
	}))
}

// certificate makes a certificate for this machine in a folder, as the guide does, and returns a client that trusts it.
func certificate(t *testing.T, dir string) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
		Bytes: private}), 0o600))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(text))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
