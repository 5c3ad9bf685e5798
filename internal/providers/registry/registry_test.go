package registry_test

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
)

const minimal = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
`

const webhooks = `webhooks:
  setup: Paste the URL.
  scheme: hmac
  algorithm: sha256
  secret: {decode: utf8}
  signature:
    - from: header:x-signature
      encoding: hex
  signed: "{body}"
  event:
    type: ["{json:/type}"]
`

const evidence = `evidence:
  grade: documented
  source: The page on signatures
  url: https://acme.example/docs/signatures
  left_out:
    - how long deliveries are repeated
`

func folder(files ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for file := range slices.Chunk(files, 2) {
		out[file[0]] = &fstest.MapFile{Data: []byte(file[1])}
	}
	return out
}

// A good definition loads with all it says, and lists come in the order of slugs.
func TestLoad(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Load(folder(
		"acme.yaml", minimal+webhooks,
		"acme-2.yaml", strings.Replace(minimal, "slug: acme", "slug: acme-2", 1),
		"README.md", "not a definition", "sub/other.yaml", "not looked at",
	))
	require.NoError(t, err)
	acme, ok := loaded.Get("acme")
	require.True(t, ok)
	require.Equal(t, "Acme", acme.Definition.DisplayName)
	require.Equal(t, []string{"crm"}, acme.Definition.Categories)
	require.Equal(t, "https://acme.example/docs", acme.Definition.DocsURL)
	require.Equal(t, "Paste the URL.", acme.Definition.Webhooks.Setup)
	require.NotNil(t, acme.Webhooks)
	require.Nil(t, acme.Definition.Evidence)
	second, ok := loaded.Get("acme-2")
	require.True(t, ok)
	require.Nil(t, second.Webhooks)
	_, ok = loaded.Get("README")
	require.False(t, ok)
	require.Equal(t, []*registry.Provider{acme, second}, loaded.List())
	loaded.List()[0] = nil
	require.NotNil(t, loaded.List()[0], "a caller cannot change the registry's list")
}

// The evidence of a definition is read as it stands, at the greatest length too.
func TestLoadEvidence(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 300)
	loaded, err := registry.Load(folder("acme.yaml", minimal+strings.Replace(evidence, "The page on signatures", long, 1)+
		webhooks))
	require.NoError(t, err)
	acme, _ := loaded.Get("acme")
	require.Equal(t, &registry.Evidence{
		Grade: registry.GradeDocumented, Source: long, URL: "https://acme.example/docs/signatures",
		LeftOut: []string{"how long deliveries are repeated"},
	}, acme.Definition.Evidence)
}

// An error in a file is reported with its file and line.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, text, want string }{
		"unknown field": {"acme.yaml", minimal + "paging: []\n", `acme.yaml:6: paging: is not a field of the format`},
		"unknown inner field": {"acme.yaml", minimal + webhooks + "    batches: {}\n",
			`acme.yaml:17: webhooks.event.batches: is not a field of the format. Did you mean batch?`},
		"field not built": {"acme.yaml", minimal + webhooks + "  remote: {}\n",
			`acme.yaml:17: webhooks.remote: is not a field of the format`},
		"duplicate key": {"acme.yaml", minimal + "slug: acme\n", `acme.yaml:6: mapping key "slug" already defined`},
		"anchor": {"acme.yaml", strings.Replace(minimal, "Acme", "&a Acme", 1),
			"acme.yaml:3: anchors, aliases and merge keys"},
		"alias":     {"acme.yaml", minimal + "x: *a\n", "acme.yaml:6: anchors, aliases and merge keys"},
		"merge key": {"acme.yaml", minimal + "<<: {a: 1}\n", "acme.yaml:6: anchors, aliases and merge keys"},
		"tag": {"acme.yaml", strings.Replace(minimal, "Acme", "!!str Acme", 1),
			"acme.yaml:3: tags and directives"},
		"directive":         {"acme.yaml", "%YAML 1.2\n---\n" + minimal, "acme.yaml:1: tags and directives"},
		"question mark key": {"acme.yaml", minimal + "? a\n: b\n", "acme.yaml:6: keys with ?"},
		"deep flow":         {"acme.yaml", minimal + "x: [[[[[[[[[\n", "acme.yaml:6: nests too deep"},
		"deep list": {"acme.yaml", minimal + "x:\n  " + strings.Repeat("- ", 40) + "a\n",
			"acme.yaml:7: nests too deep"},
		"many keys": {"acme.yaml", minimal + strings.Repeat("x: 1\n", 5000),
			"acme.yaml:4097: has more entries than a definition can have"},
		"many commas": {"acme.yaml", minimal + "x: [" + strings.Repeat(",", 5000),
			"acme.yaml:6: has more entries than a definition can have"},
		"file of passwords": {"acme.yaml", "root:$6$secret:20228:0:99999:7::\n",
			"acme.yaml:1: root…: is not a field of the format"},
		"forged line": {"acme.yaml", minimal + "\"x\\nacme.yaml\": 1\n",
			"acme.yaml: x…: is not a field of the format"},
		"two documents": {"acme.yaml", minimal + "---\n" + minimal, "acme.yaml: must contain exactly one YAML document"},
		"empty":         {"acme.yaml", "", "acme.yaml: must contain exactly one YAML document"},
		"comment only":  {"acme.yaml", "# nothing\n", "acme.yaml: must contain exactly one YAML document"},
		"not a mapping": {"acme.yaml", "- a\n", "acme.yaml: must be a mapping"},
		"not YAML":      {"acme.yaml", "a: [1\n", "acme.yaml:1: "},
		"not UTF-8":     {"acme.yaml", "a: \xff\n", "acme.yaml: is not UTF-8"},
		"too large": {"acme.yaml", minimal + strings.Repeat("# comment\n", 30000),
			"acme.yaml: is larger than 262144 bytes"},
		"wrong type": {"acme.yaml", strings.Replace(minimal, "schema: 1", "schema: [1]", 1), "acme.yaml:1: "},
		"other schema": {"acme.yaml", strings.Replace(minimal, "schema: 1", "schema: 2", 1),
			"acme.yaml:1: schema: must be 1"},
		"wrong ending":         {"acme.yml", minimal, "acme.yml: must end in .yaml"},
		"slug of another file": {"other.yaml", minimal, "other.yaml:2: slug: must be the file's name"},
		"bad slug": {"acme.yaml", strings.Replace(minimal, "slug: acme", "slug: Acme_1", 1),
			"acme.yaml:2: slug: must be lower-case"},
		"reserved slug": {"execute.yaml", strings.Replace(minimal, "slug: acme", "slug: execute", 1),
			"execute.yaml:2: slug: is reserved"},
		"no name":             {"acme.yaml", strings.Replace(minimal, "Acme", `""`, 1), "acme.yaml:3: display_name"},
		"no category":         {"acme.yaml", strings.Replace(minimal, "[crm]", "[]", 1), "acme.yaml:4: categories"},
		"same category":       {"acme.yaml", strings.Replace(minimal, "[crm]", "[crm, crm]", 1), "acme.yaml:4: categories"},
		"evidence of nothing": {"acme.yaml", minimal + evidence, "acme.yaml:6: evidence: describes the check of webhooks"},
		"empty evidence": {"acme.yaml", minimal + "evidence: {}\n" + webhooks,
			"acme.yaml:6: evidence.grade: must be vector or documented"},
		"no grade": {"acme.yaml", minimal + strings.Replace(evidence, "documented", "good", 1) + webhooks,
			"acme.yaml:7: evidence.grade: must be"},
		"no source": {"acme.yaml", minimal + strings.Replace(evidence, "The page on signatures", `""`, 1) +
			webhooks, "acme.yaml:8: evidence.source: must be one line"},
		"source of two lines": {"acme.yaml", minimal + strings.Replace(evidence, "The page on signatures", `"a\nb"`, 1) +
			webhooks, "acme.yaml:8: evidence.source: must be one line"},
		"source too long": {"acme.yaml", minimal + strings.Replace(evidence, "The page on signatures",
			strings.Repeat("é", 301), 1) + webhooks, "acme.yaml:8: evidence.source: must be one line"},
		"http evidence": {"acme.yaml", minimal + strings.Replace(evidence, "https:", "http:", 1) + webhooks,
			"acme.yaml:9: evidence.url: must be an https URL"},
		"left out nothing": {"acme.yaml", minimal + evidence + "    - \"\"\n" + webhooks,
			"acme.yaml:12: evidence.left_out[1]: must be one line"},
		"left out twice": {"acme.yaml", minimal + evidence + "    - how long deliveries are repeated\n" + webhooks,
			"acme.yaml:12: evidence.left_out[1]: is listed twice"},
		"left out too much": {"acme.yaml", minimal + evidence + strings.Repeat("    - x\n", 32) + webhooks,
			"acme.yaml:10: evidence.left_out: has more than 32 entries"},
		"unknown evidence": {"acme.yaml", minimal + evidence + "  date: 2026-01-01\n" + webhooks,
			`acme.yaml:12: evidence.date: is not a field of the format`},
		"http docs": {"acme.yaml", strings.Replace(minimal, "https:", "http:", 1), "acme.yaml:5: docs_url"},
		"no setup": {"acme.yaml", minimal + strings.Replace(webhooks, "  setup: Paste the URL.\n", "", 1),
			"acme.yaml:6: webhooks.setup: must explain"},
		"bad webhooks": {"acme.yaml", minimal + strings.Replace(webhooks, "hex", "hexadecimal", 1),
			"acme.yaml:13: webhooks.signature[0].encoding: must be"},
		"webhooks without all": {"acme.yaml", minimal + "webhooks: {setup: x}\n", "acme.yaml:6: webhooks.scheme: must be"},
		"tokens as a mapping": {"acme.yaml", minimal + strings.Replace(webhooks, `"{body}"`, "{body}", 1),
			"acme.yaml:14: "},
		"number for a list": {"acme.yaml", strings.Replace(minimal, "[crm]", "7", 1), "acme.yaml:4: "},
		"yes is not a boolean": {"acme.yaml", minimal + webhooks +
			"  timestamp: {from: \"header:t\", format: unix_s, signed: yes}\n", "acme.yaml:17: "},
		"unquoted flow header": {"acme.yaml", minimal + webhooks + "  redact_headers: [a: b]\n", "acme.yaml:17: "},
		"slug of a path": {"acme.yaml", strings.Replace(minimal, "slug: acme", "slug: ../acme", 1),
			"acme.yaml:2: slug: must be lower-case"},
		"null where text is": {"acme.yaml", strings.Replace(minimal, "Acme", "null", 1), "acme.yaml:3: display_name"},
		"unknown field in list": {"acme.yaml", minimal + strings.Replace(webhooks, "encoding: hex",
			"encoding: hex\n      key_id_field: k", 1),
			`acme.yaml:14: webhooks.signature[0].key_id_field: is not a field of the format`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, err := registry.Load(folder(tt.file, tt.text))
			require.Nil(t, loaded)
			var load *registry.LoadError
			require.ErrorAs(t, err, &load)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// The problems of all files come in one error.
func TestLoadReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := registry.Load(folder(
		"a.yaml", minimal,
		"b.yaml", "schema: 3\nslug: b\ndisplay_name: B\ncategories: [B]\ndocs_url: x\nwebhooks:\n  setup: x\n  scheme: hmac\n",
		"c.yml", "",
		"d.yaml", "nonsense: 1\nslug: [a]\nwebhooks: {signature: {from: x}}\n",
	))
	var load *registry.LoadError
	require.ErrorAs(t, err, &load)
	var places []string
	for _, f := range load.Problems {
		places = append(places, f.File+" "+f.Field)
	}
	require.Equal(t, []string{
		"a.yaml slug", "b.yaml schema", "b.yaml categories", "b.yaml docs_url", "b.yaml webhooks.algorithm",
		"b.yaml webhooks.secret.decode", "b.yaml webhooks.signature", "b.yaml webhooks.signed", "c.yml ", "d.yaml nonsense",
		"d.yaml slug", "d.yaml webhooks.signature",
	}, places)
}

// One mistake in the shape of a file does not hide the others.
func TestLoadReportsAllShapes(t *testing.T) {
	t.Parallel()
	_, err := registry.Load(folder("acme.yaml", `schema: one
