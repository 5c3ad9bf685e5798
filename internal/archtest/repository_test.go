package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/archtest"
)

// root is the repository's root, from this package's folder, in which go test runs.
const root = "../.."

// reasons lists the files allowed over 500 lines, each with why it is better whole.
func reasons() map[string]string {
	return map[string]string{}
}

// Packages import each other only as the architecture says, so that a capability can be read, tested and replaced
// alone.
func TestRepositoryImports(t *testing.T) {
	t.Parallel()
	require.Empty(t, archtest.Table(app.Dependencies()))

	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())

	var packages []archtest.Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p archtest.Package
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
	require.NotEmpty(t, packages)
	require.Empty(t, archtest.Imports(packages, app.Dependencies()))
}

// A table's rules live in one package: no other package reads or writes it behind the owner's back.
func TestRepositoryTables(t *testing.T) {
	t.Parallel()
	files := tracked(t)
	findings, err := archtest.ForeignTables(files, app.TableOwners())
	require.NoError(t, err)
	require.Empty(t, findings)

	var migrations []archtest.File
	for _, f := range files {
		if strings.HasPrefix(f.Path, "migrations/") && strings.HasSuffix(f.Path, ".sql") {
			migrations = append(migrations, f)
		}
	}
	require.NotEmpty(t, migrations)
	require.Empty(t, archtest.TablesWithoutOwner(migrations, app.TableOwners()))
}

// A capability that notifies other processes of its changes has a cache whose versions are compared there. A forgotten
// one would continue with old data.
func TestRepositoryCaches(t *testing.T) {
	t.Parallel()
	folders, err := archtest.Callers(tracked(t), "internal/platform/db", "Bump")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	caches := map[string]bool{}
	for _, m := range app.Declared() {
		caches["internal/"+m.Name] = len(m.Caches) > 0
	}
	for _, folder := range folders {
		require.True(t, caches[folder], "%s raises the version of a cache, and its module declares none", folder)
	}
}

// There is one way to providers: only the composition root makes what signs requests with the credentials of
// connections, and it gives it to the pipeline of calls. Credentials are opened by connections and tokens alone, and
// SQL about them is their owner's.
func TestRepositoryHasOneWayToProviders(t *testing.T) {
	t.Parallel()
	folders, err := archtest.Callers(tracked(t), "internal/providers/connections", "NewSigner")
	require.NoError(t, err)
	require.Equal(t, []string{"internal/app"}, folders)
	for capability, imports := range app.Dependencies() {
		if slices.Contains(imports, "providers/credentials") {
			require.Contains(t, []string{"providers/connections", "providers/tokens"}, capability)
		}
	}
	owners := app.TableOwners()
	for _, table := range []string{"connection_credentials", "connection_credential_values"} {
		require.Equal(t, "providers/credentials", owners[table])
	}
}

// Files stay short enough to be read in one go.
func TestRepositoryFileLengths(t *testing.T) {
	t.Parallel()
	require.Empty(t, archtest.LongFiles(tracked(t), reasons()))
}

// A service does one capability's work: no type collects the methods of several.
func TestRepositoryTypeSizes(t *testing.T) {
	t.Parallel()
	lines, err := archtest.LargeTypes(tracked(t))
	require.NoError(t, err)
	require.Empty(t, lines)
}

// Every outgoing connection is made where the address policy is: nothing else constructs a client or a dialer.
func TestRepositoryClients(t *testing.T) {
	t.Parallel()
	findings, err := archtest.ForeignClients(tracked(t), []string{
		"internal/platform/egress/",
		"internal/platform/testkit/", // stands in for providers and receivers
		"bench/",                     // is the outside world
	})
	require.NoError(t, err)
	require.Empty(t, findings)
}

// An API key limits every response: no HTTP package looks past the view of its caller.
func TestRepositoryViews(t *testing.T) {
	t.Parallel()
	require.Empty(t, archtest.WholeViews(tracked(t)))
}

// The repository stands alone: no text in it points at a folder of the machine it was written on.
func TestRepositoryHoldsNoMachinePaths(t *testing.T) {
	t.Parallel()
	require.Empty(t, archtest.MachinePaths(tracked(t)))
}

// Links between pages and into the code lead somewhere.
func TestRepositoryLinks(t *testing.T) {
	t.Parallel()
	require.Empty(t, archtest.BrokenLinks(tracked(t)))
}

// A newcomer finds in each capability's folder what it owns, what it does not own, and what always holds.
func TestRepositoryCapabilitiesHaveReadmes(t *testing.T) {
	t.Parallel()
	for _, name := range archtest.Capabilities(app.Dependencies()) {
		info, err := os.Stat(filepath.Join(root, "internal", name, "README.md"))
		require.NoError(t, err)
		require.NotZero(t, info.Size(), name)
	}
}

// Texts that people read use the words of the field, as the glossary in CONTRIBUTING.md lists them.
func TestRepositoryWords(t *testing.T) {
	t.Parallel()
	files := tracked(t)
	contributing := slices.IndexFunc(files, func(f archtest.File) bool { return f.Path == "CONTRIBUTING.md" })
	require.NotEqual(t, -1, contributing)
	terms, err := archtest.Glossary(files[contributing].Text)
	require.NoError(t, err)
	require.LessOrEqual(t, len(terms), 30, "a glossary that nobody can remember is not used")
	findings, err := archtest.Words(files, terms)
	require.NoError(t, err)
	for _, f := range findings {
		t.Error(f.String())
	}
}

// A clean-up that waits for ever hides the failure that led to it behind the time limit of its package.
func TestRepositoryWaits(t *testing.T) {
	t.Parallel()
	const bubble = "its clean-ups run in a bubble of testing/synctest, which finds a deadlock"
	findings, err := archtest.UnboundedWaits(tracked(t), map[string]string{
		"internal/platform/egress/leak_test.go":      bubble,
		"internal/webhooks/ingest/body_http_test.go": bubble,
	})
	require.NoError(t, err)
	require.Empty(t, findings)
}

// tracked reads the files that git knows. Outside a checkout there is nothing to check.
func tracked(t *testing.T) []archtest.File {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a git checkout: the files that belong to the repository cannot be told from others")
	}
	// A clone may belong to another user than the one who tests it.
	list := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	var files []archtest.File
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, not yet committed
		}
		require.NoError(t, err)
		files = append(files, archtest.File{Path: path, Text: string(text)})
	}
	require.NotEmpty(t, files)
	return files
}
