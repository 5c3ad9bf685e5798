package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/registry"
)

// asked stands in for the connections of an installation.
type asked struct {
	used  []string
	unfit map[string]int // by display name, which the tests give each version
	err   error
}

func (a *asked) UsedProviders(context.Context) ([]string, error) { return a.used, a.err }

func (a *asked) Unfit(_ context.Context, p *registry.Provider, limit int) ([]string, int, error) {
	n := a.unfit[p.Definition.DisplayName]
	return make([]string, min(n, limit)), n, a.err
}

// site is a folder of definitions and the registry that follows it.
type site struct {
	t     testing.TB
	dir   string
	live  *registry.Live
	log   bytes.Buffer
	asked asked
}

// shipped has one definition, of the slug shipped.
func shipped(t require.TestingT) *registry.Registry {
	loaded, err := registry.Load(folder("shipped.yaml", named("shipped", "Shipped")))
	require.NoError(t, err)
	return loaded
}

// named is a good definition of that slug and name.
func named(slug, name string) string {
	return strings.NewReplacer("slug: acme", "slug: "+slug, "display_name: Acme", "display_name: "+name).Replace(minimal) +
		webhooks
}

func newSite(t testing.TB, files ...string) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "definitions"),
		asked: asked{unfit: map[string]int{}}}
	require.NoError(t, os.Mkdir(s.dir, 0o700))
	s.write(files...)
	require.NoError(t, s.start())
	return s
}

func (s *site) start() (err error) {
	s.live, err = registry.New(registry.Config{Builtin: shipped(s.t),
		Folder: &registry.Folder{FS: os.DirFS(s.dir), Path: s.dir}, Logger: slog.New(slog.NewJSONHandler(&s.log, nil))})
	return err
}

func (s *site) write(files ...string) {
	s.t.Helper()
	for file := range slices.Chunk(files, 2) {
		require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, file[0]), []byte(file[1]), 0o600))
	}
}

func (s *site) remove(file string) { require.NoError(s.t, os.Remove(filepath.Join(s.dir, file))) }

// look lets the registry look as often as it needs to act, and reports whether it is another then.
func (s *site) look() bool {
	first := s.live.Refresh(s.t.Context(), &s.asked)
	return s.live.Refresh(s.t.Context(), &s.asked) || first
}

// inForce are the names of the active versions, by slug.
func (s *site) inForce() map[string]string {
	out := map[string]string{}
	for _, p := range s.live.Registry().List() {
		out[p.Definition.Slug] = p.Definition.DisplayName
	}
	return out
}

func (s *site) get(slug string) *registry.Provider {
	s.t.Helper()
	p, ok := s.live.Get(slug)
	require.True(s.t, ok)
	return p
}

// refused is the metric's value.
func (s *site) refused() float64 {
	s.t.Helper()
	return testkit.Metric(s.t, s.live.Module(nil).Metrics, "sallyport_provider_definitions_refused")
}

// logged returns the log's entries since it was last asked.
func (s *site) logged() []map[string]any {
	s.t.Helper()
	var out []map[string]any
	for line := range strings.Lines(s.log.String()) {
		var entry map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(line), &entry))
		delete(entry, "time")
		out = append(out, entry)
	}
	s.log.Reset()
	return out
}

// The errors of a folder at the start are one error that names all of them with files, lines and fields.
func TestLiveRefusesToStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("acme.yaml", strings.Replace(named("acme", "A"), "encoding: hex", "encoding: x", 1), "b.yml", "",
		"shipped.yaml", named("shipped", "Mine"))
	err := s.start()
	var load *registry.LoadError
	require.ErrorAs(t, err, &load)
	require.Equal(t, "provider definitions: "+s.dir+
		"/acme.yaml:13: webhooks.signature[0].encoding: must be hex, base64 or base64url\n"+
		s.dir+"/b.yml: must end in .yaml\n"+
		s.dir+"/shipped.yaml:2: slug: is that of a definition that ships; choose another, or state replaces_builtin: true "+
		"to have this one in its place", err.Error())
	require.NoError(t, os.RemoveAll(s.dir))
	require.ErrorIs(t, s.start(), os.ErrNotExist)
	require.ErrorContains(t, s.start(), s.dir)
}

