package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit"
)

// TestMain deletes what outlives single tests. Many servers in one process produce much garbage and keep little, so
// that collecting it less often saves a tenth of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	code := m.Run()
	for _, p := range populatedInstallations().all {
		if p.saved == nil {
			continue
		}
		if err := p.saved.Delete(); err != nil {
			fmt.Fprintln(os.Stderr, "delete the populated installation:", err)
		}
	}
	os.Exit(code)
}

// populated is an installation that has fixtures. It is made once, and each test works on a copy.
type populated struct {
	once  sync.Once
	saved *testkit.Saved
	// at is the time of the clock when the installation was saved.
	at time.Time
	// fixtures are those of one environment, or of two.
	fixtures []fixtures
}

// installations holds the populated installations by engine, true for PostgreSQL, and number of environments.
type installations struct {
	all map[installationKey]*populated
}

type installationKey struct {
	postgres     bool
	environments int
}

//nolint:gochecknoglobals // one for the process
var populatedInstallations = sync.OnceValue(func() installations {
	i := installations{all: map[installationKey]*populated{}}
	for _, postgres := range []bool{false, true} {
		for environments := 1; environments <= 2; environments++ {
			i.all[installationKey{postgres, environments}] = &populated{}
		}
	}
	return i
})

// eachPopulated runs fn on every engine with a server of its own, whose development environment has fixtures. The race
// detector sees nothing in these suites that it does not see elsewhere; PostgreSQL is for long tests.
func eachPopulated(t *testing.T, fn func(w *world, f fixtures), changes ...func(*config.Config)) {
	t.Helper()
	eachCopy(t, 1, func(w *world, all []fixtures) { fn(w, all[0]) }, changes)
}

// eachPopulatedTwice is eachPopulated with fixtures in the production environment as well.
func eachPopulatedTwice(t *testing.T, fn func(w *world, own, other fixtures)) {
	t.Helper()
	eachCopy(t, 2, func(w *world, all []fixtures) { fn(w, all[0], all[1]) }, nil)
}

func eachCopy(t *testing.T, environments int, fn func(w *world, all []fixtures), changes []func(*config.Config)) {
	t.Helper()
	if testkit.Race {
		t.Skip("suites over every operation do not run under the race detector")
	}
	for engine, postgres := range map[string]bool{"sqlite": false, "postgres": true} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			if postgres {
				testkit.NeedLong(t)
			}
			p := populatedOf(t, installationKey{postgres, environments})
			w := newWorld(t, "", "")
			w.openCopy(p)
			for _, change := range changes {
				change(&w.cfg)
			}
			w.start()
			w.token() // so that no later request signs in
			fn(w, p.fixtures)
		})
	}
}

// openCopy points a world that has not started at a copy of an installation.
func (w *world) openCopy(p *populated) {
	w.t.Helper()
	databaseURL, dir := p.saved.Restore(w.t)
	w.place(databaseURL, dir)
	w.clk.Advance(p.at.Sub(w.clk.Now()))
}

// populatedOf returns a populated installation, which the first test that needs it makes.
func populatedOf(t *testing.T, key installationKey) *populated {
	t.Helper()
	p := populatedInstallations().all[key]
	p.once.Do(func() { p.create(t, key) })
	require.NotNil(t, p.saved, "the test that was to populate the installation has failed")
	return p
}

func (p *populated) create(t *testing.T, key installationKey) {
	t.Helper()
	w := newWorld(t, "", t.TempDir())
	switch {
	case key.environments > 1:
		one := populatedOf(t, installationKey{key.postgres, 1})
		w.openCopy(one)
		p.fixtures = one.fixtures
	case key.postgres:
		w.place(testkit.NewPostgres(t), t.TempDir())
	default:
		testkit.NewSQLite(t, w.dir)
	}
	w.start()
	c, environment, name := w.dev(), w.env, "acme"
	if key.environments > 1 {
		environment = w.environment("production")
		c, name = w.user(environment), "elsewhere"
	}
	all := append(p.fixtures[:len(p.fixtures):len(p.fixtures)], w.populate(c, environment, name))
	w.stop()
	w.closeDatabase()
	p.at, p.fixtures = w.clk.Now(), all
	p.saved = testkit.Save(t, w.databaseURL, w.dir)
}

// servers are those that fixtures name. They outlive single tests, as the installations do.
type servers struct {
	// refusing is the URL of a receiver that refuses every event.
	refusing string
	// issuer is the URL of a server whose token endpoint gives everyone a token.
	issuer string
	idp    *testkit.IdP
}

//nolint:gochecknoglobals // one for the process
var fixtureServers = sync.OnceValue(func() servers {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"of a sample","token_type":"Bearer","expires_in":3600}`))
	}))
	idp, _, err := testkit.StartIdP(start)
	if err != nil {
		panic(err)
	}
	return servers{refusing: refusing.URL + "/hook", issuer: issuer.URL, idp: idp}
})
