// Package config is the server's configuration: one typed struct, filled from defaults, then a YAML file, then the
// environment, then flags, where the later wins. The tags of the struct are the only description of a setting: flags,
// variables, file keys, help text and the reference page come from them.
package config

import (
	"log/slog"
	"net/netip"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Config holds every setting. It is embedded in the command line's root struct; Loader fills it. The zero value is not
// usable: take Default.
//
// Tags: name is the flag and the file's key; the variable is SALLYPORT_ and the name in upper case with underscores;
// derived describes a default that depends on other settings; from restricts where a setting may come from.
type Config struct {
	File string `name:"config" type:"setting" from:"flag,environment" placeholder:"PATH" help:"YAML file with settings, one 'key: value' a line."`

	Listen      string `name:"listen" type:"setting" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public listener."`
	PublicURL   string `name:"public-url" type:"setting" derived:"http://<listen>, or https:// with a certificate" placeholder:"URL" help:"Scheme and host under which clients and providers reach this server; no path."`
	AdminListen string `name:"admin-listen" type:"setting" placeholder:"HOST:PORT" help:"Address of the listener for metrics, profiles and detailed health. Empty: off."`

	Data        string           `name:"data" type:"setting" default:"./data" placeholder:"DIR" help:"Folder of the SQLite database, the keyset and temporary files."`
	DatabaseURL secretbox.Secret `name:"database-url" type:"setting" derived:"SQLite in the data folder" placeholder:"URL" help:"PostgreSQL database, as postgres:// or postgresql:// URL."`
	Migrate     bool             `name:"migrate" type:"setting" default:"false" help:"Migrate a PostgreSQL database before serving. SQLite always migrates at start."`

	KeysetFile string           `name:"keyset-file" type:"setting" derived:"keyset.json in the data folder" placeholder:"PATH" help:"File with the encryption keyset, readable by its owner only."`
	Keyset     secretbox.Secret `kong:"-" name:"keyset" from:"environment" help:"The encryption keyset itself, as JSON, in place of keyset-file."`

	SetupTokenFile string           `name:"setup-token-file" type:"setting" placeholder:"PATH" help:"File with the token that sets up an installation without a team, 32 to 256 characters. Empty: each start logs one."`
	SetupToken     secretbox.Secret `kong:"-" name:"setup-token" from:"environment" help:"That token itself, in place of setup-token-file."`

	SMTPAddress      string           `name:"smtp-address" type:"setting" placeholder:"HOST:PORT" help:"Mail server for invitations and password resets. Empty: no mail is sent."`
	SMTPTLS          SMTPTLS          `name:"smtp-tls" type:"setting" default:"starttls" help:"How the connection to the mail server is secured: starttls, implicit (from the first byte), or none."`
	SMTPUser         string           `name:"smtp-user" type:"setting" placeholder:"NAME" help:"User name at the mail server. Empty: none is given."`
	SMTPPasswordFile string           `name:"smtp-password-file" type:"setting" placeholder:"PATH" help:"File with the password of smtp-user, read at start."`
	SMTPPassword     secretbox.Secret `kong:"-" name:"smtp-password" from:"environment" help:"That password itself, in place of smtp-password-file."`
	SMTPFrom         string           `name:"smtp-from" type:"setting" placeholder:"ADDRESS" help:"Sender of mails, such as sallyport@example.com or Sallyport <sallyport@example.com>."`

	ProvidersDir string `name:"providers-dir" type:"setting" placeholder:"DIR" help:"Folder of further provider definitions, one <slug>.yaml each, read again when they change. Empty: none."`

	EgressAllow     []netip.Prefix `name:"egress-allow" type:"setting" placeholder:"CIDR,..." help:"Private or reserved address ranges that outgoing requests may reach."`
	EgressAllowHTTP bool           `name:"egress-allow-http" type:"setting" default:"false" help:"Allow unencrypted http:// targets. Development mode implies it."`
	TrustedProxies  []netip.Prefix `name:"trusted-proxies" type:"setting" placeholder:"CIDR,..." help:"Address ranges of reverse proxies whose forwarding headers tell the client's address."`

	TLSCert string `name:"tls-cert" type:"setting" placeholder:"PATH" help:"Certificate chain of the public listener, PEM. Needs tls-key."`
	TLSKey  string `name:"tls-key" type:"setting" placeholder:"PATH" help:"Private key of tls-cert, PEM."`

	LogFormat LogFormat  `name:"log-format" type:"setting" default:"auto" help:"json, text, or auto: text on a terminal, otherwise json."`
	LogLevel  slog.Level `name:"log-level" type:"setting" default:"info" help:"Least level that is logged: debug, info, warn or error."`

	Dev bool `name:"dev" type:"setting" default:"false" from:"flag" help:"Development mode: loopback listeners only, targets on loopback and over http:// allowed, credentials made by themselves."`

	ShutdownTimeout time.Duration `name:"shutdown-timeout" type:"setting" default:"30s" help:"How long a stop waits for requests and deliveries under way; above 0, up to 1h."`

	WebhookMaxBodyBytes      int64         `name:"webhook-max-body-bytes" type:"setting" default:"26214400" placeholder:"N" help:"Largest body of any inbound webhook in bytes, up to 26214400, whatever its connection allows (10485760 unless set there); larger ones get 413."`
	WebhookMemoryBudgetBytes int64         `name:"webhook-memory-budget-bytes" type:"setting" default:"67108864" placeholder:"N" help:"Bytes of inbound bodies over 4 KiB held in memory at once, at least 1048576, half of them by one sender; beyond it senders get 503."`
	WebhookDedupeWindow      time.Duration `name:"webhook-dedupe-window" type:"setting" default:"1h" help:"How long an equal body counts as a duplicate where the provider sends no id, up to 720h. 0: off."`

	WebhookPayloadRetentionDays int `name:"webhook-payload-retention-days" type:"setting" default:"30" placeholder:"N" help:"Days for which headers and bodies of events are kept where their environment sets nothing, 1 to 365, and never longer than the events."`
	WebhookEventRetentionDays   int `name:"webhook-event-retention-days" type:"setting" default:"90" placeholder:"N" help:"Days for which events are kept, with their deliveries, attempts and keys, where their environment sets nothing, 1 to 3650."`

	DeliveryConcurrency                int `name:"delivery-concurrency" type:"setting" default:"256" placeholder:"N" help:"Deliveries under way at once on this node, 1 to 10000."`
	DeliveryConcurrencyPerHost         int `name:"delivery-concurrency-per-host" type:"setting" default:"50" placeholder:"N" help:"Deliveries under way at once to one host, 1 to 10000."`
	DeliveryConcurrencyPerSubscription int `name:"delivery-concurrency-per-subscription" type:"setting" default:"10" placeholder:"N" help:"Deliveries under way at once for one subscription, 1 to 10000."`

	StreamMaxReaders               int `name:"stream-max-readers" type:"setting" default:"2000" placeholder:"N" help:"Open streams of events on this node, 1 to 10000; whoever comes after that gets 503."`
	StreamMaxReadersPerEnvironment int `name:"stream-max-readers-per-environment" type:"setting" default:"1000" placeholder:"N" help:"Open streams of one environment on this node, 1 to 10000; whoever comes after that gets 429."`

	RateLimitKeyPerSecond     int `name:"rate-limit-key-per-second" type:"setting" default:"100" placeholder:"N" help:"Requests a second of each API key without a limit of its own, for all nodes together, up to 100000. 0: no limit."`
	RateLimitKeyBurst         int `name:"rate-limit-key-burst" type:"setting" default:"500" placeholder:"N" help:"Requests that each such API key may make at once after a pause, 1 to 1000000."`
	RateLimitUserPerSecond    int `name:"rate-limit-user-per-second" type:"setting" default:"100" placeholder:"N" help:"Requests a second of each signed-in user, up to 100000. 0: no limit."`
	RateLimitUserBurst        int `name:"rate-limit-user-burst" type:"setting" default:"500" placeholder:"N" help:"Requests that each user may make at once after a pause, 1 to 1000000."`
	RateLimitAddressPerSecond int `name:"rate-limit-address-per-second" type:"setting" default:"20" placeholder:"N" help:"Requests a second from each address (of IPv6, each network of 64 bits) without a valid credential, sign-ins among them, up to 100000. Inbound webhooks are not counted. 0: no limit."`
	RateLimitAddressBurst     int `name:"rate-limit-address-burst" type:"setting" default:"100" placeholder:"N" help:"Such requests that each address may make at once after a pause, 1 to 1000000."`

	origins map[string]Origin // of settings that do not have their default
}

// LogFormat is the form of log lines.
type LogFormat string

// The log formats. LogAuto is text on a terminal and JSON elsewhere.
const (
	LogAuto LogFormat = "auto"
	LogJSON LogFormat = "json"
	LogText LogFormat = "text"
)

// SMTPTLS is how the connection to the mail server is secured.
type SMTPTLS string

// The ways to secure the connection to the mail server.
const (
	SMTPStartTLS SMTPTLS = "starttls"
	SMTPImplicit SMTPTLS = "implicit"
	SMTPNone     SMTPTLS = "none"
)

// Limits of settings, as Validate holds them.
const (
	// WebhookBodyHardLimit is the most that webhook-max-body-bytes may be: 25 MiB.
	WebhookBodyHardLimit int64 = 25 << 20

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

// Source is where a value came from.
type Source string

// The sources, the later wins.
const (
	SourceDefault     Source = "default"
	SourceFile        Source = "file"
	SourceEnvironment Source = "environment"
	SourceFlag        Source = "flag"
)

// Origin is the place of a value.
type Origin struct {
	Source Source
	// Name is the file's path, the variable or the flag; empty for a default.
	Name string
	// Line is the line in the file, from 1; 0 elsewhere.
	Line int
}

// Origin returns where the value of a setting came from, by the setting's name.
func (c *Config) Origin(name string) Origin {
	if o, ok := c.origins[name]; ok {
		return o
	}
	return Origin{Source: SourceDefault}
}

// SQLite reports whether the embedded database is used.
func (c *Config) SQLite() bool { return c.DatabaseURL == "" }
