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
	"regexp"
	"strconv"
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

// The systemd unit runs the configuration of the guide after the commands of the guide, which run with the umask that
// the guide sets: with the unit's command, user, working directory, umask and empty environment the server starts, is
// ready, takes a large body, ends in order within the unit's time, and writes nothing outside the unit's state
// directory. The lines in the guide are those of the unit. Only root can become the unit's user; the modes are
// checked in any case.
func TestUnit(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	u := unit(t)
	guide := filepath.Join("..", "..", "docs", "guides", "first-production-start.md")
	blocks := steps(t, guide, "")
	configuration, installation := "", ""
	for _, s := range blocks {
		if s.language == "console" {
			installation = s.text
		}
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
	require.NotEmpty(t, installation)
	state := "/var/lib/" + u["StateDirectory"]
	require.Equal(t, state, u["WorkingDirectory"], "the relative paths of the configuration begin in what can be written")

	root, err := os.MkdirTemp("", "unit") //nolint:usetesting // others may enter no folder of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	require.NoError(t, os.Chmod(root, 0o755))
	inside := func(path string) string { return filepath.Join(root, path) }
	for _, dir := range []string{"/usr/local/bin", "/etc/systemd/system", "/var/lib", "/tmp"} {
		require.NoError(t, os.MkdirAll(inside(dir), 0o755))
	}
	require.NoError(t, os.Chmod(inside("/tmp"), os.ModeSticky|0o777))
	free := []step{{text: configuration}}
	translate(t, free)
	client := install(t, root, installation, free[0].text, u["User"])
	file := inside("/etc/sallyport/sallyport.yaml")
	parsed, err := config.Load([]string{"--config", file}, nil, os.ReadFile)
	require.NoError(t, err)
	stop, err := time.ParseDuration(u["TimeoutStopSec"] + "s")
	require.NoError(t, err)
	require.Greater(t, stop, parsed.ShutdownTimeout, "systemd must not kill a server that ends in order")
	for _, path := range []string{parsed.Data, parsed.KeysetFile, parsed.TLSCert, parsed.TLSKey, parsed.SetupTokenFile} {
		require.True(t, filepath.IsLocal(path), "%s is outside what the unit can write", path)
	}

	words := strings.Fields(u["ExecStart"])
	require.Equal(t, []string{"/usr/local/bin/sallyport", "serve", "--config", "/etc/sallyport/sallyport.yaml"}, words)
	words[3] = file
	var log bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), inside(words[0]), words[1:]...)
	server.Dir, server.Env = inside(state), []string{"PATH=/usr/bin", "USER=" + u["User"], "TMPDIR=" + inside("/tmp")}
	server.Stderr = &log
	if os.Getuid() == 0 {
		server.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: serviceID, Gid: serviceID}}
	}
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
		info, err := d.Info()
		require.NoError(t, err)
		mode := info.Mode().Perm()
		switch rest := strings.TrimPrefix(path, root); {
		case strings.HasPrefix(rest, state):
			require.Zero(t, mode&0o077, "%s is open to others", path)
		case rest == "/etc/sallyport/sallyport.yaml":
			require.Equal(t, fs.FileMode(0o640), mode, path)
		case rest == words[0]:
			require.Equal(t, fs.FileMode(0o755), mode, path)
		case rest == "/etc/systemd/system/sallyport.service":
			require.Equal(t, fs.FileMode(0o644), mode, path)
		default:
			require.True(t, d.IsDir(), "%s is outside the state directory", path)
			require.Equal(t, fs.FileMode(0o005), mode&0o005, "%s is closed to the service", path)
		}
		return nil
	}))
}

// serviceID is the number of the user and of the group that stand for those of the service.
const serviceID = 64123

// install runs the guide's commands for the service below root instead of /, in a folder with what the guide made
// there before. Where the test is not root, owners stay as they are. It returns a client that trusts the certificate.
func install(t *testing.T, root, commands, configuration, user string) *http.Client {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "keys"), 0o700))
	client := certificate(t, filepath.Join(dir, "keys"))
	service, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", "sallyport.service"))
	require.NoError(t, err)
	for name, text := range map[string]string{"sallyport.yaml": configuration, "sallyport.service": string(service),
		"keys/setup.token": strings.Repeat("0123456789abcdef", 3) + "\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	script := "umask 077\n"
	made := false
	for line := range strings.Lines(commands) {
		switch word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "useradd":
			require.True(t, strings.HasSuffix(strings.TrimSpace(line), " "+user), line)
			made = true
		case "systemctl":
		case "install":
			line = regexp.MustCompile(` (/(?:etc|usr/local|var/lib)/)`).ReplaceAllString(line, " "+root+"$1")
			owner := ""
			if os.Getuid() == 0 {
				owner = "${1}" + strconv.Itoa(serviceID)
			}
			script += regexp.MustCompile(`( -[og] )`+user+`\b`).ReplaceAllString(line, owner)
		default:
			require.Fail(t, "the guide has a command that the test does not know", line)
		}
	}
	require.True(t, made)
	run := func(name string, args ...string) {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir, c.Env = dir, []string{"PATH=" + filepath.Dir(testkit.Binary(t)) + ":/usr/bin:/bin"}
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run(testkit.Binary(t), "keyset", "create", "--keyset-file", "keys/keyset.json")
	run("sh", "-ec", script)
	return client
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
