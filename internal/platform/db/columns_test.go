package db_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
)

// thing has a field of every form.
type thing struct {
	ID          string
	Environment id.Environment
	Note        string
	Count       int64
	Small       int
	Limit       *int64
	On          bool
	Sealed      []byte
	CreatedAt   time.Time
	EndedAt     *time.Time
	Timeout     time.Duration
	Labels      map[string]string
	Free        map[string]any
	Reversed    string
}

func thingColumns(t *thing) db.Columns {
	return db.Columns{
		db.Col("id", &t.ID),
		db.Col("environment_id", &t.Environment),
		db.Col("note", db.Null(&t.Note)),
		db.Col("count", &t.Count),
		db.Col("small", &t.Small),
		db.Col("most", &t.Limit),
		db.Col("enabled", &t.On),
		db.Col("sealed", &t.Sealed),
		db.Col("created_ms", db.Millis(&t.CreatedAt)),
		db.Col("ended_ms", db.NullMillis(&t.EndedAt)),
		db.Col("timeout_ms", db.Duration(&t.Timeout, time.Millisecond)),
		db.Col("labels", db.JSON(&t.Labels)),
		db.Col("free", db.JSON(&t.Free)),
		db.Col("reversed", db.Text(
			func() (string, error) { return reverse(t.Reversed), nil },
			func(text string) error { t.Reversed = reverse(text); return nil })),
	}
}

func reverse(s string) string {
	r := []rune(s)
	slices.Reverse(r)
	return string(r)
}

func createThings(t *testing.T, s testkit.Store) {
	t.Helper()
	bytes := map[db.Engine]string{db.SQLite: "blob", db.Postgres: "bytea"}[s.DB.Engine()]
	_, err := s.DB.Schema().ExecContext(t.Context(), `CREATE TABLE things (id text PRIMARY KEY,
		environment_id text NOT NULL,
		note text, count bigint NOT NULL, small bigint NOT NULL, most bigint, enabled boolean NOT NULL, sealed `+bytes+`,
		created_ms bigint NOT NULL, ended_ms bigint, timeout_ms bigint NOT NULL, labels text NOT NULL,
		free text NOT NULL, reversed text NOT NULL)`)
	require.NoError(t, err)
}

func anyThing(id string) *rapid.Generator[thing] {
	return rapid.Custom(func(t *rapid.T) thing {
		text := rapid.StringMatching(`[a-zü"<&\\ ]{0,4}`)
		at := rapid.Map(rapid.Int64Range(-1<<40, 1<<45), clock.FromMillis)
		x := thing{ID: id, Environment: "env_1", Note: text.Draw(t, "note"), Count: rapid.Int64().Draw(t, "count"),
			Small: rapid.Int().Draw(t, "small"), On: rapid.Bool().Draw(t, "on"), CreatedAt: at.Draw(t, "created"),
			EndedAt: rapid.Ptr(at, true).Draw(t, "ended"),
			Limit:   rapid.Ptr(rapid.Int64(), true).Draw(t, "limit"),
			Timeout: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "timeout")) * time.Millisecond,
			Labels:  rapid.MapOf(text, text).Draw(t, "labels"), Reversed: text.Draw(t, "reversed"),
			Free: map[string]any{"n": json.Number("1.50"), "text": text.Draw(t, "free")}}
		if rapid.Bool().Draw(t, "has sealed") {
			x.Sealed = rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "sealed")
		}
		return x
	})
}

// A stored row comes back as it was, for any values of its fields. An update changes the fields that it names and
// nothing else, and only in the rows of its conditions.
func TestColumns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		createThings(t, s)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			key := id.New(id.PrefixEnvironment)
			before, after := anyThing(key).Draw(rt, "before"), anyThing(key).Draw(rt, "after")
			q := s.DB.Write()
			read := func() thing {
				got, found, err := db.One(t.Context(), q, thingColumns, "FROM things", new(db.Where).And("id = ?", key), "")
				require.NoError(rt, err)
				require.True(rt, found)
				return got
			}
			for _, want := range []bool{true, false} {
				stored, err := db.Insert(t.Context(), q, "INSERT INTO things", thingColumns(&before), "ON CONFLICT DO NOTHING")
				require.NoError(rt, err)
				require.Equal(rt, want, stored)
			}
			require.Equal(rt, before, read())

			some := thingColumns(&after).Only("note", "sealed", "count", "most", "ended_ms")
			version := func(n int64) *db.Where { return new(db.Where).And("id = ? AND count = ?", key, n) }
			changed, err := db.Update(t.Context(), q, "UPDATE things", some, version(before.Count-1))
			require.NoError(rt, err)
			require.False(rt, changed)
			require.Equal(rt, before, read())
			changed, err = db.Update(t.Context(), q, "UPDATE things", some, version(before.Count))
			require.NoError(rt, err)
			require.True(rt, changed)
			want := before
			want.Note, want.Sealed, want.Count, want.EndedAt = after.Note, after.Sealed, after.Count, after.EndedAt
			want.Limit = after.Limit
			require.Equal(rt, want, read())

			differ, err := thingColumns(&after).Changed(thingColumns(&want))
			require.NoError(rt, err)
			if len(differ) > 0 {
				_, err = db.Update(t.Context(), q, "UPDATE things", differ, new(db.Where).And("id = ?", key))
				require.NoError(rt, err)
			}
			require.Equal(rt, after, read())
			differ, err = thingColumns(&after).Changed(thingColumns(&after))
			require.NoError(rt, err)
			require.Empty(rt, differ)
		})
		var count int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things").Scan(&count))
		require.Equal(t, n, count)
	})
}

