package e2e_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/platform/testkit/pgserver"
)

// A guide is a page whose code blocks can be pasted from top to bottom, as the rendered page shows them:
//
//	sh                                  is run, in one shell with those before it
//	text                                are lines that the block before it prints, in this order
//	others after "Save this as NAME:"   are written to the file NAME first
//
// Other blocks are for reading. A word after the language in the source, ```sh needs=node, says that a block needs more
// than every machine has.
type guide struct {
	// name is that of the page under docs/guides.
	name string
	// tools are the programs that the page says it needs.
	tools []string
}

func guides() []guide {
	return []guide{
		{"add-a-provider", []string{"curl", "openssl"}},
		{"add-a-provider-with-actions", []string{"curl", "python3"}},
		{"connect-an-account-by-oauth", []string{"curl", "python3", "awk"}},
		{"connect-with-a-key", []string{"curl", "python3"}},
		{"first-production-start", []string{"curl", "openssl", "python3"}},
		{"github-to-your-laptop", []string{"curl", "openssl"}},
		{"import-an-api", []string{"curl", "awk"}},
		{"keys-and-grants", []string{"curl", "openssl", "python3"}},
		{"let-your-users-connect", []string{"curl", "python3"}},
		{"operate", []string{"curl", "openssl"}},
		{"publish-your-own-events", []string{"curl", "python3", "awk"}},
		{"receive-your-first-webhook", []string{"curl", "openssl", "python3"}},
		{"replay-and-recover-after-an-outage", []string{"curl", "openssl", "python3"}},
		{"roles", []string{"curl", "python3"}},
		{"rotate-the-keyset", []string{"curl", "awk"}},
		{"run-it-on-postgresql", []string{"curl", "openssl"}},
		{"run-an-action", []string{"curl", "python3"}},
		{"see-events-as-they-happen", []string{"curl", "openssl", "python3"}},
		{"sign-in-with-your-identity-provider", []string{"curl", "python3"}},
		{"verify-what-we-send-you", []string{"curl", "openssl"}},
	}
}

// The guides, pasted from top to bottom into a shell, do what they say: each file is written as it stands,
// each command runs, and prints the lines that the guide shows, in their order.
func TestGuides(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	testkit.NeedLong(t)
	folder := filepath.Join("..", "..", "docs", "guides")
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	require.NoError(t, err)
	var names []string
	for _, g := range guides() {
		names = append(names, filepath.Join(folder, g.name+".md"))
	}
	require.ElementsMatch(t, pages, names, "every guide is followed")
	bin := filepath.Dir(testkit.Binary(t))
	for _, g := range guides() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range append(g.tools, "bash") {
				_, err := exec.LookPath(tool)
				if err != nil && os.Getenv(testkit.RequireEngines) == "" {
					t.Skipf("%s is not installed", tool)
				}
				require.NoError(t, err)
			}
			path := filepath.Join(folder, g.name+".md")
			follow(t, path, steps(t, path, ""), bin)
		})
	}
	t.Run("README", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join("..", "..", "README.md")
		follow(t, path, append(steps(t, path, "Walk through it"), steps(t, path, "From the command line")...), bin)
	})
}

// missing returns the first line of want that output does not have in this order; a line may be a part of one.
func missing(output, want string) string {
	for line := range strings.Lines(want) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.Index(output, line)
		if at < 0 {
			return line
		}
		output = output[at+len(line):]
	}
	return ""
}

// follow pastes a guide into a shell and compares the output with the guide's.
func follow(t *testing.T, path string, all []step, bin string) {
	t.Helper()
	dir := t.TempDir()
	addresses := translate(t, all)
	p := &prepared{known: map[string]bool{}}
	// One script, so that each block sees the variables of those before it; a mark stands behind the output of each.
	const mark = "--- end of a block ---"
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n")
	ran := map[int]int{} // the place among the outputs, by the place among the steps
	left := ""           // a need of steps that are not followed
	for i, s := range all {
		if need := p.missing(t, s.needs); need != "" {
			left = need
			t.Logf("block %d of %s is not followed: %s is not to be had here", i+1, filepath.Base(path), need)
			continue
		}
		switch {
		case s.file != "":
			to := filepath.Join(dir, s.file)
			require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
			require.NoError(t, os.WriteFile(to, []byte(s.text), 0o600))
		case s.language == "sh":
			ran[i] = len(ran)
			script.WriteString(s.text + "\necho '" + mark + "'\n")
		}
	}
	// A program that a guide leaves running keeps a port from the next one.
	script.WriteString("for i in {1..100}; do [ -z \"$(jobs -rp)\" ] && break; sleep 0.1; done\n" +
		"[ -z \"$(jobs -rp)\" ] && echo 'nothing is left' || jobs -rl\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*await.Limit)
	defer cancel()
	c := exec.CommandContext(ctx, "bash")
	var output bytes.Buffer
	// A process that the guide starts in the background is in the shell's group, and ends with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader(p.replace(script.String())), &output, &output
	c.Env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH")+p.path, "HOME="+dir,
		"SALLYPORT_LISTEN="+addresses["127.0.0.1:8080"], "SALLYPORT_LOG_FORMAT=json")
	if err := c.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log")) // may not be there
		require.NoError(t, err, "%s\n%s", output.String(), log)
	}
	outputs := strings.Split(output.String(), mark)
	require.Len(t, outputs, len(ran)+1)
	require.Contains(t, outputs[len(ran)], "nothing is left", "the guide ends what it has started")

	checked, block, printed := 0, -1, false
	for i, s := range all {
		if s.language == "sh" {
			n, ok := ran[i]
			block, printed = n, ok
		}
		if s.language == "text" && s.file == "" && printed {
			require.Empty(t, missing(outputs[block], p.replace(s.text)), "block %d of the guide promises other output than\n%s",
				i+1, outputs[block])
			checked++
		}
	}
	if checked == 0 && left != "" {
		t.Skipf("every step that shows its output needs %s", left)
	}
	require.Positive(t, checked)
}

