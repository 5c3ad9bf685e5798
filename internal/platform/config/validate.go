package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

// derive fills the defaults that depend on other settings.
func (c *Config) derive() {
	if c.PublicURL == "" {
		c.PublicURL = c.ListenURL()
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if c.KeysetFile == "" {
		c.KeysetFile = filepath.Join(c.Data, "keyset.json")
	}
	if c.Dev && !c.EgressAllowHTTP {
		c.EgressAllowHTTP = true
		c.setOrigin("egress-allow-http", c.origin("dev"))
	}
}

func (c *Config) setOrigin(name string, o settingOrigin) {
	if c.origins == nil {
		c.origins = map[string]settingOrigin{}
	}
	c.origins[name] = o
}

// ListenURL returns the URL of the public listener's own address. A listener on all addresses is reached as localhost
// from this machine. It is empty if the address is not valid.
func (c *Config) ListenURL() string {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return ""
	}
	if isUnspecified(host) {
		host = "localhost"
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// GuessesPublicURL reports whether the public listener takes requests at all addresses and public-url is not set. Its
// default then leads to this machine only.
func (c *Config) GuessesPublicURL() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && isUnspecified(host) && c.PublicURL == c.ListenURL()
}

// HidesClients reports whether all clients appear under one address: the listener takes requests of this machine only,
// and the public URL leads elsewhere, so that they come through a proxy or tunnel, and no proxy is trusted.
func (c *Config) HidesClients() bool {
	host := c.PublicHost()
	return len(c.TrustedProxies) == 0 && isLoopback(c.Listen) && host != "" && !isLoopback(net.JoinHostPort(host, "0"))
}

// PublicHost returns the host name of the public URL, without a port; empty if the URL is not valid.
func (c *Config) PublicHost() string {
	u, err := url.Parse(c.PublicURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// isUnspecified reports whether a listener on the host takes requests at all addresses.
func isUnspecified(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.IsUnspecified()
}

// checker collects errors with their origins.
type checker struct {
	c        *Config
	problems []problem
}

func (k *checker) require(ok bool, key, message string) {
	if !ok {
		k.problems = append(k.problems, problem{Key: key, Origin: k.c.origin(key), Message: message})
	}
}

// validate returns all errors of the values, alone and in combination.
func (c *Config) validate() []problem {
	k := &checker{c: c}
	k.listeners()
	k.storage()
	k.setup()
	k.smtp()
	k.require(c.TLSCert == "" || c.TLSKey != "", "tls-cert", "requires tls-key")
	k.require(c.TLSKey == "" || c.TLSCert != "", "tls-key", "requires tls-cert")
	k.require(c.LogFormat == LogAuto || c.LogFormat == LogJSON || c.LogFormat == LogText, "log-format",
		"is not one of auto, json, text")
	k.require(c.ShutdownTimeout > 0 && c.ShutdownTimeout <= maxShutdownTimeout, "shutdown-timeout",
		"must be above 0 and up to 1h")
	k.webhooks()
	k.deliveries()
	k.streams()
	k.rates()
	return k.problems
}

func (k *checker) listeners() {
	c := k.c
	k.require(isHostPort(c.Listen), "listen", "is not an address such as 127.0.0.1:8080")
	k.require(c.AdminListen == "" || isHostPort(c.AdminListen), "admin-listen", "is not an address such as 127.0.0.1:9090")
	_, port, _ := net.SplitHostPort(c.Listen)
	k.require(c.AdminListen == "" || c.AdminListen != c.Listen || port == "0", "admin-listen",
		"is the same address as listen")
	if c.Dev {
		const message = "must be a loopback address in development mode"
		k.require(!isHostPort(c.Listen) || isLoopback(c.Listen), "listen", message)
		k.require(!isHostPort(c.AdminListen) || isLoopback(c.AdminListen), "admin-listen", message)
	}
	k.require(isBaseURL(c.PublicURL), "public-url",
		"must be http:// or https:// and a host, without path, query or user name")
}

func (k *checker) storage() {
	c := k.c
	k.require(c.Data != "", "data", "must name a folder")
	k.require(c.DatabaseURL == "" || isPostgres(c.DatabaseURL.Reveal()), "database-url",
		"must be a postgres:// or postgresql:// URL")
	k.require(c.Role == role.All || !c.SQLite(), "role",
		"must be all on SQLite, which has a single node: other roles need PostgreSQL (database-url)")
	k.require(c.Keyset == "" || c.origin("keyset-file").Source == sourceDefault, "keyset",
		"cannot be given together with keyset-file")
}

func (k *checker) setup() {
	c := k.c
	k.require(c.SetupToken == "" || isSetupToken(c.SetupToken), "setup-token", tokenRule)
	k.require(c.SetupToken == "" || c.SetupTokenFile == "", "setup-token",
		"cannot be given together with setup-token-file")
}

const tokenRule = "must be 32 to 256 printable characters without spaces" //nolint:gosec // a rule, no credential

// isSetupToken reports whether a token is too long to guess and has only characters that survive copy and paste.
func isSetupToken(t secretbox.Secret) bool {
	s := t.Reveal()
	return len(s) >= 32 && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (k *checker) webhooks() {
	c := k.c
	k.require(c.WebhookMaxBodyBytes >= 1 && c.WebhookMaxBodyBytes <= webhookBodyHardLimit,
		"webhook-max-body-bytes", "must be between 1 and 26214400")
	k.require(c.WebhookMemoryBudgetBytes >= webhookBudgetMinimum, "webhook-memory-budget-bytes",
		"must be at least 1048576")
	k.require(c.WebhookDedupeWindow == 0 || (c.WebhookDedupeWindow >= time.Second &&
		c.WebhookDedupeWindow <= maxDedupeWindow), "webhook-dedupe-window", "must be 0 or between 1s and 720h")
	k.require(c.ConnectionCheckInterval == 0 || (c.ConnectionCheckInterval >= time.Minute &&
		c.ConnectionCheckInterval <= 7*24*time.Hour), "connection-check-interval", "must be 0 or between 1m and 168h")
	payload, event := c.WebhookPayloadRetentionDays, c.WebhookEventRetentionDays
	k.require(payload >= 1 && payload <= maxPayloadRetentionDays, "webhook-payload-retention-days",
		"must be between 1 and 365")
	k.require(event >= 1 && event <= maxEventRetentionDays, "webhook-event-retention-days", "must be between 1 and 3650")
	// The default yields to a shorter retention of events; an explicit value would be ignored.
	k.require(payload <= event || c.origin("webhook-payload-retention-days").Source == sourceDefault,
		"webhook-payload-retention-days", "must not exceed webhook-event-retention-days")
}

func (k *checker) deliveries() {
	c := k.c
	const message = "must be between 1 and 10000"
	inRange := func(n int) bool { return n >= 1 && n <= maxConcurrency }
	k.require(inRange(c.DeliveryConcurrency), "delivery-concurrency", message)
	k.require(inRange(c.DeliveryConcurrencyPerHost), "delivery-concurrency-per-host", message)
	k.require(inRange(c.DeliveryConcurrencyPerSubscription), "delivery-concurrency-per-subscription", message)
}

func (k *checker) rates() {
	for _, l := range []struct {
		name             string
		perSecond, burst int
	}{
		{"rate-limit-key", k.c.RateLimitKeyPerSecond, k.c.RateLimitKeyBurst},
		{"rate-limit-user", k.c.RateLimitUserPerSecond, k.c.RateLimitUserBurst},
		{"rate-limit-address", k.c.RateLimitAddressPerSecond, k.c.RateLimitAddressBurst},
	} {
		k.require(l.perSecond >= 0 && l.perSecond <= maxRatePerSecond, l.name+"-per-second", "must be between 0 and 100000")
		k.require(l.burst >= 1 && l.burst <= maxRateBurst, l.name+"-burst", "must be between 1 and 1000000")
	}
}

func (k *checker) streams() {
	c := k.c
	const message = "must be between 1 and 10000"
	k.require(c.StreamMaxReaders >= 1 && c.StreamMaxReaders <= maxStreamReaders, "stream-max-readers", message)
	k.require(c.StreamMaxReadersPerEnvironment >= 1 && c.StreamMaxReadersPerEnvironment <= maxStreamReaders,
		"stream-max-readers-per-environment", message)
}

// isHostPort accepts what a listener can bind: any host, also none, and a port; port 0 takes a free one.
func isHostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " /") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && a.Unmap().IsLoopback())
}

func isBaseURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil &&
		u.Path == "" && u.Opaque == "" && !strings.ContainsAny(s, "?#")
}

func isPostgres(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && u.Opaque == ""
}
