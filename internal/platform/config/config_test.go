package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

// file stands for the one file on a machine.
func file(text string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		if path != "sallyport.yaml" {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
}

// problems loads and returns the problems' lines, or nil.
func problems(t *testing.T, args, environ []string, text string) []string {
	t.Helper()
	_, err := Load(append([]string{"--config=sallyport.yaml"}, args...), environ, file(text))
	if err == nil {
		return nil
	}
	var all problemList
	require.ErrorAs(t, err, &all)
	var lines []string
	for _, f := range all {
		lines = append(lines, f.String())
	}
	return lines
}

// samples returns three different acceptable values of each type, for the three layers.
func samples(t *testing.T, s setting) [3]string {
	t.Helper()
	var c Config
	switch s.name {
	case "listen", "admin-listen":
		return [3]string{"127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003"}
	case "public-url":
		return [3]string{"https://a.example", "https://b.example", "https://c.example"}
	case "database-url":
		return [3]string{"postgres://a/x", "postgres://b/x", "postgresql://c/x"}
	case "smtp-address":
		return [3]string{"a:25", "b:25", "c:25"}
	case "smtp-from":
		return [3]string{"a@example.com", "b@example.com", "c@example.com"}
	case "smtp-tls":
		return [3]string{"implicit", "starttls", "implicit"}
	case "connection-check-interval":
		return [3]string{"11m0s", "12m0s", "13m0s"}
	case "webhook-memory-budget-bytes":
		return [3]string{"1048577", "1048578", "1048579"}
	}
	switch v := s.value(&c).Interface().(type) {
	case bool:
		return [3]string{"true", "false", "true"}
	case int, int64:
		return [3]string{"11", "12", "13"}
	case time.Duration:
		return [3]string{"11s", "12s", "13s"}
	case []netip.Prefix:
		return [3]string{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"}
	case role.Role:
		return [3]string{"worker", "api", "worker"}
	case LogFormat:
		return [3]string{"json", "text", "json"}
	case string:
		return [3]string{"/a", "/b", "/c"}
	default:
		if s.name == "log-level" {
			return [3]string{"debug", "warn", "error"}
		}
		t.Fatalf("no samples for %s of type %T", s.name, v)
		return [3]string{}
	}
}

// normal returns a setting's default in the form that format gives: 1h as 1h0m0s.
func normal(t *testing.T, s setting) string {
	t.Helper()
	var c Config
	require.NoError(t, parseInto(s.value(&c), s.def))
	return format(s.value(&c))
}

// The later layer wins, for every setting there is and will be: a key that one layer forgets would be found here.
func TestPrecedenceOfEverySetting(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		if !s.file {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			v := samples(t, s)
			text := fmt.Sprintf("# comment\n%s: %q\n", s.name, v[0])
			environ := []string{s.variable() + "=" + v[1]}
			// Certificate and key only come together, and roles with PostgreSQL.
			switch s.name {
			case "tls-cert":
				text += "tls-key: /k\n"
			case "role":
				text += "database-url: postgres://h/d\n"
			case "tls-key":
				text += "tls-cert: /k\n"
			case "smtp-address":
				text += "smtp-from: a@example.com\n"
			case "smtp-from":
				text += "smtp-address: m:25\n"
			case "smtp-user":
				text += "smtp-address: m:25\nsmtp-from: a@example.com\nsmtp-password-file: /p\n"
			case "smtp-password-file":
				text += "smtp-address: m:25\nsmtp-from: a@example.com\nsmtp-user: u\n"
			}
			layers := []struct {
				args, environ []string
				want          string
				origin        settingOrigin
			}{
				{nil, nil, v[0], settingOrigin{sourceFile, "sallyport.yaml", 2}},
				{nil, environ, v[1], settingOrigin{sourceEnvironment, s.variable(), 0}},
				{[]string{"--" + s.name + "=" + v[2]}, environ, v[2], settingOrigin{sourceFlag, "--" + s.name, 0}},
			}
			for _, l := range layers {
				c, err := Load(append(l.args, "--config=sallyport.yaml"), l.environ, file(text))
				require.NoError(t, err)
				require.Equal(t, l.want, format(s.value(&c)))
				require.Equal(t, l.origin, c.origin(s.name))
			}
			c, err := Load(nil, nil, file(""))
			require.NoError(t, err)
			require.Equal(t, settingOrigin{Source: sourceDefault}, c.origin(s.name))
			if s.def != "" {
				require.Equal(t, normal(t, s), format(s.value(&c)))
			}
		})
	}
}

