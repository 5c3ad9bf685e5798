package operator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/deliveries"
)

func noon() time.Time { return time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC) }

// diagnose runs one check with the default configuration, changed as the test wants it.
func diagnose(t *testing.T, check func(*doctor) Check, change func(*config.Config)) Check {
	t.Helper()
	cfg := config.Default()
	change(&cfg)
	return check(&doctor{cfg: &cfg, clock: clock.NewManual(noon())})
}

// Limits are where they are said to be: just inside is fine, just outside is not.
func TestDoctorLimits(t *testing.T) {
	t.Parallel()
	due := func(age time.Duration) Check {
		return queueCheck(deliveries.Depth{Due: 3, Oldest: noon().Add(-age)}, noon())
	}
	for name, c := range map[string]struct {
		check Check
		want  CheckStatus
	}{
		"1 GiB free":            {diskCheck(1 << 30), CheckOK},
		"a byte less":           {diskCheck(1<<30 - 1), CheckWarn},
		"100 MiB free":          {diskCheck(100 << 20), CheckWarn},
		"a byte less than that": {diskCheck(100<<20 - 1), CheckFail},
		"clock within":          {clockCheck(-500 * time.Millisecond), CheckOK},
		"clock off":             {clockCheck(501 * time.Millisecond), CheckWarn},
		"clock off the other":   {clockCheck(-2 * time.Second), CheckWarn},
		"clock too far off":     {clockCheck(-2001 * time.Millisecond), CheckFail},
		"synced":                {durabilityCheck(nil), CheckOK},
		"not synced":            {durabilityCheck([]string{"fsync is off"}), CheckWarn},
		"no node is running":    {nodesCheck(nil), CheckSkip},
		"one node does all":     {nodesCheck(map[role.Role]int{role.All: 1}), CheckOK},
		"one of each role":      {nodesCheck(map[role.Role]int{role.API: 1, role.Worker: 1}), CheckOK},
		"no worker":             {nodesCheck(map[role.Role]int{role.API: 2}), CheckFail},
		"workers alone":         {nodesCheck(map[role.Role]int{role.Worker: 2}), CheckWarn},
		"nothing due":           {queueCheck(deliveries.Depth{}, noon()), CheckOK},
		"due for a minute":      {due(time.Minute), CheckOK},
		"due for longer":        {due(61 * time.Second), CheckWarn},
		"due for 15 minutes":    {due(15 * time.Minute), CheckWarn},
		"due for too long":      {due(15*time.Minute + time.Second), CheckFail},
	} {
		require.Equal(t, c.want, c.check.Status, name)
		require.Equal(t, c.want == CheckWarn || c.want == CheckFail, c.check.Hint != "", name)
	}
	require.Contains(t, clockCheck(-time.Second).Message, "1s behind")
	require.Contains(t, due(90*time.Second).Message, "3 are due, the oldest for 1m30s")
}

// An open range that hands out this machine or the cloud's credentials is worth a warning; every opened range is
// named.
func TestDoctorEgress(t *testing.T) {
	t.Parallel()
	for ranges, want := range map[string]CheckStatus{
		"":                         CheckOK,
		"10.1.0.0/16 fd12::/16":    CheckOK,
		"0.0.0.0/0":                CheckWarn,
		"::/0":                     CheckWarn,
		"169.254.0.0/16":           CheckWarn,
		"10.0.0.0/8 fd00:ec2::/32": CheckWarn,
		"100.64.0.0/10":            CheckWarn,
	} {
		c := diagnose(t, func(d *doctor) Check { return d.egress(t.Context()) }, func(cfg *config.Config) {
			for p := range strings.FieldsSeq(ranges) {
				cfg.EgressAllow = append(cfg.EgressAllow, netip.MustParsePrefix(p))
			}
		})
		require.Equal(t, want, c.Status, "%s: %s", ranges, c.Message)
		if want == CheckOK {
			for p := range strings.FieldsSeq(ranges) {
				require.Contains(t, c.Message, p)
			}
		}
	}
}

// Addresses that clients could make up, and undeclared proxies, are noticed.
func TestDoctorProxies(t *testing.T) {
	t.Parallel()
	run := func(d *doctor) Check { return d.proxies(t.Context()) }
	proxies := func(list ...string) func(*config.Config) {
		return func(c *config.Config) {
			c.PublicURL = "https://hooks.example.test"
			for _, p := range list {
				c.TrustedProxies = append(c.TrustedProxies, netip.MustParsePrefix(p))
			}
		}
	}
	require.Equal(t, CheckOK, diagnose(t, run, func(*config.Config) {}).Status)
	require.Equal(t, CheckWarn, diagnose(t, run, proxies()).Status)
	require.Equal(t, CheckOK, diagnose(t, run, proxies("127.0.0.1/32")).Status)
	require.Equal(t, CheckWarn, diagnose(t, run, proxies("127.0.0.1/32", "::/0")).Status)
}

// Listeners that strangers reach without encryption or a credential are noticed.
func TestDoctorListeners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listen, admin, public string
		want                  CheckStatus
	}{
		"loopback":           {"127.0.0.1:8080", "localhost:9090", "http://127.0.0.1:8080", CheckOK},
		"behind a TLS proxy": {"0.0.0.0:8080", "", "https://hooks.example.test", CheckOK},
		"open without TLS":   {":8080", "", "http://hooks.example.test", CheckWarn},
		"open admin":         {"127.0.0.1:8080", "0.0.0.0:9090", "http://127.0.0.1:8080", CheckWarn},
		"IPv6 loopback":      {"[::1]:8080", "[::1]:9090", "http://[::1]:8080", CheckOK},
	} {
		got := diagnose(t, func(d *doctor) Check { return d.listeners(t.Context()) }, func(cfg *config.Config) {
			cfg.Listen, cfg.AdminListen, cfg.PublicURL = c.listen, c.admin, c.public
		})
		require.Equal(t, c.want, got.Status, "%s: %s", name, got.Message)
	}
}

