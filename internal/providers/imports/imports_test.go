package imports

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"

	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// The table of imports keeps what every queue promises.
func TestTableIsAQueue(t *testing.T) {
	t.Parallel()
	jobstest.Conform(t, func(t *testing.T, store testkit.Store) jobstest.Fixture {
		t.Helper()
		newWorld(t, store)
		return jobstest.Fixture{Table: queueTable(),
			Insert: func(ctx context.Context, tx *sql.Tx, key string, due time.Time) (string, error) {
				if _, err := tx.ExecContext(ctx, `INSERT INTO environments (id, team_id, name, created_ms)
					VALUES ($1, 'team_x', 'of ' || $1, 0) ON CONFLICT DO NOTHING`, key); err != nil {
					return "", err
				}
				m := Import{ID: id.New(id.PrefixImport), Environment: id.Environment(key), Status: Queued,
					CreatedAt: clock.FromMillis(0), UpdatedAt: clock.FromMillis(0), due: due}
				return m.ID, insert(ctx, tx, &m)
			}}
	})
}

// A document becomes a provider that its environment has, and no other; the actions are those of the document.
func TestImport(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		var operations []string
		for i := range 50 {
			operations = append(operations, fmt.Sprintf("GET /things/%d get_thing_%d", i, i))
		}
		m := w.wait(w.create("acme", document("api.acme.example", append(operations, "OPTIONS /x opt")...)))
		require.Equal(t, Ready, m.Status, "%+v", m.Failure)
		require.Equal(t, 51, m.Outcome.Operations)
		require.Equal(t, 50, m.Outcome.Actions)
		require.Equal(t, 1, m.Outcome.LeftOut)
		require.Equal(t, "OPTIONS", m.Outcome.Left[0].Method)
		_, ok := w.svc.cfg.Definitions.Find(w.a.Environment, "acme")
		require.False(t, ok, "it is not active yet")

		m = w.activate(m)
		require.Equal(t, Active, m.Status)
		p, ok := w.svc.cfg.Definitions.Find(w.a.Environment, "acme")
		require.True(t, ok)
		require.NotNil(t, p.Outbound)
		_, ok = w.svc.cfg.Definitions.Find(w.b.Environment, "acme")
		require.False(t, ok, "another environment does not have it")
		_, err := w.svc.Get(t.Context(), w.b.Environment, m.ID)
		requireCode(t, apperr.CodeNotFound, err)

		x, err := w.svc.Index(t.Context(), w.a.Environment, m.ID)
		require.NoError(t, err)
		require.Equal(t, 50, x.Len())
		for i := range 50 {
			number, ok := x.Find(fmt.Sprintf("get_thing_%d", i))
			require.True(t, ok)
			a, err := w.svc.Action(t.Context(), w.a.Environment, m.ID, number)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("/things/%d", i), a.Path)
		}
		_, err = w.svc.Action(t.Context(), w.b.Environment, m.ID, 0)
		require.Error(t, err, "another environment reads nothing of it")
		_, err = w.svc.Index(t.Context(), w.b.Environment, m.ID)
		requireCode(t, apperr.CodeNotFound, err) // also when it is in memory

		// Another process has the provider after its next look.
		other := w.process("other")
		_, ok = other.cfg.Definitions.Find(w.a.Environment, "acme")
		require.True(t, ok)
	})
}

// An error of a document has its place, and nothing of the document stays.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		for text, message := range map[string]string{
			"{\n  \"openapi\": \"3.0.0\",\n  oops": "",
			`{"openapi": "3.0.0", "paths": {}}`:    "the document has no operations",
			document("api.acme.example", "OPTIONS /x opt"): "none of the document's 1 operations could become an action; the " +
				"first: OPTIONS does nothing with the provider's data",
		} {
			m := w.wait(w.create("acme", text))
			require.Equal(t, Failed, m.Status)
			require.Equal(t, FailedDocument, m.Failure.Code)
			if message != "" {
				require.Equal(t, message, m.Failure.Message)
			} else {
				require.Equal(t, 3, m.Failure.Line, m.Failure.Message)
			}
			_, err := w.svc.Activate(t.Context(), w.a, m.ID, "")
			requireCode(t, apperr.CodeImportNotReady, err)
		}
		require.NoError(t, w.svc.tidy(t.Context()))
		w.requireParts(0)
		w.clock.Advance(keptFailed + time.Hour)
		require.NoError(t, w.svc.tidy(t.Context()))
		list, err := w.svc.List(t.Context(), w.a.Environment, Filter{}, page.Request{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list)
	})
}

