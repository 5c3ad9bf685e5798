package rejections_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/rejections"
)

const (
	envA = id.Environment("env_a")
	envB = id.Environment("env_b")
)

type world struct {
	clock *clock.Manual
	svc   *rejections.Service
}

func newWorld(s testkit.Store) *world {
	c := clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	return &world{c, rejections.New(rejections.Config{DB: s.DB, Clock: c})}
}

// refused is a refused request to a connection of environment A.
func (w *world) refused(connection, body string) rejections.Rejection {
	return rejections.Rejection{Environment: envA, ConnectionUUID: "uuid-" + connection, ConnectionID: connection,
		Provider: "github", ProviderConfigKey: "github", ReceivedAt: w.clock.Now(), Reason: "signature_mismatch",
		Message: "No secret matches.", ClientIP: "192.0.2.1", Method: "POST", Headers: `{"content-type":"application/json"}`,
		Body: []byte(body), BodySize: int64(len(body))}
}

func (w *world) flush(t *testing.T) {
	t.Helper()
	require.NoError(t, w.svc.Flush(t.Context()))
}

func (w *world) list(t *testing.T, env id.Environment, f rejections.Filter) []rejections.Rejection {
	t.Helper()
	p, err := page.Query{Limit: 250}.Parse("", func(string) bool { return true })
	require.NoError(t, err)
	list, err := w.svc.List(t.Context(), access.Whole(env), f, p)
	require.NoError(t, err)
	return list
}

func diagnosed(context.Context) rejections.Diagnosis {
	return rejections.Diagnosis{Code: "body_rewritten", Message: "The body was changed on its way."}
}

// A refused request is listed with all recorded details, newest first, in its environment only, and by its filters.
func TestList(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		first := w.refused("acme", `{"a":1}`)
		w.svc.Note(first, nil, diagnosed)
		w.clock.Advance(time.Second)
		second := w.refused("other", "\xff\x00")
		second.Reason, second.ProviderConfigKey = "body_incomplete", "stripe"
		w.svc.Note(second, nil, nil)
		require.Empty(t, w.list(t, envA, rejections.Filter{}), "nothing is stored before Flush")
		w.flush(t)

		all := w.list(t, envA, rejections.Filter{})
		require.Len(t, all, 2)
		require.True(t, id.Is(id.PrefixRejection, all[1].ID))
		first.ID, first.Diagnosis, second.ID = all[1].ID, diagnosed(t.Context()), all[0].ID
		require.Equal(t, []rejections.Rejection{second, first}, all)
		require.Empty(t, w.list(t, envB, rejections.Filter{}))
		for _, f := range []rejections.Filter{{ConnectionIDs: []string{"acme"}},
			{ProviderConfigKeys: []string{"github", "x"}}, {Reasons: []string{"signature_mismatch"}}} {
			require.Equal(t, []rejections.Rejection{first}, w.list(t, envA, f), "%v", f)
		}
		require.Empty(t, w.list(t, envA, rejections.Filter{ConnectionIDs: []string{"acme"},
			Reasons: []string{"body_incomplete"}}))
	})
}

// A ring holds the newest refusals of its connection and leaves the others' alone.
func TestRing(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		w.svc.Note(w.refused("quiet", "kept"), nil, nil)
		for i := range rejections.PerConnection + 7 {
			w.svc.Note(w.refused("loud", fmt.Sprint(i)), nil, nil)
			w.clock.Advance(time.Second)
			w.flush(t)
		}
		require.Len(t, w.list(t, envA, rejections.Filter{ConnectionIDs: []string{"quiet"}}), 1)
		loud := w.list(t, envA, rejections.Filter{ConnectionIDs: []string{"loud"}})
		require.Len(t, loud, rejections.PerConnection)
		require.Equal(t, fmt.Sprint(rejections.PerConnection+6), string(loud[0].Body))
		require.Equal(t, "7", string(loud[len(loud)-1].Body))
	})
}

// A flood at one connection is stored slowly and counted whole, costs few diagnoses and copies, and takes
// nothing from another connection.
func TestFlood(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		var filled, diagnoses int
		const flood, seconds = 1000, 3
		for range seconds {
			for range flood {
				w.svc.Note(w.refused("loud", "x"), func(*rejections.Rejection) { filled++ },
					func(ctx context.Context) rejections.Diagnosis { diagnoses++; return diagnosed(ctx) })
			}
			w.flush(t)
			w.clock.Advance(time.Second)
		}
		w.svc.Note(w.refused("quiet", "x"), nil, nil)
		w.flush(t)
		require.Len(t, w.list(t, envA, rejections.Filter{ConnectionIDs: []string{"quiet"}}), 1)
		loud := w.list(t, envA, rejections.Filter{ConnectionIDs: []string{"loud"}})
		require.Len(t, loud, 20+2*5)
		require.Len(t, loud, filled, "headers and bodies are made of what is kept alone")
		total := int64(len(loud))
		for _, r := range loud {
			total += r.Suppressed
		}
		require.Equal(t, int64(flood*seconds), total, "every refusal is stored or counted")
		require.LessOrEqual(t, diagnoses, 5+2*2)
		require.Positive(t, diagnoses)
	})
}

