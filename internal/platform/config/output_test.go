package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

// The printed configuration names each value's source and shows no secret, in any form of the value.
func TestPrintRedacts(t *testing.T) {
	t.Parallel()
	c, err := Load([]string{"--config=sallyport.yaml", "--dev"},
		[]string{"SALLYPORT_KEYSET=hunter2",
			"SALLYPORT_DATABASE_URL=postgres://user:hunter2@db:5432/x?sslmode=require&sslpassword=hunter2"},
		file("egress-allow: [10.0.0.0/8, 'fd00::/8']\n"))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, c.Print(&b))
	require.NotContains(t, b.String(), "hunter2")
	for _, line := range []string{
		`listen: "127.0.0.1:8080" # default`,
		`database-url: "postgres://user:redacted@db:5432/x?sslmode=require&sslpassword=redacted" # environment ` +
			`SALLYPORT_DATABASE_URL`,
		`keyset: "[redacted]" # environment SALLYPORT_KEYSET`,
		`egress-allow: ["10.0.0.0/8","fd00::/8"] # file sallyport.yaml, line 1`,
		`egress-allow-http: true # flag --dev`,
		`dev: true # flag --dev`,
		`shutdown-timeout: 30s # default`,
		`log-level: "info" # default`,
	} {
		require.Contains(t, b.String(), line+"\n")
	}
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(b.Bytes(), &values))
	require.Len(t, values, len(settings()))
}

// A database URL that cannot be taken apart is not shown at all.
func TestRedactUnreadableURL(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"host=db password=hunter2", "postgres://u:hunter2@db/%zz",
		"postgres://u@db/x?password=hunter2;a"} {
		c := Config{DatabaseURL: secretbox.Secret(raw)}
		var b bytes.Buffer
		require.NoError(t, c.Print(&b))
		require.NotContains(t, b.String(), "hunter2")
	}
}

// The published reference is the one the code would write.
func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, Reference(&b))
	path := filepath.Join("..", "..", "..", "docs", "reference", "configuration.md")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run go test ./internal/platform/config -update")
	for _, s := range settings() {
		require.Equal(t, 1, strings.Count(b.String(), "\n| `"+s.name+"` |")+strings.Count(b.String(), "\n| – | `--"+s.name+
			"` |")+
			strings.Count(b.String(), "\n| – | – | `"+s.variable()+"` |"), s.name)
	}
}