// Added, changed and removed definitions apply without a restart, in a new registry that replaces the old one. A
// registry in use does not change, and without changes nothing happens.
func TestLiveFollowsTheFolder(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	require.Equal(t, map[string]string{"acme": "One", "shipped": "Shipped"}, s.inForce())
	require.Equal(t, registry.SourceFolder, s.get("acme").Source)
	require.Equal(t, registry.SourceBuiltin, s.get("shipped").Source)
	held, acme := s.live.Registry(), s.get("acme")
	require.False(t, s.look())

	s.write("acme.yaml", named("acme", "Two"), "other.yaml", named("other", "Other"))
	require.True(t, s.look())
	require.Equal(t, map[string]string{"acme": "Two", "other": "Other", "shipped": "Shipped"}, s.inForce())
	require.Same(t, held.List()[0], acme)
	require.Len(t, held.List(), 2)
	require.False(t, s.look())

	s.remove("acme.yaml")
	require.True(t, s.look())
	require.Equal(t, map[string]string{"other": "Other", "shipped": "Shipped"}, s.inForce())
	require.Zero(t, s.refused())
}

// A change is acted on only when two looks have found the same, so that a file is not read while it is
// written.
func TestLiveWaitsForWriters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	text := named("acme", "One")
	for i := 20; i < len(text); i += len(text) / 7 {
		s.write("acme.yaml", text[:i])
		require.False(t, s.live.Refresh(t.Context(), &s.asked))
	}
	s.write("acme.yaml", text)
	require.False(t, s.live.Refresh(t.Context(), &s.asked))
	require.True(t, s.live.Refresh(t.Context(), &s.asked))
	require.Len(t, s.logged(), 1, "nothing was refused on the way")
}

// A broken version is refused with file, line and reason, once. The version before stays active, and so does every
// other change with it. Once fixed, the file is active.
func TestLiveRefusesBrokenVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	acme := s.get("acme")
	s.write("acme.yaml", strings.NewReplacer("encoding: hex", "encoding: x", "{json:/type}", "{json:type}").Replace(
		named("acme", "Two")), "new.yaml", "slug: [\n", "other.yaml", named("other", "Other"))
	require.True(t, s.look())
	require.Equal(t, map[string]string{"acme": "One", "other": "Other", "shipped": "Shipped"}, s.inForce())
	require.Same(t, acme, s.get("acme"))
	require.InDelta(t, 2, s.refused(), 0)
	entries := s.logged()
	require.Len(t, entries, 3)
	require.Equal(t, map[string]any{
		"level": "ERROR", "msg": "provider definition rejected; the previous version, if any, stays active",
		"file": filepath.Join(s.dir, "acme.yaml"), "line": 13.0, "field": "webhooks.signature[0].encoding",
		"reason": "must be hex, base64 or base64url", "problems": 2.0, "in_force": true,
	}, entries[1])
	require.Equal(t, filepath.Join(s.dir, "new.yaml"), entries[2]["file"])
	require.Equal(t, false, entries[2]["in_force"])
	require.False(t, s.look())
	require.Empty(t, s.logged(), "a problem is said once")

	s.write("acme.yaml", named("acme", "Three"))
	s.remove("new.yaml")
	require.True(t, s.look())
	require.Equal(t, map[string]string{"acme": "Three", "other": "Other", "shipped": "Shipped"}, s.inForce())
	require.Zero(t, s.refused())
	entries = s.logged()
	require.Equal(t, "every provider definition in the folder is active", entries[len(entries)-1]["msg"],
		"whoever mends learns that it is done")
	s.write("acme.yaml", "slug: [\n")
	require.False(t, s.look())
	s.write("acme.yaml", named("acme", "Three"))
	require.False(t, s.look(), "what is in force already changes nothing")
	entries = s.logged()
	require.Len(t, entries, 2)
	require.Equal(t, "every provider definition in the folder is active", entries[1]["msg"])
}