// translate gives each address of this machine that a guide names a free port, and returns the replacement of each.
func translate(t *testing.T, all []step) map[string]string {
	t.Helper()
	loopback := regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
	became := map[string]string{"127.0.0.1:8080": ""}
	for _, s := range all {
		for _, found := range loopback.FindAllString(s.text, -1) {
			became[found] = ""
		}
	}
	delete(became, "127.0.0.1:5432") // a database server's, which is another matter
	var words []string
	for address := range became {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		became[address] = l.Addr().String()
		_, from, _ := strings.Cut(address, ":")
		_, to, _ := strings.Cut(became[address], ":")
		words = append(words, regexp.QuoteMeta(from)+"="+to)
	}
	for _, word := range words {
		from, to, _ := strings.Cut(word, "=")
		port := regexp.MustCompile(`\b` + from + `\b`)
		for i := range all {
			all[i].text = port.ReplaceAllString(all[i].text, to)
		}
	}
	return became
}

// prepared is what blocks need beyond what every machine has.
type prepared struct {
	known    map[string]bool
	replaced []string
	env      []string
	// path lists folders of programs, each after a colon.
	path string
}

// missing returns the first missing requirement.
func (p *prepared) missing(t *testing.T, needs []string) string {
	t.Helper()
	for _, need := range needs {
		if _, asked := p.known[need]; !asked {
			p.known[need] = p.provide(t, need)
		}
		if !p.known[need] {
			return need
		}
	}
	return ""
}

// replace puts what this machine has in the place of what the guide names.
func (p *prepared) replace(text string) string {
	return strings.NewReplacer(p.replaced...).Replace(text)
}

// provide meets a need, where that is possible here.
func (p *prepared) provide(t *testing.T, need string) bool {
	t.Helper()
	switch need {
	case "postgresql":
		return p.postgres(t)
	case "go":
		return p.golang(t)
	case "identity-provider":
		return p.identityProvider(t)
	case "node":
		return installs(t, "npm", "install", "--no-audit", "--no-fund", "standardwebhooks")
	case "python":
		return installs(t, "bash", "-c",
			"python3 -m venv here && here/bin/pip install --quiet standardwebhooks")
	default:
		require.Fail(t, "a block needs what nobody knows", need)
		return false
	}
}

// installs reports whether a package can be had here, by having it.
func installs(t *testing.T, name string, args ...string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = t.TempDir(), time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		t.Logf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return err == nil
}

// golang takes the library from where the tests of this module have it.
func (p *prepared) golang(t *testing.T) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOCACHE", "GOPATH").Output()
	require.NoError(t, err)
	dirs := strings.Fields(string(out))
	require.Len(t, dirs, 3)
	p.env = append(p.env, "GOMODCACHE="+dirs[0], "GOCACHE="+dirs[1], "GOPATH="+dirs[2], "GOFLAGS=-mod=mod",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(dirs[0], "cache", "download")), "GOSUMDB=off", "GOTOOLCHAIN=local")
	return true
}

// postgres makes the databases that a guide names.
func (p *prepared) postgres(t *testing.T) bool {
	t.Helper()
	for _, name := range []string{"psql", "pg_dump", "pg_restore"} {
		path, err := pgserver.Program(name)
		if err != nil && os.Getenv(testkit.RequireEngines) == "" {
			t.Log(err)
			return false
		}
		require.NoError(t, err)
		p.path += ":" + filepath.Dir(path)
	}
	words, there, err := testkit.Engines()
	require.NoError(t, err)
	if !there && os.Getenv(testkit.RequireEngines) == "" {
		t.Log(words)
		return false
	}
	for _, name := range []string{"sallyport_restored", "sallyport"} { // the longer name first: the other begins it
		url := testkit.NewPostgres(t)
		d, err := db.Open(t.Context(), url, "")
		require.NoError(t, err)
		_, err = d.Write().ExecContext(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
		require.NoError(t, err)
		require.NoError(t, d.Close())
		p.replaced = append(p.replaced, "postgres://sallyport:change-me@127.0.0.1:5432/"+name, url)
	}
	return true
}

// identityProvider starts one that signs everyone in, and a browser that follows instructions.
func (p *prepared) identityProvider(t *testing.T) bool {
	t.Helper()
	idp := testkit.NewIdP(t, time.Now)
	idp.ClientSecret = "the secret that the provider gave"
	browser := filepath.Join(t.TempDir(), "browser")
	script := "#!/bin/sh\nexec curl -fsSL --max-redirs 5 -o /dev/null -c \"$0.jar\" -b \"$0.jar\" \"$1\"\n"
	require.NoError(t, os.WriteFile(browser, []byte(script), 0o700))
	p.env = append(p.env, "BROWSER="+browser)
	p.replaced = append(p.replaced, "https://login.example.com", idp.URL)
	return true
}
