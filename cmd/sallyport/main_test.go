package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// A command line that is written wrong gets one sentence, the usage and exit code 2, and nothing is done.
func TestMisuse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for args, want := range map[string]string{
		"":                           `sallyport: expected one of "serve"`,
		"keyz":                       `sallyport: unexpected argument keyz, did you mean "keys"?`,
		"serve now":                  "sallyport: unexpected argument now",
		"--nope":                     "sallyport: unknown flag --nope",
		"migrate --nope":             "sallyport: unknown flag --nope",
		"keys":                       `sallyport: expected one of "create", "list", "get", "update", "rotate", ...`,
		"keys revoke":                `sallyport: expected "<key_id>"`,
		"keys create":                "sallyport: missing flags: --environment=ID|NAME, --name=TEXT, --routes=ROUTE,...",
		"admin create":               "sallyport: missing flags: --email=ADDRESS",
		"admin create --password=s3": "sallyport: unknown flag --password",
		"keys create --name n --environment e --routes web": "sallyport: keys create: --routes " +
			"takes webhooks, events, events:write, connections",
		"keys create --name n --environment e --routes events --expires-in=-1h": "sallyport: keys create: --expires-in " +
			"must be above 0",
		"keys create --name n --environment e --routes events --expires-in=a-year": "sallyport: --expires-in: expected " +
			"duration but got \"a-year\"",
	} {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: strings.Fields(args)},
			[]string{"SALLYPORT_DATA=" + dir})
		require.Equal(t, exitUsage, r.code, args)
		require.Empty(t, r.out, args)
		first, rest, _ := strings.Cut(r.stderr, "\n")
		require.True(t, strings.HasPrefix(first, want), "%s: %s", args, r.stderr)
		require.True(t, strings.HasPrefix(rest, "Usage: sallyport "), "%s: %s", args, r.stderr)
		require.NotContains(t, r.stderr, "s3", args)
	}
	require.NoDirExists(t, dir)
}

// Help is no error, on standard output, and names every command.
func TestHelp(t *testing.T) {
	t.Parallel()
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"--help"}}, nil)
	require.Equal(t, exitOK, r.code)
	require.Empty(t, r.stderr)
	for _, name := range []string{
		"serve", "migrate", "keys create", "keys list", "keys get", "keys update", "keys rotate", "keys disable",
		"keys enable", "keys revoke", "keys usage", "keys verify", "admin create", "admin reset-password", "keyset create",
		"keyset rotate", "keyset reseal", "keyset list", "providers list", "providers show", "providers lint",
		"providers reference", "webhooks verify", "openapi", "config print", "config check", "config reference", "doctor",
		"version", "events list", "events show", "events replay",
		"events publish", "subscriptions list", "subscriptions show",
		"subscriptions create", "subscriptions update", "subscriptions delete", "subscriptions test", "subscriptions stats",
		"subscriptions rotate-secret",
		"connections list", "connections show", "connections create", "connections update", "connections delete",
		"connections secrets add", "connections enrolment open", "subscriptions trigger", "help", "rejections list", "listen",
		"events tail", "replays list", "replays show", "replays create", "replays pause", "replays resume", "replays cancel",
		"commands", "demo", "backup", "restore", "catalog search", "catalog list", "catalog show", "catalog import",
		"catalog imports", "catalog diff", "catalog activate", "catalog cancel", "catalog remove",
	} {
		require.Contains(t, r.out, "\n  "+name+" ")
	}
}

// help is --help as a word: alone it shows the commands, and with a command the help of that one. An unknown command is
// an error with a suggestion.
func TestHelpCommand(t *testing.T) {
	t.Parallel()
	try := func(args string) result {
		return call(command{ctx: t.Context(), clock: clock.System(), args: strings.Fields(args)},
			[]string{"SALLYPORT_LISTN=:80"})
	}
	for args, same := range map[string]string{"help": "--help", "help keys": "keys --help",
		"help keys create": "keys create --help", "help connections secrets add": "connections secrets add --help"} {
		r := try(args)
		require.Equal(t, exitOK, r.code, args)
		require.Empty(t, r.stderr, args)
		require.NotEmpty(t, r.out, args)
		require.Equal(t, try(same).out, r.out, args)
	}
	r := try("help keyz")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, `unexpected argument keyz, did you mean "keys"?`)
	// Help of a group shows its commands, and no settings that few of them have.
	require.NotContains(t, try("help connections").out, "--listen")
	require.Contains(t, try("help connections").out, "connections create")
	require.Contains(t, try("help "+"help").out, "sallyport help [<command> ...]")
}