// A file under a wrong ending is refused and hides nothing of the one under the right ending; a folder beyond
// its limits changes nothing.
func TestLiveRefusesStrayFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	s.write("acme.yml", named("acme", "Stray"), "acme.yaml", named("acme", "Two"))
	require.True(t, s.look())
	require.Equal(t, "Two", s.inForce()["acme"])
	require.InDelta(t, 1, s.refused(), 0)
	for i := range 256 {
		s.write("p"+strconv.Itoa(i)+".yaml", "x")
	}
	require.False(t, s.look())
	require.Equal(t, map[string]string{"acme": "Two", "shipped": "Shipped"}, s.inForce())
	entries := s.logged()
	require.Contains(t, entries[len(entries)-1]["error"], "more than the 256")
}

// A removed definition stays active while connections use it, or while their use is unknown.
func TestLiveKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"), "other.yaml", named("other", "Other"))
	s.asked.used = []string{"acme", "shipped"}
	s.remove("acme.yaml")
	s.remove("other.yaml")
	require.True(t, s.look())
	require.Equal(t, map[string]string{"acme": "One", "shipped": "Shipped"}, s.inForce())
	require.InDelta(t, 1, s.refused(), 0)
	entries := s.logged()
	require.Equal(t, "provider definition removed while connections use it; it stays active until the process ends",
		entries[0]["msg"])
	require.Equal(t, filepath.Join(s.dir, "acme.yaml"), entries[0]["file"])

	s.asked.used = nil
	s.write("third.yaml", named("third", "Third"))
	require.True(t, s.look())
	require.Equal(t, map[string]string{"third": "Third", "shipped": "Shipped"}, s.inForce())
	require.Zero(t, s.refused())

	s.asked.err = errors.New("the store is down")
	s.remove("third.yaml")
	require.False(t, s.look())
	require.Equal(t, map[string]string{"third": "Third", "shipped": "Shipped"}, s.inForce())
}

// A definition takes the place of one that ships only where it says so; removed, it gives way to that one
// again, and connections can still have the version that they fit.
func TestLiveReplacesBuiltin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	builtin := s.get("shipped")
	s.write("shipped.yaml", named("shipped", "Mine"))
	require.False(t, s.look())
	require.Same(t, builtin, s.get("shipped"))
	require.InDelta(t, 1, s.refused(), 0)

	s.asked.unfit["Mine"], s.asked.unfit["Shipped"] = 3, 1
	s.write("shipped.yaml", named("shipped", "Mine")+"replaces_builtin: true\n")
	require.True(t, s.look())
	mine := s.get("shipped")
	require.Equal(t, "Mine", mine.Definition.DisplayName)
	require.Same(t, builtin, mine.Previous())

	s.write("shipped.yaml", "broken")
	require.False(t, s.look())
	require.Same(t, mine, s.get("shipped"))

	s.remove("shipped.yaml")
	require.True(t, s.look())
	back := s.get("shipped")
	require.Equal(t, "Shipped", back.Definition.DisplayName)
	require.Equal(t, registry.SourceBuiltin, back.Source)
	require.Same(t, mine, back.Previous())

	s.write("acme.yaml", named("acme", "One"))
	require.True(t, s.look())
	require.Same(t, back, s.get("shipped"), "what else changes does not forget who stays with the version before")
}