// Default is the configuration of a bare start. It is valid: a default that its own type or rule refuses is a broken
// build.
func TestDefaultsAreTheBareStart(t *testing.T) {
	t.Parallel()
	bare, err := Load(nil, nil, file(""))
	require.NoError(t, err)
	def := Default()
	for _, s := range settings() {
		require.Equal(t, format(s.value(&bare)), format(s.value(&def)), s.name)
		if s.def != "" {
			require.Equal(t, normal(t, s), format(s.value(&def)), s.name)
		}
	}
	require.Empty(t, def.validate())
	require.Equal(t, "http://127.0.0.1:8080", def.PublicURL)
	require.Equal(t, "data/keyset.json", def.KeysetFile)
	require.True(t, def.SQLite())
}

// Every exported field is a described setting: a field without tags would be configurable nowhere.
func TestEveryFieldIsASetting(t *testing.T) {
	t.Parallel()
	typ := reflect.TypeFor[Config]()
	exported := 0
	for i := range typ.NumField() {
		if typ.Field(i).IsExported() {
			exported++
		}
	}
	all := settings()
	require.Len(t, all, exported)
	seen := map[string]bool{}
	for _, s := range all {
		require.NotEmpty(t, s.help, s.name)
		require.False(t, seen[s.name], s.name)
		seen[s.name] = true
	}
}

// All problems come together, each with its place: an operator corrects them in one go.
func TestAllProblemsTogether(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"listen: nonsense",                 // 1
		"webhook_dedupe_window: 1h",        // 2
		"colour: blue",                     // 3
		"egress-allow:",                    // 4
		"  - 10.0.0.0/8",                   // 5
		"  - 10.0.0.1/8",                   // 6
		"log-level: loud",                  // 7
		"delivery-concurrency: {a: 1}",     // 8
		"shutdown-timeout:",                // 9
		"data: /a",                         // 10
		"data: /b",                         // 11
		"tls-cert: /cert.pem",              // 12
		"database-url: mysql://u:hunter2@", // 13
	}, "\n")
	environ := []string{"SALLYPORT_MIGRATE=perhaps", "SALLYPORT_WEBHOOK_MAX_BODY_BYTES=26214401",
		"SALLYPORT_TRUSTED_PROXIES=x,y"}
	got := problems(t, []string{"--delivery-concurrency-per-host=many"}, environ, text)
	require.ElementsMatch(t, []string{
		"listen (sallyport.yaml, line 1): is not an address such as 127.0.0.1:8080",
		"webhook_dedupe_window (sallyport.yaml, line 2): is not a setting, did you mean webhook-dedupe-window?",
		"colour (sallyport.yaml, line 3): is not a setting",
		`egress-allow (sallyport.yaml, line 4): "10.0.0.1/8" has bits set after its prefix length: did you mean 10.0.0.0/8?`,
		"log-level (sallyport.yaml, line 7): is not one of debug, info, warn, error",
		"delivery-concurrency (sallyport.yaml, line 8): is neither a single value nor a list of values",
		"shutdown-timeout (sallyport.yaml, line 9): has no value; remove the key or write an empty string",
		"data (sallyport.yaml, line 11): is set twice, first in line 10",
		"tls-cert (sallyport.yaml, line 12): requires tls-key",
		"database-url (sallyport.yaml, line 13): must be a postgres:// or postgresql:// URL",
		"migrate (SALLYPORT_MIGRATE): is neither true nor false",
		"webhook-max-body-bytes (SALLYPORT_WEBHOOK_MAX_BODY_BYTES): must be between 1 and 26214400",
		`trusted-proxies (SALLYPORT_TRUSTED_PROXIES): "x" is not an address range such as 10.1.0.0/16; "y" is not an ` +
			`address range such as 10.1.0.0/16`,
		"delivery-concurrency-per-host: is not a whole number",
	}, got)
	require.NotContains(t, problemList{{Key: "a", Message: strings.Join(got, "")}}.Error(), "hunter2")
}

