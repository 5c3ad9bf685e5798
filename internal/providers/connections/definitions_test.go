package connections_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

// acme signs as GitHub does; connections name an account in letters.
const acme = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
webhooks:
  setup: Paste the URL.
  params: [{name: account, description: The account., pattern: "[a-z]+", default: none}]
  scheme: hmac
  algorithm: sha256
  secret: {decode: utf8}
  signature: [{from: "header:x-hub-signature-256", parse: {prefix: "sha256="}, encoding: hex}]
  signed: "{body}"
  event:
    type: ["{json:/{param:account}}"]
`

// folder is a folder of definitions alongside those that ship, and a Service that follows it.
type folder struct {
	t    testing.TB
	dir  string
	live *registry.Live
	svc  *connections.Service
	// configs are the provider configurations that svc uses.
	configs *configs.Service
}

func (w *world) newFolder(t testing.TB, text string) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	f.write(text)
	var err error
	f.live, err = registry.New(registry.Config{Builtin: w.reg,
		Folder: &registry.Folder{FS: os.DirFS(f.dir), Path: f.dir}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	f.configs = w.newConfigs(f.live)
	f.svc, err = connections.New(connections.Config{
		Limits: w.newLimits(t),
		Vault: credentials.NewVault(credentials.Config{DB: w.store.DB, Clock: w.clock, Box: w.box,
			Pepper: installation.Pepper("a pepper of the tests")}),
		Prober: probes.New(probes.Config{Clock: w.clock,
			Client: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})}),
		Protocol: tokens.NewProtocol(egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
			w.clock),
		Addresses: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
		AllowHTTP: true,
		DB:        w.store.DB, Clock: w.clock, Box: w.box, Providers: f.live, Environments: environments{},
		Configs: f.configs, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), OnChange: w.hooks,
	})
	require.NoError(t, err)
	return f
}

func (f *folder) write(text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, "acme.yaml"), []byte(text), 0o600))
}

// follow brings the folder's content into force as the worker does.
func (f *folder) follow() {
	f.t.Helper()
	f.live.Refresh(f.t.Context(), f.svc)
	if f.live.Refresh(f.t.Context(), f.svc) {
		f.svc.ProvidersChanged()
	}
}

func (f *folder) lookup(segment string) *connections.Inbound {
	f.t.Helper()
	in, err := f.svc.Lookup(f.t.Context(), segment)
	require.NoError(f.t, err)
	return in
}

func (f *folder) create(w *world, id, account string) {
	f.t.Helper()
	in := github(id)
	in.Provider = ptr("acme")
	in.Params = patch.To(map[string]*string{"account": &account})
	_, _, err := f.svc.Create(f.t.Context(), w.a, in)
	require.NoError(f.t, err)
}

// Every webhook after a change of the definitions is verified by the new one, though the connection was cached before;
// a connection whose settings the new one refuses stays with the version that it fits, also where no request had used
// it yet, and moves to the new one when its settings are fixed.
func TestLookupFollowsDefinitions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		f := w.newFolder(t, acme)
		f.create(w, "short", "ab")
		f.create(w, "long", "abcdef")
		f.create(w, "asleep", "abcdef")
		w.create(t, w.a, github("other"))
		require.True(t, accepts(f.lookup("short"), githubSecret))
		require.True(t, accepts(f.lookup("long"), githubSecret))
		other := f.lookup("other")
		require.Same(t, other, f.lookup("other"))

		// The second version has another header, and takes accounts of three letters at most.
		v2 := strings.NewReplacer("x-hub-signature-256", "x-acme-signature", `"[a-z]+"`, `"[a-z]{1,3}"`, "default: none",
			"default: non").Replace(acme)
		f.write(v2)
		f.follow()
		require.False(t, accepts(f.lookup("short"), githubSecret), "the old header is not looked at")
		for _, segment := range []string{"long", "asleep"} {
			in := f.lookup(segment)
			require.True(t, accepts(in, githubSecret), segment)
			require.False(t, in.Unusable)
			require.Equal(t, "[a-z]+", in.Provider.Definition.Webhooks.Params[0].Pattern)
		}
		acmeNow, ok := f.live.Get("acme")
		require.True(t, ok)
		require.Same(t, acmeNow, f.lookup("short").Provider)
		uuids, total, err := f.svc.Unfit(t.Context(), acmeNow, 1)
		require.NoError(t, err)
		require.Equal(t, 2, total)
		require.Len(t, uuids, 1)

		// A third version fits them no better: they stay where they are.
		f.write(strings.Replace(v2, "display_name: Acme", "display_name: Acme 3", 1))
		f.follow()
		require.True(t, accepts(f.lookup("long"), githubSecret))
		require.Equal(t, "Acme 3", f.lookup("short").Provider.Definition.DisplayName)

		_, err = f.svc.Update(t.Context(), w.a, "acme", "long",
			connections.Change{Params: patch.To(map[string]*string{"account": ptr("abc")})})
		require.NoError(t, err)
		require.Equal(t, "Acme 3", f.lookup("long").Provider.Definition.DisplayName)
		require.True(t, accepts(f.lookup("other"), githubSecret))

		used, err := f.svc.UsedProviders(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"acme", "github"}, used)
	})
}

// A secret that a new definition reads in another way, and cannot, keeps the connection with the old one.
func TestLookupKeepsDefinitionOfSecrets(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		f := w.newFolder(t, acme)
		f.create(w, "hex", "ab")
		f.write(strings.Replace(acme, "utf8", "hex", 1))
		f.follow()
		require.True(t, accepts(f.lookup("hex"), githubSecret))
		_, err := f.svc.Update(t.Context(), w.a, "acme", "hex",
			connections.Change{Secret: patch.To(secretbox.Secret("00112233445566778899"))})
		require.NoError(t, err)
		require.True(t, accepts(f.lookup("hex"), "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99"))
	})
}