// While a new version does not fit every connection, all versions before it can be had, within a bound; once
// it fits all, only the one before.
func TestLiveKeepsVersionsThatConnectionsFit(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "V0"))
	first := s.get("acme")
	for i := range 40 {
		s.asked.unfit["V"+strconv.Itoa(i+1)] = 7
		s.write("acme.yaml", named("acme", "V"+strconv.Itoa(i+1)))
		require.True(t, s.look())
	}
	versions := 0
	last := s.get("acme")
	for p := s.get("acme"); p != nil; p = p.Previous() {
		versions++
		last = p
	}
	require.Equal(t, 32, versions)
	require.Same(t, first, last)
	require.Equal(t, "V39", s.get("acme").Previous().Definition.DisplayName)
	entry := s.logged()[0]
	require.Equal(t, "WARN", entry["level"])
	require.InDelta(t, 7, entry["connections"], 0)
	require.Len(t, entry["connection_uuids"], 5)

	s.write("acme.yaml", named("acme", "Good"))
	require.True(t, s.look())
	require.Equal(t, "V40", s.get("acme").Previous().Definition.DisplayName)
	require.Nil(t, s.get("acme").Previous().Previous())
}

// A provider that never had webhooks has no versions by which connections could be verified: nothing is kept for them,
// and no connection is said not to fit. One that loses its webhooks keeps the version that has them.
func TestLiveKeepsNoVersionsWithoutWebhooks(t *testing.T) {
	t.Parallel()
	silent := func(name string) string {
		return strings.Replace(minimal, "display_name: Acme", "display_name: "+name, 1)
	}
	s := newSite(t, "acme.yaml", silent("V0"))
	s.asked.used, s.asked.unfit = []string{"acme"}, map[string]int{"V0": 7, "V1": 7, "V2": 7, "V4": 7}
	for i := range 2 {
		s.write("acme.yaml", silent("V"+strconv.Itoa(i+1)))
		require.True(t, s.look())
	}
	require.Nil(t, s.get("acme").Previous().Previous())
	for _, entry := range s.logged() {
		require.NotEqual(t, "WARN", entry["level"], "%v", entry)
	}
	s.write("acme.yaml", named("acme", "V3"))
	require.True(t, s.look())
	s.write("acme.yaml", silent("V4"))
	require.True(t, s.look())
	require.Equal(t, "V3", s.get("acme").Previous().Definition.DisplayName)
	require.Equal(t, "V2", s.get("acme").Previous().Previous().Definition.DisplayName)
	require.InDelta(t, 7, s.logged()[1]["connections"], 0)
}

// A folder that cannot be read for a time changes nothing, says so once, and is followed again when it is
// back.
func TestLiveFolderLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	acme := s.get("acme")
	require.NoError(t, os.Rename(s.dir, s.dir+"-away"))
	require.False(t, s.look())
	require.False(t, s.look())
	require.Same(t, acme, s.get("acme"))
	require.Len(t, s.logged(), 1)
	require.InDelta(t, 1, s.refused(), 0)
	require.NoError(t, os.Rename(s.dir+"-away", s.dir))
	require.False(t, s.look())
	require.Same(t, acme, s.get("acme"))
	require.Zero(t, s.refused())
	entries := s.logged()
	require.Equal(t, "every provider definition in the folder is active", entries[len(entries)-1]["msg"])
}

