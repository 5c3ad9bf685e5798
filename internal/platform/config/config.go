// Package config is the server's configuration: one typed struct, filled from defaults, a YAML file, the environment
// and flags. Later sources take precedence. The tags of the struct are the only description of a setting: flags,
// variables, file keys, help texts and the reference page come from them.
package config

import (
	"log/slog"
	"net/netip"
	"time"

	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

// Config holds every setting. It is embedded in the command line's root struct, and Loader fills it. The zero value is
// not usable: call Default.
//
// The tag name is the flag and the key in the file. The variable is SALLYPORT_ and the name in upper case with
// underscores. derived describes a default that depends on other settings. from restricts the sources of a setting.
type Config struct {
	File string `name:"config" type:"setting" from:"flag,environment" placeholder:"PATH" help:"YAML file with settings, one 'key: value' a line."`

	Role role.Role `name:"role" type:"setting" default:"all" help:"Part of the work that this node does: all; api, which receives webhooks and serves the API, and sends nothing; or worker, which sends deliveries and serves only health and metrics. With api or worker there must be nodes of the other role, and PostgreSQL."`

	Listen      string `name:"listen" type:"setting" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public listener."`
	PublicURL   string `name:"public-url" type:"setting" derived:"http://<listen>, or https:// with a certificate" placeholder:"URL" help:"Scheme and host that clients and providers use to reach this server; no path."`
	AdminListen string `name:"admin-listen" type:"setting" placeholder:"HOST:PORT" help:"Address of the listener for metrics, profiles and detailed health. Empty: off."`

	Data        string           `name:"data" type:"setting" default:"./data" placeholder:"DIR" help:"Folder of the SQLite database, the keyset and temporary files."`
	DatabaseURL secretbox.Secret `name:"database-url" type:"setting" derived:"SQLite in the data folder" placeholder:"URL" help:"PostgreSQL database, as postgres:// or postgresql:// URL."`
	Migrate     bool             `name:"migrate" type:"setting" default:"false" help:"Migrate a PostgreSQL database before serving. SQLite always migrates at start."`

	KeysetFile string           `name:"keyset-file" type:"setting" derived:"keyset.json in the data folder" placeholder:"PATH" help:"File with the encryption keyset, readable by its owner only."`
	Keyset     secretbox.Secret `kong:"-" name:"keyset" from:"environment" help:"The encryption keyset itself, as JSON, instead of keyset-file."`

	SetupTokenFile string           `name:"setup-token-file" type:"setting" placeholder:"PATH" help:"File with the token that sets up an installation without a team, 32 to 256 characters. Empty: each start creates a token and logs it."`
	SetupToken     secretbox.Secret `kong:"-" name:"setup-token" from:"environment" help:"The token itself, instead of setup-token-file."`

	SMTPAddress      string           `name:"smtp-address" type:"setting" placeholder:"HOST:PORT" help:"Mail server for invitations and password resets. Empty: no mail is sent."`
	SMTPTLS          SMTPTLS          `name:"smtp-tls" type:"setting" default:"starttls" help:"Encryption of the connection to the mail server: starttls, implicit (from the first byte), or none."`
	SMTPUser         string           `name:"smtp-user" type:"setting" placeholder:"NAME" help:"User name at the mail server. Empty: no authentication."`
	SMTPPasswordFile string           `name:"smtp-password-file" type:"setting" placeholder:"PATH" help:"File with the password of smtp-user, read at start."`
	SMTPPassword     secretbox.Secret `kong:"-" name:"smtp-password" from:"environment" help:"The password itself, instead of smtp-password-file."`
	SMTPFrom         string           `name:"smtp-from" type:"setting" placeholder:"ADDRESS" help:"Sender of mails, such as sallyport@example.com or Sallyport <sallyport@example.com>. Required with smtp-address."`

	ProvidersDir string `name:"providers-dir" type:"setting" placeholder:"DIR" help:"Folder of additional provider definitions, one <slug>.yaml each, reloaded when they change. Empty: none."`

	EgressAllow     []netip.Prefix `name:"egress-allow" type:"setting" placeholder:"CIDR" help:"Private or reserved address ranges that outgoing requests may reach."`
	EgressAllowHTTP bool           `name:"egress-allow-http" type:"setting" default:"false" help:"Allow unencrypted http:// targets. Development mode implies it."`
	TrustedProxies  []netip.Prefix `name:"trusted-proxies" type:"setting" placeholder:"CIDR" help:"Address ranges of reverse proxies. Their forwarding headers determine the client's address."`

	TLSCert string `name:"tls-cert" type:"setting" placeholder:"PATH" help:"Certificate chain of the public listener, PEM. Requires tls-key."`
	TLSKey  string `name:"tls-key" type:"setting" placeholder:"PATH" help:"Private key of tls-cert, PEM."`

	LogFormat LogFormat  `name:"log-format" type:"setting" default:"auto" help:"json, text, or auto: text on a terminal, otherwise json."`
	LogLevel  slog.Level `name:"log-level" type:"setting" default:"info" help:"Lowest level that is logged: debug, info, warn or error."`

	Dev bool `name:"dev" type:"setting" default:"false" from:"flag" help:"Development mode: listens only on loopback, allows targets on loopback and over http://, and creates credentials automatically."`

	ShutdownTimeout time.Duration `name:"shutdown-timeout" type:"setting" default:"30s" help:"Time that a stopping server waits for requests and deliveries in progress; above 0, up to 1h."`

	WebhookMaxBodyBytes      int64         `name:"webhook-max-body-bytes" type:"setting" default:"26214400" placeholder:"N" help:"Largest body of any inbound webhook in bytes, up to 26214400. A connection may set a lower limit (10485760 by default). Larger bodies get a 413."`
	WebhookMemoryBudgetBytes int64         `name:"webhook-memory-budget-bytes" type:"setting" default:"67108864" placeholder:"N" help:"Total bytes of inbound bodies over 4 KiB in memory, at least 1048576. One sender may use half. Senders over the limit get a 503."`
	WebhookDedupeWindow      time.Duration `name:"webhook-dedupe-window" type:"setting" default:"1h" help:"Time for which bodies are compared if the connection does not set it, up to 720h: an equal body is a duplicate if the provider sends no id and its bodies are unique, and suspect if its id is not signed. 0: off."`

	WebhookPayloadRetentionDays int `name:"webhook-payload-retention-days" type:"setting" default:"30" placeholder:"N" help:"Days to keep headers and bodies of events, 1 to 365, unless their environment sets it. At most the days for events."`
	WebhookEventRetentionDays   int `name:"webhook-event-retention-days" type:"setting" default:"90" placeholder:"N" help:"Days to keep events with their deliveries, attempts and keys, 1 to 3650, unless their environment sets it."`

	DeliveryConcurrency                int `name:"delivery-concurrency" type:"setting" default:"256" placeholder:"N" help:"Concurrent deliveries on this node, 1 to 10000."`
	DeliveryConcurrencyPerHost         int `name:"delivery-concurrency-per-host" type:"setting" default:"50" placeholder:"N" help:"Concurrent deliveries to one host, 1 to 10000."`
	DeliveryConcurrencyPerSubscription int `name:"delivery-concurrency-per-subscription" type:"setting" default:"10" placeholder:"N" help:"Concurrent deliveries of one subscription, 1 to 10000."`

	ConnectionCheckInterval time.Duration `name:"connection-check-interval" type:"setting" default:"1h" help:"Time between two tests of the credentials of each connection, from 1m to 168h. Those that fail are tested less often. 0: only on request."`

	StreamMaxReaders               int `name:"stream-max-readers" type:"setting" default:"2000" placeholder:"N" help:"Open event streams on this node, 1 to 10000; further ones get a 503."`
	StreamMaxReadersPerEnvironment int `name:"stream-max-readers-per-environment" type:"setting" default:"1000" placeholder:"N" help:"Open streams of one environment on this node, 1 to 10000; further ones get a 429."`

	RateLimitKeyPerSecond     int `name:"rate-limit-key-per-second" type:"setting" default:"100" placeholder:"N" help:"Requests a second of each API key without its own limit, for all nodes together, up to 100000. 0: no limit."`
	RateLimitKeyBurst         int `name:"rate-limit-key-burst" type:"setting" default:"500" placeholder:"N" help:"Requests that each such API key may make in one burst after a pause, 1 to 1000000."`
	RateLimitUserPerSecond    int `name:"rate-limit-user-per-second" type:"setting" default:"100" placeholder:"N" help:"Requests a second of each signed-in user, up to 100000. 0: no limit."`
	RateLimitUserBurst        int `name:"rate-limit-user-burst" type:"setting" default:"500" placeholder:"N" help:"Requests that each user may make in one burst after a pause, 1 to 1000000."`
	RateLimitAddressPerSecond int `name:"rate-limit-address-per-second" type:"setting" default:"20" placeholder:"N" help:"Requests a second from each address (for IPv6, each /64 network) without a valid credential, including sign-ins, up to 100000. Inbound webhooks do not count. 0: no limit."`
	RateLimitAddressBurst     int `name:"rate-limit-address-burst" type:"setting" default:"100" placeholder:"N" help:"Such requests that each address may make in one burst after a pause, 1 to 1000000."`

	origins map[string]settingOrigin // of settings that do not have their default
}

// LogFormat is the format of log lines.
type LogFormat string

// The log formats. LogAuto is text on a terminal and JSON otherwise.
const (
	LogAuto LogFormat = "auto"
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// SMTPTLS is the encryption of the connection to the mail server.
type SMTPTLS string

// The kinds of encryption of the connection to the mail server.
const (
	SMTPStartTLS SMTPTLS = "starttls"
	SMTPImplicit SMTPTLS = "implicit"
	SMTPNone     SMTPTLS = "none"
)

// Limits of settings.
const (
	// webhookBodyHardLimit is the maximum of webhook-max-body-bytes. A test of internal/app compares it with that of
	// connections, which this package cannot import.
	webhookBodyHardLimit int64 = 25 << 20

	webhookBudgetMinimum    int64 = 1 << 20
	maxDedupeWindow               = 30 * 24 * time.Hour
	maxShutdownTimeout            = time.Hour
	maxConcurrency                = 10000
	maxPayloadRetentionDays       = 365
	maxEventRetentionDays         = 3650
	maxStreamReaders              = 10000
	maxRatePerSecond              = 100_000
	maxRateBurst                  = 1_000_000
)

// settingSource is the kind of place that a value comes from.
type settingSource string

// The sources, in ascending precedence.
const (
	sourceDefault     settingSource = "default"
	sourceFile        settingSource = "file"
	sourceEnvironment settingSource = "environment"
	sourceFlag        settingSource = "flag"
)

// settingOrigin is the place of a value.
type settingOrigin struct {
	Source settingSource
	// Name is the file's path, the variable or the flag; empty for a default.
	Name string
	// Line is the line in the file, from 1; 0 for other sources.
	Line int
}

// origin returns where the value of a setting came from, by the setting's name.
func (c *Config) origin(name string) settingOrigin {
	if o, ok := c.origins[name]; ok {
		return o
	}
	return settingOrigin{Source: sourceDefault}
}

// SQLite reports whether the embedded database is used.
func (c *Config) SQLite() bool { return c.DatabaseURL == "" }