// Each rule refuses its own breach, and no other error is reported.
func TestRules(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		args, environ []string
		key           string // "" when all is well
	}{
		"dev on loopback":              {args: []string{"--dev"}},
		"dev on localhost":             {args: []string{"--dev", "--listen=localhost:0"}},
		"dev on IPv6 loopback":         {args: []string{"--dev", "--listen=[::1]:8080"}},
		"dev on all addresses":         {args: []string{"--dev", "--listen=:8080"}, key: "listen"},
		"dev on 0.0.0.0":               {args: []string{"--dev", "--listen=0.0.0.0:8080"}, key: "listen"},
		"dev on a name":                {args: []string{"--dev", "--listen=gateway:8080"}, key: "listen"},
		"dev with open admin":          {args: []string{"--dev", "--admin-listen=:9090"}, key: "admin-listen"},
		"open without dev":             {args: []string{"--listen=:8080"}},
		"port over 65535":              {args: []string{"--listen=127.0.0.1:65536"}, key: "listen"},
		"admin on the public address":  {args: []string{"--admin-listen=127.0.0.1:8080"}, key: "admin-listen"},
		"public URL with slash":        {args: []string{"--public-url=https://a.example/"}},
		"public URL with path":         {args: []string{"--public-url=https://a.example/x"}, key: "public-url"},
		"public URL with query":        {args: []string{"--public-url=https://a.example?x"}, key: "public-url"},
		"public URL with user":         {args: []string{"--public-url=https://u@a.example"}, key: "public-url"},
		"public URL of another scheme": {args: []string{"--public-url=ftp://a.example"}, key: "public-url"},
		"relative public URL":          {args: []string{"--public-url=a.example"}, key: "public-url"},
		"key without certificate":      {args: []string{"--tls-key=/k"}, key: "tls-key"},
		"both keysets": {args: []string{"--keyset-file=/k"}, environ: []string{"SALLYPORT_KEYSET={}"},
			key: "keyset"},
		"short set-up token": {environ: []string{"SALLYPORT_SETUP_TOKEN=hunter2"}, key: "setup-token"},
		"set-up token of two words": {environ: []string{"SALLYPORT_SETUP_TOKEN=0123456789abcdef 0123456789abcdef"},
			key: "setup-token"},
		"set-up token": {environ: []string{"SALLYPORT_SETUP_TOKEN=0123456789abcdef0123456789abcdef"}},
		"both set-up tokens": {args: []string{"--setup-token-file=/t"},
			environ: []string{"SALLYPORT_SETUP_TOKEN=0123456789abcdef0123456789abcdef"}, key: "setup-token"},
		"mail server": {args: []string{"--smtp-address=mail.example.com:587",
			"--smtp-from=Sallyport <s@example.com>"}},
		"mail server with user": {args: []string{"--smtp-address=m:465", "--smtp-from=s@e.com", "--smtp-user=u",
			"--smtp-tls=implicit"}, environ: []string{"SALLYPORT_SMTP_PASSWORD=p"}},
		"mail server without port": {args: []string{"--smtp-address=mail.example.com", "--smtp-from=s@e.com"},
			key: "smtp-address"},
		"mail server without host":     {args: []string{"--smtp-address=:587", "--smtp-from=s@e.com"}, key: "smtp-address"},
		"mail without sender":          {args: []string{"--smtp-address=m:25"}, key: "smtp-from"},
		"mail from an invalid address": {args: []string{"--smtp-address=m:25", "--smtp-from=nobody"}, key: "smtp-from"},
		"mail secured otherwise": {args: []string{"--smtp-address=m:25", "--smtp-from=s@e.com", "--smtp-tls=ssl"},
			key: "smtp-tls"},
		"mail user in the clear": {args: []string{"--smtp-address=m:25", "--smtp-from=s@e.com", "--smtp-user=u",
			"--smtp-password-file=/p", "--smtp-tls=none"}, key: "smtp-user"},
		"mail user without password": {args: []string{"--smtp-address=m:25", "--smtp-from=s@e.com", "--smtp-user=u"},
			key: "smtp-user"},
		"mail password without user": {args: []string{"--smtp-address=m:25", "--smtp-from=s@e.com",
			"--smtp-password-file=/p"}, key: "smtp-user"},
		"sender without mail server": {args: []string{"--smtp-from=s@e.com"}, key: "smtp-from"},
		"both mail passwords": {args: []string{"--smtp-address=m:25", "--smtp-from=s@e.com", "--smtp-user=u",
			"--smtp-password-file=/p"}, environ: []string{"SALLYPORT_SMTP_PASSWORD=p"}, key: "smtp-password"},
		"role of another kind":     {args: []string{"--role=sender", "--database-url=postgres://h/d"}, key: "role"},
		"worker on SQLite":         {args: []string{"--role=worker"}, key: "role"},
		"api on SQLite":            {args: []string{"--role=api"}, key: "role"},
		"worker on PostgreSQL":     {args: []string{"--role=worker", "--database-url=postgres://h/d"}},
		"all on PostgreSQL":        {args: []string{"--role=all", "--database-url=postgres://h/d"}},
		"database of another kind": {args: []string{"--database-url=sqlite://x"}, key: "database-url"},
		"dedupe off":               {args: []string{"--webhook-dedupe-window=0"}},
		"payloads for ever": {args: []string{"--webhook-payload-retention-days=366",
			"--webhook-event-retention-days=400"}, key: "webhook-payload-retention-days"},
		"payloads not at all": {args: []string{"--webhook-payload-retention-days=0"},
			key: "webhook-payload-retention-days"},
		"payloads over events": {args: []string{"--webhook-payload-retention-days=30",
			"--webhook-event-retention-days=29"}, key: "webhook-payload-retention-days"},
		"payloads as long as events": {args: []string{"--webhook-payload-retention-days=30",
			"--webhook-event-retention-days=30"}},
		"events under the default": {args: []string{"--webhook-event-retention-days=29"}},
		"events for ever": {args: []string{"--webhook-event-retention-days=3651"},
			key: "webhook-event-retention-days"},
		"dedupe negative":  {args: []string{"--webhook-dedupe-window=-1s"}, key: "webhook-dedupe-window"},
		"no shutdown time": {args: []string{"--shutdown-timeout=0"}, key: "shutdown-timeout"},
		"no concurrency":   {args: []string{"--delivery-concurrency=0"}, key: "delivery-concurrency"},
		"no streams":       {args: []string{"--stream-max-readers=0"}, key: "stream-max-readers"},
		"too many streams": {args: []string{"--stream-max-readers-per-environment=10001"},
			key: "stream-max-readers-per-environment"},
		"no concurrency a subscription": {args: []string{"--delivery-concurrency-per-subscription=10001"},
			key: "delivery-concurrency-per-subscription"},
		"small budget":           {args: []string{"--webhook-memory-budget-bytes=1"}, key: "webhook-memory-budget-bytes"},
		"empty data":             {args: []string{"--data="}, key: "data"},
		"file that is not there": {args: []string{"--config=missing.yaml"}, key: "config"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(c.args, c.environ, file(""))
			if c.key == "" {
				require.NoError(t, err)
				return
			}
			var all problemList
			require.ErrorAs(t, err, &all)
			require.Len(t, all, 1)
			require.Equal(t, c.key, all[0].Key)
		})
	}
}