// Neither a large body nor many headers, nor a request by a guessable alias, fill memory or the store.
func TestBounds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		large := w.refused("large", strings.Repeat("b", rejections.MaxDiagnosed+1))
		w.svc.Note(large, nil, func(context.Context) rejections.Diagnosis {
			t.Error("too large to be diagnosed")
			return rejections.Diagnosis{}
		})
		middle := w.refused("middle", strings.Repeat("b", rejections.MaxDiagnosed))
		middle.Headers = `{"a":"` + strings.Repeat("h", rejections.MaxHeaders) + `"}`
		w.svc.Note(middle, nil, diagnosed)
		alias := w.refused("alias", strings.Repeat("a", rejections.MaxDiagnosed))
		alias.ByAlias = true
		w.svc.Note(alias, nil, diagnosed)
		w.flush(t)
		for _, r := range w.list(t, envA, rejections.Filter{}) {
			switch r.ConnectionID {
			case "alias":
				require.Equal(t, bytes.Repeat([]byte("a"), rejections.MaxBody), r.Body, "as by path token")
				require.Equal(t, int64(rejections.MaxDiagnosed), r.BodySize)
				require.Equal(t, diagnosed(t.Context()), r.Diagnosis)
			case "middle":
				require.Equal(t, "{}", r.Headers)
				require.Equal(t, diagnosed(t.Context()), r.Diagnosis)
				fallthrough
			default:
				require.Equal(t, bytes.Repeat([]byte("b"), rejections.MaxBody), r.Body)
			}
		}
		// Waiting rejections are bounded in bytes over all connections, by path token or by alias.
		for i := range 400 {
			r := w.refused(fmt.Sprint("many", i), strings.Repeat("b", rejections.MaxDiagnosed))
			r.ByAlias = i%2 == 0
			w.svc.Note(r, nil, diagnosed)
		}
		w.flush(t)
		require.Len(t, w.list(t, envA, rejections.Filter{}),
			3+8<<20/(rejections.MaxDiagnosed+len(`{"content-type":"application/json"}`)))
	})
}

// A flood at a guessable alias pushes out no refusal by path token, and a deleted connection leaves nothing.
func TestAliasAndForget(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		w.svc.Note(w.refused("acme", "genuine"), nil, nil)
		for range 300 {
			junk := w.refused("acme", "junk")
			junk.ByAlias = true
			w.svc.Note(junk, nil, nil)
			w.flush(t)
			w.clock.Advance(time.Second)
		}
		list := w.list(t, envA, rejections.Filter{})
		require.Len(t, list, 1+rejections.PerAlias)
		require.Equal(t, "genuine", string(list[len(list)-1].Body))

		w.svc.Note(w.refused("other", "kept"), nil, nil)
		w.flush(t)
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return w.svc.Forget(t.Context(), tx, "uuid-acme") }))
		list = w.list(t, envA, rejections.Filter{})
		require.Len(t, list, 1)
		require.Equal(t, "other", list[0].ConnectionID)
	})
}

// Suppressed refusals count towards the refusal before them, whether or not that is stored already.
func TestSuppressedFollow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		for range 25 { // the burst of 20, and 5 more
			w.svc.Note(w.refused("acme", "first"), nil, nil)
		}
		w.flush(t)
		for range 3 {
			w.svc.Note(w.refused("acme", "first"), nil, nil)
		}
		w.clock.Advance(time.Second)
		w.svc.Note(w.refused("acme", "second"), nil, nil)
		w.svc.Note(w.refused("acme", "second"), nil, nil)
		w.flush(t)
		list := w.list(t, envA, rejections.Filter{})
		require.Len(t, list, 22)
		require.Zero(t, list[0].Suppressed)
		require.Zero(t, list[1].Suppressed)
		require.Equal(t, int64(8), list[2].Suppressed)
	})
}

// Old refusals go, and only they.
func TestExpire(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(s)
		w.svc.Note(w.refused("acme", "old"), nil, nil)
		w.clock.Advance(time.Millisecond)
		w.svc.Note(w.refused("acme", "young"), nil, nil)
		w.flush(t)
		require.NoError(t, w.svc.Expire(t.Context(), w.clock.Now().Add(rejections.Lifetime)))
		left := w.list(t, envA, rejections.Filter{})
		require.Len(t, left, 1)
		require.Equal(t, "young", string(left[0].Body))
	})
}

// A list of rejections takes turns among the lists of its environment.
func TestListTakesTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(store)
		testkit.TakesTurn(t, store.DB, string(envA), "the list", func() error {
			_, err := w.svc.List(t.Context(), access.Whole(envA), rejections.Filter{}, page.Request{Limit: 1})
			return err
		})
	})
}