// Editors that write a new file and rename it, and volumes that swap a symbolic link to a folder, are
// followed.
func TestLiveFollowsRenamesAndLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	s.write("acme.yaml.tmp", named("acme", "Two"))
	require.NoError(t, os.Rename(filepath.Join(s.dir, "acme.yaml.tmp"), filepath.Join(s.dir, "acme.yaml")))
	require.True(t, s.look())
	require.Equal(t, "Two", s.inForce()["acme"])

	// A mounted volume: acme.yaml → ..data/acme.yaml, ..data → ..1, and then ..data → ..2 in one step.
	for i, name := range []string{"..1", "..2"} {
		require.NoError(t, os.Mkdir(filepath.Join(s.dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name, "acme.yaml"),
			[]byte(named("acme", "Volume"+strconv.Itoa(i+1))), 0o600))
	}
	require.NoError(t, os.Symlink("..1", filepath.Join(s.dir, "..data")))
	s.remove("acme.yaml")
	require.NoError(t, os.Symlink("..data/acme.yaml", filepath.Join(s.dir, "acme.yaml")))
	require.True(t, s.look())
	require.Equal(t, "Volume1", s.inForce()["acme"])
	require.NoError(t, os.Symlink("..2", filepath.Join(s.dir, "..data_tmp")))
	require.NoError(t, os.Rename(filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data")))
	require.True(t, s.look())
	require.Equal(t, "Volume2", s.inForce()["acme"])
	require.Zero(t, s.refused())
}

// The log says after the start which connections have no definition, and which do not fit the operator's.
func TestLiveReportsMissingSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t, "acme.yaml", named("acme", "One"))
	s.asked.used, s.asked.unfit["One"] = []string{"acme", "gone", "shipped"}, 2
	require.False(t, s.look())
	entries := s.logged()
	require.Len(t, entries, 2)
	require.Equal(t, "acme", entries[0]["provider"])
	require.InDelta(t, 2, entries[0]["connections"], 0)
	require.Equal(t, "connections have a provider without a definition; their webhooks are rejected until it is back",
		entries[1]["msg"])
	require.Equal(t, "gone", entries[1]["provider"])
	require.False(t, s.look())
	require.Empty(t, s.logged())
}

// Without a folder there are the definitions that ship, and nothing is looked at.
func TestLiveWithoutFolder(t *testing.T) {
	t.Parallel()
	live, err := registry.New(registry.Config{Builtin: shipped(t), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.False(t, live.Refresh(t.Context(), nil))
	require.Len(t, live.Registry().List(), 1)
}

// For any changes of the folder, the active version of each slug is the last good version of its file: while the file
// exists, or connections use it.
func TestLiveModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		files := fstest.MapFS{}
		use := &asked{unfit: map[string]int{}}
		live, err := registry.New(registry.Config{Builtin: shipped(t),
			Folder: &registry.Folder{FS: files, Path: "d"}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		want := map[string]string{"shipped": "Shipped"}
		version := 0
		for look := range rapid.IntRange(1, 12).Draw(t, "looks") {
			use.used = nil
			for _, slug := range slices.Sorted(maps.Keys(want)) {
				if rapid.Bool().Draw(t, "used") {
					use.used = append(use.used, slug)
				}
			}
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				version++
				slug := rapid.SampledFrom([]string{"a", "b", "c", "shipped"}).Draw(t, "slug")
				text := named(slug, "V"+strconv.Itoa(version))
				switch rapid.SampledFrom([]string{"write", "replace", "break", "remove"}).Draw(t, "change") {
				case "replace":
					text += "replaces_builtin: true\n"
				case "break":
					text += "nonsense: 1\n"
				case "remove":
					delete(files, slug+".yaml")
					continue
				}
				files[slug+".yaml"] = &fstest.MapFile{Data: []byte(text)}
			}
			// without any change nothing is looked at again
			files["tick.yaml"] = &fstest.MapFile{Data: []byte("# " + strconv.Itoa(look))}
			for _, slug := range []string{"a", "b", "c", "shipped"} {
				file, there := files[slug+".yaml"]
				switch {
				case there && !bytes.Contains(file.Data, []byte("nonsense")) &&
					(slug != "shipped" || bytes.Contains(file.Data, []byte("replaces"))):
					_, name, _ := strings.Cut(string(file.Data), "display_name: ")
					want[slug], _, _ = strings.Cut(name, "\n")
				case there:
				case slug == "shipped":
					want[slug] = "Shipped"
				case !slices.Contains(use.used, slug):
					delete(want, slug)
				}
			}
			live.Refresh(t.Context(), use)
			live.Refresh(t.Context(), use)
			got := map[string]string{}
			for _, p := range live.Registry().List() {
				got[p.Definition.Slug] = p.Definition.DisplayName
			}
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			require.Equal(t, want, got)
		}
	})
}