// Only the flag turns development mode on: neither a variable nor a file left over from a laptop may.
func TestDevModeByFlagOnly(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"dev (SALLYPORT_DEV): is set by the flag --dev only"},
		problems(t, nil, []string{"SALLYPORT_DEV=true"}, ""))
	require.Equal(t, []string{"dev (sallyport.yaml, line 1): is set by the flag --dev only"},
		problems(t, nil, nil, "dev: true"))
	require.Equal(t, []string{"keyset (sallyport.yaml, line 1): is set by the variable SALLYPORT_KEYSET only"},
		problems(t, nil, nil, "keyset: x"))
	require.Equal(t, []string{"config (sallyport.yaml, line 1): is set by --config or SALLYPORT_CONFIG only"},
		problems(t, nil, nil, "config: x"))

	c, err := Load([]string{"--dev"}, nil, file(""))
	require.NoError(t, err)
	require.True(t, c.Dev)
	require.True(t, c.EgressAllowHTTP)
	require.Equal(t, sourceFlag, c.origin("egress-allow-http").Source)
}

// A file that is no flat mapping is refused with its line, and its text, which may hold a password, is not quoted.
func TestMalformedFiles(t *testing.T) {
	t.Parallel()
	for text, line := range map[string]int{
		"- listen":                             0,
		"a: 1\n---\nb: 2":                      0,
		"data: /a\ndatabase-url: [hunter2":     2,
		"\tdata: hunter2":                      1,
		"data: \"hunter2":                      1,
		"database-url: postgres://a: hunter2@": 1,
	} {
		_, err := Load([]string{"--config=sallyport.yaml"}, nil, file(text))
		var all problemList
		require.ErrorAs(t, err, &all, text)
		require.NotContains(t, err.Error(), "hunter2")
		require.Equal(t, line, all[0].Origin.Line, text)
	}
	require.Empty(t, problems(t, nil, nil, ""))
	require.Empty(t, problems(t, nil, nil, "# nothing yet\n"))
}

