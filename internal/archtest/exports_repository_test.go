package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/archtest"
)

// exported lists the identifiers that are exported although no other package uses them, each with its reason.
func exported() map[string]string {
	return map[string]string{
		"internal/identity/signin.Service.Turns":                   "tests of other capabilities take every turn",
		"internal/platform/access.Open":                            "tests build principals",
		"internal/platform/clock.Manual*":                          "tests move this clock",
		"internal/platform/clock.NewManual":                        "tests move this clock",
		"internal/platform/httpapi.Operation.TakesIdempotencyKey":  "tests compare the document with it",
		"internal/platform/jobs.Queue.Claim":                       "tests drive a queue by hand",
		"internal/platform/jobs.Queue.Progress":                    "long jobs whose table has no columns of their own",
		"internal/platform/jobs.Queue.Recover":                     "tests drive a queue by hand",
		"internal/platform/jobs.Queue.Renew":                       "tests drive a queue by hand",
		"internal/platform/jobs.Queue.RunDue":                      "tests drive a queue by hand",
		"internal/platform/jobs.RetryAfter":                        "handlers whose service names a wait",
		"internal/platform/secretbox.KeyID":                        "tests see which key sealed a value",
		"internal/providers/actions/toolformat.Definition.Restore": "calls take the arguments of tools by it",
		"internal/providers/outbound.ConfigField":                  "a part of Declaration, which tests build",
		"internal/providers/outbound.Schema":                       "the catalog describes credentials by it",
		"internal/providers/outbound.Test*":                        "tests judge responses by conditions",
		"internal/webhooks/deliveries.Insert":                      "tests store deliveries in any state",
		"internal/webhooks/events.Change.Merge":                    "tests add changes up",
		"internal/platform/sse.Reader.Next":                        "clients in tests skip blocks without an event",
	}
}

// Exported identifiers are for other packages. An unused one is either dead or needs no capital letter.
func TestRepositoryExports(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,GoFiles,XTestGoFiles,Export", "./...")
	list.Dir = root
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())

	data := map[string]string{}
	var packages []archtest.SourcePackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles, XTestGoFiles   []string
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if !strings.HasPrefix(p.ImportPath, archtest.Module+"/") {
			data[p.ImportPath] = p.Export
			continue
		}
		packages = append(packages, archtest.SourcePackage{ImportPath: p.ImportPath,
			Files: readFiles(t, p.Dir, p.GoFiles), Tests: readFiles(t, p.Dir, p.XTestGoFiles)})
	}
	outside := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(data[path])
	})
	unused, err := archtest.UnusedExports(packages, outside, exported())
	require.NoError(t, err)
	for _, line := range unused {
		t.Error(line)
	}
}

// readFiles reads files of a folder below root, which is an absolute path.
func readFiles(t *testing.T, folder string, names []string) []archtest.File {
	t.Helper()
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	relative, err := filepath.Rel(top, folder)
	require.NoError(t, err)
	var files []archtest.File
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		files = append(files, archtest.File{Path: filepath.ToSlash(filepath.Join(relative, name)), Text: string(text)})
	}
	return files
}