func (w *world) requireParts(want int) {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.store.DB.Read().QueryRowContext(w.t.Context(),
		"SELECT COUNT(*) FROM catalog_import_parts").Scan(&n))
	require.Equal(w.t, want, n)
}

// Slugs of the installation and keys of other providers are taken; limits hold; a document that breaks off leaves
// nothing.
func TestOrders(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		order := func(o Order) error {
			_, err := w.svc.Create(t.Context(), w.a, o, strings.NewReader("{}"))
			return err
		}
		w.keys["mine"] = "github"
		requireCode(t, apperr.CodeSlugTaken, order(Order{Slug: "github"}))
		requireCode(t, apperr.CodeSlugTaken, order(Order{Slug: "mine"}))
		requireCode(t, apperr.CodeProviderNotFound, order(Order{Slug: "acme", Extends: true}))
		for _, o := range []Order{{Slug: "imports"}, {Slug: "../etc"}, {Slug: ""}, {Slug: "acme", URL: "https://a.example/x"},
			{Slug: "acme", BaseURL: "http://a.example?x"}, {Slug: "acme", Include: []string{"get /"}},
			{Slug: "acme", DisplayName: "a\x00"}} {
			requireCode(t, apperr.CodeValidation, order(o))
		}
		_, err := w.svc.Create(t.Context(), w.a, Order{Slug: "acme"}, nil)
		requireCode(t, apperr.CodeValidation, err)
		_, err = w.svc.Create(t.Context(), w.a, Order{Slug: "acme"}, &broken{after: 3})
		require.ErrorIs(t, err, errBroken)
		_, err = w.svc.Create(t.Context(), w.a, Order{Slug: "acme"}, &broken{after: math.MaxInt})
		requireCode(t, apperr.CodePayloadTooLarge, err)
		w.requireParts(0)
		for range MaxUnfinished {
			require.NoError(t, order(Order{Slug: "acme"}))
		}
		requireCode(t, apperr.CodeImportsLimit, order(Order{Slug: "acme"}))
		_, err = w.svc.Create(t.Context(), w.b, Order{Slug: "acme"}, strings.NewReader("{}"))
		require.NoError(t, err, "the limits of an environment are its own")
	})
}

var errBroken = fmt.Errorf("the connection broke off")

// broken is a document that breaks off after some pieces.
type broken struct{ after int }

func (b *broken) Read(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

// A process that ends while it reads leaves an import that another one reads from the beginning, and that does not go
// on forever if it ends each of them. Nothing of it can be activated before it was read to its end.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		m := w.create("acme", document("api.acme.example", manyOperations(200)...))
		for range 2 {
			dying := w.process("dying")
			stopped := make(chan struct{})
			dying.pause = func(ctx context.Context, _ time.Duration) {
				close(stopped)
				await.Value(t, "the end of the process", ctx.Done())
			}
			require.NoError(t, dying.queue.Start(t.Context()))
			await.Value(t, "a part of the import", stopped)
			_, err := w.svc.Activate(t.Context(), w.a, m.ID, "")
			requireCode(t, apperr.CodeImportNotReady, err)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_ = dying.queue.Stop(over)
		}
		fatal := w.create("acme", document("api.acme.example", manyOperations(20)...))
		w.exec(`UPDATE catalog_imports SET progress = '{"starts": 5}' WHERE id = $1`, fatal.ID) // while nothing reads it
		w.start(w.svc)
		m = w.wait(m)
		require.Equal(t, Ready, m.Status, "%+v", m.Failure)
		require.Equal(t, 200, m.Outcome.Actions)
		x, err := w.svc.Index(t.Context(), w.a.Environment, m.ID)
		require.NoError(t, err)
		require.Equal(t, 200, x.Len())
		fatal = w.wait(fatal)
		require.Equal(t, Failed, fatal.Status)
		require.Equal(t, FailedInternal, fatal.Failure.Code)
		require.NoError(t, w.svc.tidy(t.Context()))
		w.requireParts(200/blockActions + 2)
	})
}