// A mistyped name is an error that names what is probably meant: of a variable, a flag, a command, and a provider.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"config check --listn=:80": "unknown flag --listn, did you mean \"--listen\"?",
		"subscriptions tst":        `"test"?`,
		"providers show githb":     "Did you mean github?",
	} {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: strings.Fields(args)}, nil)
		require.NotEqual(t, exitOK, r.code, args)
		require.Contains(t, r.stderr, want, args)
	}
	// A word of another product's command line leads to the command.
	for args, want := range map[string]string{
		"trigger github push": "sallyport subscriptions trigger", "events get x": "sallyport events show",
		"subscriptions get x": "sallyport subscriptions show", "subscriptions add": "sallyport subscriptions create",
		"subscriptions pause x": "sallyport subscriptions disable", "connections remove x": "sallyport connections delete",
		"events watch": "sallyport events tail", "tail": "sallyport events tail", "keys show x": "sallyport keys get",
		"publish": "sallyport events publish", "events send": "sallyport events publish",
		"events retry x": "sallyport events replay", "connections secrets new": "sallyport connections secrets add",
		"endpoints list": "sallyport subscriptions list", "logs": "sallyport events list",
		"subscriptions rotate x": "sallyport subscriptions rotate-secret",
		"tools":                  "sallyport catalog", "tools search x": "sallyport catalog search",
		"openapi import x": "sallyport catalog import",
		"catalog get x":    "sallyport catalog show", "catalog delete x": "sallyport catalog remove",
	} {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: strings.Fields(args)}, nil)
		require.Equal(t, exitUsage, r.code, args)
		first, _, _ := strings.Cut(r.stderr, "\n")
		require.True(t, strings.HasSuffix(first, `, did you mean "`+want+`"?`), "%s: %s", args, first)
	}
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"config", "check"}},
		[]string{"SALLYPORT_LISTN=:80", "SALLYPORT_SIGNING_SECRET=s", "SALLYPORT_SERVER=s", "SALLYPORT_API_KEY=k"})
	require.Equal(t, exitUsage, r.code)
	require.Equal(t, "sallyport: the configuration has an error:\n  SALLYPORT_LISTN (environment): is not a setting, "+
		"did you mean SALLYPORT_LISTEN?\n", r.stderr)
	r = call(command{ctx: t.Context(), clock: clock.System(), args: []string{"config", "check"}},
		[]string{"SALLYPORT_FOO=1"})
	require.NotContains(t, r.stderr, "did you mean", "a short name is not near to every other")
}

// Help shows the settings where they matter: all of them for a server, and few for a command that only calls one.
func TestHelpShowsSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][2]bool{"--help": {false, false}, "serve --help": {true, true},
		"events list --help": {true, false}} {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: strings.Fields(args)}, nil)
		require.Equal(t, exitOK, r.code)
		require.Contains(t, r.out, "--config")
		require.Equal(t, want, [2]bool{strings.Contains(r.out, "--data"), strings.Contains(r.out, "--trusted-proxies")}, args)
	}
}

// The configuration's errors are listed together with exit code 2, and stop every command that uses it and no other.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	faulty := []string{"SALLYPORT_LISTEN=nowhere", "SALLYPORT_DATABASE_URL=mysql://u:hunter2@db/x"}
	try := func(environ []string, args ...string) result {
		return call(command{ctx: t.Context(), clock: clock.System(), args: args}, environ)
	}
	for _, args := range [][]string{{"config", "check"}, {"config", "print"}, {"doctor"}, {"migrate"}, {"serve"}} {
		r := try(faulty, args...)
		require.Equal(t, exitUsage, r.code, args)
		require.Contains(t, r.stderr, "listen (SALLYPORT_LISTEN): ", args)
		require.Contains(t, r.stderr, "database-url (SALLYPORT_DATABASE_URL): ", args)
		require.NotContains(t, r.out+r.stderr, "hunter2", args)
	}
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}, {"openapi"}, {"config", "reference"},
		{"providers", "reference"}} {
		r := try(faulty, args...)
		require.Equal(t, exitOK, r.code, args)
		require.NotEmpty(t, r.out, args)
		require.Empty(t, r.stderr, args)
	}
	require.Equal(t, exitOK, try(nil, "config", "check").code)
	r := try([]string{"SALLYPORT_DATABASE_URL=postgres://u:hunter2@db/x"}, "config", "print", "--log-level=warn")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.out, `log-level: "warn" # flag --log-level`)
	require.NotContains(t, r.out, "hunter2")
}

// The committed files are the output of the commands: a release script and the tests use the same texts.
func TestGeneratedFiles(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{
		"openapi/openapi.json":            {"openapi"},
		"docs/reference/error-codes.md":   {"openapi", "--error-codes"},
		"docs/reference/permissions.md":   {"openapi", "--permissions"},
		"docs/reference/configuration.md": {"config", "reference"},
		"docs/reference/providers.md":     {"providers", "reference"},
		"docs/reference/commands.md":      {"commands"},
	} {
		want, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		r := call(command{ctx: t.Context(), clock: clock.System(), args: args}, nil)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, string(want), r.out, "%s is not current; see CONTRIBUTING.md", file)
	}
}