// Commands with flags of their own parse alongside the settings, also flags with the name of a setting that is in no
// command, and an invalid setting does not keep kong from parsing.
func TestEmbeddedInACommandLine(t *testing.T) {
	t.Parallel()
	var cli struct {
		Config `embed:""`
		Serve  struct{} `cmd:""`
		Keys   struct {
			Label string `name:"label"`
		} `cmd:""`
	}
	l := NewLoader([]string{"SALLYPORT_LABEL=not-a-setting", "SALLYPORT_CONFIG=sallyport.yaml", "SALLYPORT_LISTEN="},
		file("listen: :80\nlog-level: warn\n"), "SALLYPORT_LABEL")
	parser, err := kong.New(&cli, l.Options()...)
	require.NoError(t, err)
	kctx, err := parser.Parse([]string{"--migrate", "keys", "--label=x", "--egress-allow=10.0.0.0/8",
		"--egress-allow=fd00::/8,192.168.1.5", "--delivery-concurrency=x"})
	require.NoError(t, err)
	require.Equal(t, "keys", kctx.Command())
	require.Equal(t, "x", cli.Keys.Label)

	err = l.Complete(kctx, &cli.Config)
	require.Equal(t, problemList{{"delivery-concurrency", settingOrigin{sourceFlag, "--delivery-concurrency", 0},
		"is not a whole number"}}, err)
	require.Equal(t, ":80", cli.Listen, "an empty variable counts as not set")
	require.Equal(t, "http://localhost:80", cli.PublicURL)
	require.True(t, cli.Migrate)
	require.Equal(t, "10.0.0.0/8,fd00::/8,192.168.1.5/32", format(reflect.ValueOf(&cli.EgressAllow).Elem()))
	require.Equal(t, settingOrigin{sourceEnvironment, "SALLYPORT_CONFIG", 0}, cli.origin("config"))
}