// pair writes a certificate for a host and its key to files.
func pair(t *testing.T, host string, from, until time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: until, DNSNames: []string{host}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", pkcs8)
}

// A certificate that is over, not begun, about to end, or for another host is noticed before a client does.
func TestDoctorCertificate(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		host        string
		from, until time.Duration
		want        CheckStatus
	}{
		"good":         {"hooks.example.test", -day, 15 * day, CheckOK},
		"ends soon":    {"hooks.example.test", -day, 13 * day, CheckWarn},
		"over":         {"hooks.example.test", -2 * day, -day, CheckFail},
		"not begun":    {"hooks.example.test", day, 90 * day, CheckFail},
		"another host": {"www.example.test", -day, 90 * day, CheckWarn},
	} {
		certFile, keyFile := pair(t, c.host, noon().Add(c.from), noon().Add(c.until))
		got := diagnose(t, func(d *doctor) Check { return d.certificate(t.Context()) }, func(cfg *config.Config) {
			cfg.TLSCert, cfg.TLSKey, cfg.PublicURL = certFile, keyFile, "https://hooks.example.test"
		})
		require.Equal(t, c.want, got.Status, "%s: %s", name, got.Message)
	}
	certFile, _ := pair(t, "a", noon(), noon())
	_, keyFile := pair(t, "a", noon(), noon())
	for _, keyFile := range []string{keyFile, keyFile + ".none"} {
		got := diagnose(t, func(d *doctor) Check { return d.certificate(t.Context()) }, func(cfg *config.Config) {
			cfg.TLSCert, cfg.TLSKey = certFile, keyFile
		})
		require.Equal(t, CheckFail, got.Status)
	}
}

// Only Sallyport's own response counts as reaching it, and an address that the internet does not reach is reported as
// one.
func TestDoctorPublicURL(t *testing.T) {
	t.Parallel()
	ask := func(url string) Check {
		return diagnose(t, func(d *doctor) Check {
			return d.publicURL(t.Context())
		}, func(c *config.Config) { c.PublicURL = url })
	}
	answer := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // the check fails when this does
		}))
		await.Close(t, s)
		return s.URL
	}
	require.Equal(t, CheckOK, ask(answer(http.StatusOK, `{"status":"ok"}`)).Status)
	for _, url := range []string{
		answer(http.StatusBadGateway, `{"status":"ok"}`), answer(http.StatusOK, "<html>"), answer(http.StatusOK,
			`{"status":"up"}`),
		"http://127.0.0.1:1", "http://10.0.0.5", "http://127.0.0.1:0",
	} {
		c := ask(url)
		require.Equal(t, CheckWarn, c.Status, "%s: %s", url, c.Message)
		require.NotEmpty(t, c.Hint)
	}
	require.Contains(t, ask("http://10.0.0.5").Message, "private")
	guessed := diagnose(t, func(d *doctor) Check { return d.publicURL(t.Context()) }, func(c *config.Config) {
		c.Listen, c.PublicURL = "0.0.0.0:8080", "http://localhost:8080"
	})
	require.Equal(t, CheckWarn, guessed.Status)
	require.Contains(t, guessed.Message, "only this machine")
}

// The check of sealed values names the keys that values need, warns while some are left under an older key or under
// one that is not in the keyset, and names the keys that can be removed. A key is called removable only if all values
// were counted.
func TestDoctorKeysOfSealedValues(t *testing.T) {
	t.Parallel()
	keys := []secretbox.KeyInfo{{ID: 1}, {ID: 2, Primary: true}, {ID: 3}}
	for name, c := range map[string]struct {
		counts   map[uint32]int
		complete bool
		status   CheckStatus
		message  string
	}{
		"all current": {map[uint32]int{2: 9}, true, CheckOK, "the keyset opens them (1 looked at); " +
			"key 1 has no values: `sallyport keyset remove 1`; key 2 encrypts, 9 values; key 3 is ready to be promoted"},
		"some older": {map[uint32]int{1: 4, 2: 9}, true, CheckWarn, "the keyset opens them (1 looked at); " +
			"key 1: 4 values to encrypt again; key 2 encrypts, 9 values; key 3 is ready to be promoted"},
		"unknown": {map[uint32]int{2: 9, 7: 2}, true, CheckWarn, "the keyset opens them (1 looked at); " +
			"key 1 has no values: `sallyport keyset remove 1`; key 2 encrypts, 9 values; key 3 is ready to be promoted; " +
			"2 values are of keys other than these"},
		"too many to count": {map[uint32]int{2: 9}, false, CheckOK, "the keyset opens them (1 looked at); " +
			"key 2 encrypts, at least 9 values; key 3 is ready to be promoted"},
	} {
		got := sealedCheck(1, keys, c.counts, c.complete)
		require.Equal(t, c.status, got.Status, name)
		require.Equal(t, c.message, got.Message, name)
		require.Equal(t, c.status == CheckWarn, got.Hint != "", name)
	}
}