slug: [acme]
display_name: Acme
categories: crm
docs: https://acme.example
webhooks:
  setup: {}
  scheme: hmac
  reject_status: 401.5
  signature:
    - form: header:x
    - header:x
  timestamp: {signed: yes}
  event:
    - type
    - id
  handshake:
    - respond: {headers: [a]}
`))
	var load *registry.LoadError
	require.ErrorAs(t, err, &load)
	var places []string
	for _, f := range load.Problems {
		message, _, _ := strings.Cut(f.Message, ";")
		message, _, _ = strings.Cut(message, ". Did you mean")
		places = append(places, strconv.Itoa(f.Line)+" "+f.Field+" "+message)
	}
	require.Equal(t, []string{
		"1 schema must be a whole number", "2 slug must be text", "4 categories must be a list",
		"5 docs is not a field of the format", "7 webhooks.setup must be text",
		"9 webhooks.reject_status must be a whole number", "11 webhooks.signature[0].form is not a field of the format",
		"12 webhooks.signature[1] must be a mapping", "13 webhooks.timestamp.signed must be true or false",
		"14 webhooks.event must be a mapping", "18 webhooks.handshake[0].respond.headers must be a mapping",
	}, places)
}

// The report on one file is bounded, for any number of errors.
func TestLoadBoundsProblems(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 3000 {
		text.WriteString(strings.Repeat("x", 30) + strconv.Itoa(i) + ": 1\n")
	}
	_, err := registry.Load(folder("acme.yaml", text.String()+strings.Repeat("y", 10_000)+": 1\n"))
	var load *registry.LoadError
	require.ErrorAs(t, err, &load)
	require.Len(t, load.Problems, 51)
	require.Equal(t, "acme.yaml: has more problems than these", load.Problems[50].String())
	_, err = registry.Load(folder("acme.yaml", strings.Repeat("y", 10_000)+": 1\n"))
	require.Less(t, len(err.Error()), 1000)
}

// Files that editors and mounted volumes make for themselves are no definitions; a file that is none by its
// kind is refused and not waited for; a folder is read up to its limits.
func TestLoadFolders(t *testing.T) {
	t.Parallel()
	good := folder("acme.yaml", minimal, ".acme.yaml.swp", "x", ".#acme.yaml", "x", "acme.yaml~", "x", "..data/acme.yaml",
		"x", ".hidden.yaml", "x")
	loaded, err := registry.Load(good)
	require.NoError(t, err)
	require.Len(t, loaded.List(), 1)

	good["pipe.yaml"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	_, err = registry.Load(good)
	require.ErrorContains(t, err, "pipe.yaml: is no regular file")

	many := fstest.MapFS{}
	for i := range 257 {
		name := "p" + strconv.Itoa(1000+i)
		many[name+".yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(minimal, "slug: acme", "slug: "+name, 1))}
	}
	_, err = registry.Load(many)
	require.EqualError(t, err, "read provider definitions: there are more than the 256 that a folder can have")
	delete(many, "p1256.yaml")
	loaded, err = registry.Load(many)
	require.NoError(t, err)
	require.Len(t, loaded.List(), 256)

	large := fstest.MapFS{}
	for i := range 65 {
		name := "p" + strconv.Itoa(1000+i)
		text := strings.Replace(minimal, "slug: acme", "slug: "+name, 1)
		large[name+".yaml"] = &fstest.MapFile{Data: []byte(text + "# " + strings.Repeat("x", 256<<10-len(text)-2))}
	}
	_, err = registry.Load(large)
	require.EqualError(t, err, "read provider definitions: together they are larger than 16777216 bytes")
}

// A folder that cannot be read is an error, not an empty registry.
func TestLoadUnreadable(t *testing.T) {
	t.Parallel()
	_, err := registry.Load(os.DirFS(t.TempDir() + "/missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The words that the API's paths use are no provider keys.
func TestReserved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"executions", "execute", "execute-async", "await-webhook", "imports", "sallyport"} {
		require.True(t, registry.Reserved(name))
	}
	require.False(t, registry.Reserved("github"))
}

// No file makes loading panic, and every loaded file follows the rules.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(minimal + webhooks))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("a: |\n  b\n c: {d: [e]}\n"))
	f.Add([]byte(everyAction))
	f.Fuzz(func(t *testing.T, data []byte) {
		loaded, err := registry.Load(folder("acme.yaml", string(data)))
		if (err == nil) != (loaded != nil) {
			t.Fatalf("registry %v with error %v", loaded, err)
		}
		if err != nil {
			return
		}
		p, ok := loaded.Get("acme")
		if !ok || p.Definition.Slug != "acme" || p.Definition.Schema != 1 ||
			(p.Definition.Webhooks == nil) != (p.Webhooks == nil) {
			t.Fatalf("loaded %+v", p)
		}
		for _, action := range p.Actions {
			compileSchema(t, action.Input)
		}
	})
}