// The committed pages of providers are those that the command writes, one for each provider that ships, and no others.
func TestGeneratedPages(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "providers")
	r := call(command{ctx: t.Context(), clock: clock.System(), args: []string{"providers", "reference", "--pages",
		folder}}, nil)
	require.Equal(t, result{code: exitOK}, r)
	names := func(folder string) (list []string) {
		files, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, file := range files {
			list = append(list, strings.TrimSuffix(strings.TrimSuffix(file.Name(), ".md"), ".yaml"))
		}
		return list
	}
	committed := filepath.Join("..", "..", "docs", "reference", "providers")
	require.Equal(t, names(folder), names(committed))
	for _, name := range names(folder) {
		require.FileExists(t, filepath.Join("..", "..", "definitions", name+".yaml"))
		want, err := os.ReadFile(filepath.Join(committed, name+".md"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(folder, name+".md"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not current; see CONTRIBUTING.md", name)
	}
	// A file where the folder would be is an error, and not silence.
	r = call(command{ctx: t.Context(), clock: clock.System(), args: []string{"providers", "reference", "--pages",
		filepath.Join(folder, "github.md")}}, nil)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "github.md")
}

// A database that cannot be used is an error that names the fix and no password.
func TestDatabaseOutOfReach(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "nothing")
	commands := [][]string{
		{"keys", "list"}, {"keys", "revoke", "key_x"}, {"admin", "create", "--email", ownerEmail}, {"keyset", "reseal"},
		{"keyset", "rotate"},
	}
	for _, args := range commands {
		r := call(command{ctx: t.Context(), clock: clock.System(), args: args}, []string{"SALLYPORT_DATA=" + folder})
		require.Equal(t, exitFailed, r.code, args)
		require.Contains(t, r.stderr, "there is no database yet in "+folder, args)
		require.Contains(t, r.stderr, "sallyport serve", args)
		require.NoDirExists(t, folder, "%v", args)

		// Nothing listens on port 1.
		r = call(command{ctx: t.Context(), clock: clock.System(), args: args},
			[]string{"SALLYPORT_DATA=" + folder, "SALLYPORT_DATABASE_URL=postgres://ada:hunter2@127.0.0.1:1/x?sslmode=disable"})
		require.Equal(t, exitFailed, r.code, args)
		require.Contains(t, r.stderr, "the database cannot be opened", args)
		require.Contains(t, r.stderr, "--database-url", args)
		require.NotContains(t, r.stderr, "hunter2", args)
	}
}

// An address that another program uses is an error that names the address and the setting that it comes from. Nothing
// has been created by then.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	for _, flag := range []string{"--listen", "--admin-listen"} {
		data := t.TempDir()
		args := []string{"serve", "--dev", "--listen", "127.0.0.1:0", "--data", data, flag, other.Addr().String()}
		r := call(command{ctx: t.Context(), clock: clock.System(), args: args}, nil)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "cannot listen on "+other.Addr().String()+", the value of "+strings.TrimPrefix(flag,
			"--")+": another program uses it\nStop the other program, or choose another address with "+flag+".\n")
		for _, file := range []string{"sallyport.db", "keyset.json", "dev-credentials.json"} {
			require.NoFileExists(t, filepath.Join(data, file))
		}
	}
}

// A keyset that is not the database's, that is missing, damaged or open to others, is an error that names the fix and
// changes nothing.
func TestKeysetOutOfReach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		file := filepath.Join(in.dir, "keyset.json")
		text, err := os.ReadFile(file)
		require.NoError(t, err)

		other := filepath.Join(t.TempDir(), "other.json")
		in.do(t, "keyset", "create", "--keyset-file", other)
		r := in.run(t, "keys", "list", "--keyset-file", other)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "--keyset-file")
		require.Contains(t, r.stderr, "not the keyset of this database")

		before, err := os.ReadFile(other)
		require.NoError(t, err)
		require.Equal(t, exitFailed, in.run(t, "keyset", "rotate", "--keyset-file", other).code)
		after, err := os.ReadFile(other)
		require.NoError(t, err)
		require.Equal(t, before, after, "a rotation that cannot be completed is not begun")

		r = in.run(t, "keys", "list", "--keyset-file", filepath.Join(in.dir, "none.json"))
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "sallyport keyset create")

		require.NoError(t, os.Chmod(file, 0o644))
		r = in.run(t, "keys", "list")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "chmod 600")
		require.NoError(t, os.Chmod(file, 0o600))

		require.NoError(t, os.WriteFile(file, text[:len(text)/2], 0o600))
		r = in.run(t, "keys", "list")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "not a usable keyset")
		require.NotContains(t, r.stderr, string(text[20:60]))
	})
}