func manyOperations(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("GET /things/%d get_thing_%d", i, i))
	}
	return out
}

// A cancelled import comes to nothing, also if a worker has it.
func TestCancel(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		m := w.create("acme", document("api.acme.example", manyOperations(40)...))
		reached, resume := make(chan struct{}), make(chan struct{})
		w.svc.pause = func(context.Context, time.Duration) {
			select {
			case <-reached:
			default:
				close(reached)
			}
			await.Value(w.t, "the end of the test's look", resume)
		}
		w.start(w.svc)
		await.Value(t, "a part of the import", reached)
		err := w.svc.Delete(t.Context(), w.a, m.ID)
		requireCode(t, apperr.CodeImportNotEnded, err)
		m, err = w.svc.Cancel(t.Context(), w.a, m.ID)
		require.NoError(t, err)
		require.Equal(t, Cancelled, m.Status)
		close(resume)
		next := w.wait(w.create("acme", document("api.acme.example", "GET /a get_a")))
		require.Equal(t, Ready, next.Status)
		m, err = w.svc.Cancel(t.Context(), w.a, m.ID)
		require.NoError(t, err, "cancelling a cancelled one changes nothing")
		require.Equal(t, Cancelled, m.Status)
		_, err = w.svc.Cancel(t.Context(), w.a, next.ID)
		requireCode(t, apperr.CodeImportEnded, err)
		require.NoError(t, w.svc.tidy(t.Context()))
		w.requireParts(2)
	})
}

// A provider that something belongs to stays. Another one leaves the catalog with all of its parts.
func TestDelete(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		m := w.activate(w.wait(w.create("acme", document("api.acme.example", "GET /a get_a"))))
		w.connections.Store(2)
		requireCode(t, apperr.CodeProviderInUse, w.svc.Delete(t.Context(), w.a, m.ID))
		w.connections.Store(0)
		w.configs.Store(1)
		requireCode(t, apperr.CodeProviderInUse, w.svc.Delete(t.Context(), w.a, m.ID))
		w.configs.Store(0)
		requireCode(t, apperr.CodeNotFound, w.svc.Delete(t.Context(), w.b, m.ID))
		require.NoError(t, w.svc.Delete(t.Context(), w.a, m.ID))
		_, ok := w.svc.cfg.Definitions.Find(w.a.Environment, "acme")
		require.False(t, ok)
		w.requireParts(0)
		_, err := w.svc.Get(t.Context(), w.a.Environment, m.ID)
		requireCode(t, apperr.CodeNotFound, err)
	})
}

// A document is fetched through a few redirects, and what goes wrong is said.
func TestFetch(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		mux := http.NewServeMux()
		mux.HandleFunc("/api.json", func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = rw.Write([]byte(document("api.acme.example", "GET /a get_a")))
		})
		mux.Handle("/old", http.RedirectHandler("/api.json", http.StatusFound))
		mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
		server := httptest.NewServer(mux)
		t.Cleanup(func() { await.Close(t, server) })
		for path, want := range map[string]string{"/old": "", "/loop": "more than 3 redirects", "/none": "status 404"} {
			m, err := w.svc.Create(t.Context(), w.a, Order{Slug: "acme", URL: server.URL + path}, nil)
			require.NoError(t, err)
			if m = w.wait(m); want == "" {
				require.Equal(t, Ready, m.Status, "%+v", m.Failure)
				require.NotEmpty(t, m.Document.SHA256)
				continue
			}
			require.Equal(t, FailedFetch, m.Failure.Code)
			require.Contains(t, m.Failure.Message, want)
		}
	})
}