// Conditions and pages select what they say, each argument in its place.
func TestWhere(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		createThings(t, s)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			x := thing{ID: name, Environment: "env_1", Note: name, On: name > "b", Count: int64(name[0])}
			if name == "e" {
				x.Environment = "env_2"
			}
			_, err := db.Insert(t.Context(), s.DB.Write(), "INSERT INTO things", thingColumns(&x), "")
			require.NoError(t, err)
		}
		list := func(w *db.Where, tail string) string {
			rows, err := db.All(t.Context(), s.DB.Read(), thingColumns, "FROM things t", w, tail)
			require.NoError(t, err)
			require.NotNil(t, rows)
			names := ""
			for _, r := range rows {
				names += r.ID
			}
			return names
		}
		const byID = "ORDER BY id"
		require.Equal(t, "abcde", list(new(db.Where), byID))
		require.Equal(t, "abcd", list(new(db.Where).And("t.environment_id = ?", "env_1"), byID))
		w := new(db.Where).And("environment_id = ?", "env_1").And("(id = ? OR id = ?)", "a", "c")
		require.Equal(t, "ac", list(w, byID))
		w.Numbered("count > $4", []any{int64('a')}).Numbered("", nil)
		require.Equal(t, 5, w.Next())
		require.Equal(t, "c", list(w, byID))
		require.Equal(t, "bd", list(db.AnyOf(new(db.Where), "id", []id.Environment{"b", "d", "x"}), byID))
		require.Equal(t, "cde", list(db.AnyOf(new(db.Where), "enabled", []bool{true}), byID))
		require.Equal(t, "ae", list(db.AnyOf(db.AnyOf(new(db.Where), "count", []int{'a', 'e'}), "id", []string(nil)), byID))
		w = new(db.Where).And("environment_id = ?", "env_1")
		w.And("EXISTS (SELECT 1 FROM things o WHERE o.id = t.id AND o.count > " + w.Arg(int64('a')) + " AND o.id IN " +
			db.List(w, []string{"a", "b", "d", "e"}) + ")")
		require.Equal(t, "bd", list(w.And("t.id <> ?", "c"), byID))
		w = new(db.Where).And("environment_id = ?", "env_1")
		require.Equal(t, "dcb", list(w, w.Page("id", page.Request{Limit: 2})))
		w = new(db.Where).And("id IN (" + "'a', 'b', 'c', 'd')")
		require.Equal(t, "cd", list(w, w.Page("id", page.Request{Limit: 2, After: "b", Ascending: true})))
		_, found, err := db.One(t.Context(), s.DB.Read(), thingColumns, "FROM things", new(db.Where).And("id = ?", "x"), "")
		require.NoError(t, err)
		require.False(t, found)
		_, err = db.All(t.Context(), s.DB.Read(), thingColumns, "FROM nothing", new(db.Where), "")
		require.Error(t, err)
	})
}

// A field that has no form in the database, a column that is not there, and a value that cannot be encoded are found
// before a statement runs.
func TestColumnsThatCannotBe(t *testing.T) {
	t.Parallel()
	x := thing{Free: map[string]any{"f": func() {}}}
	_, err := thingColumns(&x).Args()
	require.ErrorContains(t, err, "column free")
	_, err = db.Columns{db.Col("free", &x.Free)}.Args()
	require.ErrorContains(t, err, "needs a binding")
	at := &x.CreatedAt
	_, err = db.Columns{db.Col("created_ms", &at)}.Args()
	require.ErrorContains(t, err, "needs a binding")
	require.Panics(t, func() { thingColumns(&x).Only("colour") })
	broken := errors.New("broken")
	require.ErrorIs(t, scan(t, db.Text(nil, func(string) error { return broken }), "x"), broken)
	for _, binding := range []any{db.Null(&x.Note), db.Millis(&x.CreatedAt), db.Duration(&x.Timeout, 1),
		db.JSON(&x.Free)} {
		require.Error(t, scan(t, binding, 1.5))
	}
}

// scan has a binding read a value of a row.
func scan(t *testing.T, binding, src any) error {
	t.Helper()
	s, ok := binding.(sql.Scanner)
	require.True(t, ok)
	return s.Scan(src)
}