// A mistyped flag is an error of the command line, not a value that is passed over.
func TestUnknownFlag(t *testing.T) {
	t.Parallel()
	_, err := Load([]string{"--lissten=:80"}, nil, file(""))
	require.ErrorContains(t, err, "--lissten")
	var all problemList
	require.NotErrorAs(t, err, &all)
}

// The keyset comes from its variable, and a certificate makes the derived URL https.
func TestEnvironmentOnlyAndDerived(t *testing.T) {
	t.Parallel()
	c, err := Load([]string{"--tls-cert=/c", "--tls-key=/k", "--listen=gw.example:443", "--data=/var/lib/s"},
		[]string{"SALLYPORT_KEYSET= {} "}, file(""))
	require.NoError(t, err)
	require.Equal(t, secretbox.Secret("{}"), c.Keyset)
	require.Equal(t, "https://gw.example:443", c.PublicURL)
	require.Equal(t, "/var/lib/s/keyset.json", c.KeysetFile)
}

// A variable that begins as a setting's does and is none is an error with a suggestion, because a mistyped setting
// would silently keep its default. Variables of the program, of tests and of Kubernetes' services are none of ours.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	check := func(environ ...string) []string {
		l := NewLoader(environ, file(""), "SALLYPORT_SERVER", "SALLYPORT_API_KEY")
		var cli struct {
			Config `embed:""`
		}
		kctx, err := kong.Must(&cli, l.Options()...).Parse(nil)
		require.NoError(t, err)
		if err := l.Complete(kctx, &cli.Config); err != nil {
			return strings.Split(err.Error(), "\n")[1:]
		}
		return nil
	}
	require.Equal(t, []string{
		"  SALLYPORT_DATABSE_URL (environment): is not a setting, did you mean SALLYPORT_DATABASE_URL?",
		"  SALLYPORT_LISTN (environment): is not a setting, did you mean SALLYPORT_LISTEN?",
		"  SALLYPORT_SEVRER (environment): is not a setting, did you mean SALLYPORT_SERVER?",
		"  SALLYPORT_ZZZZZZZZZZ (environment): is not a setting",
	}, check("SALLYPORT_LISTN=:80", "SALLYPORT_SEVRER=x", "SALLYPORT_ZZZZZZZZZZ=1",
		"SALLYPORT_DATABSE_URL=postgres://secret"))
	require.Empty(t, check("SALLYPORT_SERVER=x", "SALLYPORT_API_KEY=y", "SALLYPORT_LISTN=", "SALLY=1", "PATH=/bin",
		"SALLYPORT_TEST_LONG=1", "SALLYPORT_REQUIRE_NODE=1", "SALLYPORT_PORT=tcp://10.0.0.1:80",
		"SALLYPORT_SERVICE_HOST=10.0.0.1",
		"SALLYPORT_SERVICE_PORT=80", "SALLYPORT_SERVICE_PORT_HTTP=80", "SALLYPORT_PORT_80_TCP=tcp://10.0.0.1:80",
		"SALLYPORT_PORT_80_TCP_ADDR=10.0.0.1", "SALLYPORT_ADMIN_SERVICE_HOST=10.0.0.1",
		"SALLYPORT_ADMIN_PORT_80_TCP_PROTO=tcp"))
}

// A mistyped key of the file is an error with a suggestion.
func TestUnknownKeysSuggest(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"listn (sallyport.yaml, line 1): is not a setting, did you mean listen?",
		"qqqqqq (sallyport.yaml, line 2): is not a setting"}, problems(t, nil, nil, "listn: \":80\"\nqqqqqq: 1\n"))
}