// An import that extends a provider adds actions under the rules of its definition, and needs no digest. A provider
// without an API has nothing to extend.
func TestExtends(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		order := func(slug string) (Import, error) {
			return w.svc.Create(t.Context(), w.a, Order{Slug: slug, Extends: true, Include: []string{"POST /**"}},
				strings.NewReader(document("api.acme.dev", "POST /things add_thing", "GET /things list_things")))
		}
		_, err := order("calendly")
		requireCode(t, apperr.CodeValidation, err)
		m, err := order("stripe")
		require.NoError(t, err)
		m = w.wait(m)
		require.Equal(t, Ready, m.Status, "%+v", m.Failure)
		require.Equal(t, []int{2, 1, 1}, []int{m.Outcome.Operations, m.Outcome.Actions, m.Outcome.Excluded})
		m, err = w.svc.Activate(t.Context(), w.a, m.ID, "")
		require.NoError(t, err)
		a, err := w.svc.Action(t.Context(), w.a.Environment, m.ID, 0)
		require.NoError(t, err)
		require.Equal(t, "Idempotency-Key", a.Idempotency.Header, "the definition says so of all calls that write")
		p, ok := w.svc.cfg.Definitions.Find(w.a.Environment, "stripe")
		require.True(t, ok)
		require.Equal(t, "builtin", string(p.Source), "the definition stays")
		require.Equal(t, 1, w.svc.cfg.Definitions.Versions(w.a.Environment)["stripe"].Actions)
	})
}

// Only the last versions that were replaced are kept, and none of them is the active one.
func TestReplacedVersionsAreDropped(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		var last Import
		for i := range keptVersions + 3 {
			last = w.activate(w.wait(w.create("acme", document("api.acme.dev", fmt.Sprintf("GET /a%d get_a%d", i, i)))))
			w.clock.Advance(time.Second)
		}
		list, err := w.svc.List(t.Context(), w.a.Environment, Filter{}, page.Request{Limit: 100})
		require.NoError(t, err)
		require.Len(t, list, keptVersions+1)
		require.Equal(t, last.ID, list[0].ID)
		require.NoError(t, w.svc.tidy(t.Context()))
		w.requireParts(2 * (keptVersions + 1))
	})
}

// An index that another release has written is made again from the actions.
func TestIndexOfAnotherRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		m := w.activate(w.wait(w.create("acme", document("api.acme.dev", manyOperations(40)...))))
		want, err := w.svc.Index(t.Context(), w.a.Environment, m.ID)
		require.NoError(t, err)
		for _, other := range [][]byte{[]byte("SPX0 of another form"), {}} {
			_, err := store.DB.Write().ExecContext(t.Context(), `UPDATE catalog_import_parts SET data = $1 WHERE import_id = $2
				AND kind = 'index'`, w.svc.packer.pack(other), m.ID)
			require.NoError(t, err)
			got, err := w.process("other").Index(t.Context(), w.a.Environment, m.ID)
			require.NoError(t, err)
			require.Equal(t, want.Len(), got.Len())
			for i := range want.Len() {
				require.Equal(t, *want.Summary(i), *got.Summary(i))
			}
		}
	})
}

// A version that moves credentials says so to those who keep them; a trusted document is activated only by those who
// may trust it.
func TestActivationRights(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.start(w.svc)
		w.activate(w.wait(w.create("acme", document("api.acme.dev", "GET /a get_a"))))
		w.activate(w.wait(w.create("acme", document("api.acme.dev", "GET /b get_b"))))
		require.Equal(t, []string{"acme"}, w.moved, "the first one is new, and the second sends nothing elsewhere")
		w.activate(w.wait(w.create("acme", document("other.acme.dev", "GET /b get_b"))))
		require.Equal(t, []string{"acme", "acme"}, w.moved)

		m, err := w.svc.Create(t.Context(), w.a, Order{Slug: "acme", Trusted: true},
			strings.NewReader(document("other.acme.dev", "GET /b get_b")))
		require.NoError(t, err)
		m = w.wait(m)
		_, err = w.svc.Activate(t.Context(), w.a, m.ID, "")
		requireCode(t, apperr.CodeForbidden, err)
		admin := w.a
		admin.Rights = access.Admin.Rights()
		m, err = w.svc.Activate(t.Context(), admin, m.ID, "")
		require.NoError(t, err)
		require.Equal(t, Active, m.Status)
	})
}
