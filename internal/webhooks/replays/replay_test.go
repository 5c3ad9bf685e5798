package replays

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/webhooks/events"
)

// A request for the state that a replay already has changes nothing, and a replay that has ended stays as it is.
func TestTransitions(t *testing.T) {
	t.Parallel()
	const ended, same = Status("ended"), Status("same")
	for name, c := range map[string]struct {
		to   func(*Replay, time.Time) (bool, error)
		want map[Status]Status
	}{
		"pause": {(*Replay).pause, map[Status]Status{Queued: Paused, Running: Paused, Paused: same, Completed: ended,
			Cancelled: ended, Failed: ended}},
		"resume": {(*Replay).resume, map[Status]Status{Queued: same, Running: same, Paused: Queued, Completed: ended,
			Cancelled: ended, Failed: ended}},
		"cancel": {(*Replay).cancel, map[Status]Status{Queued: Cancelled, Running: Cancelled, Paused: Cancelled,
			Completed: ended, Cancelled: same, Failed: ended}},
	} {
		require.Len(t, c.want, len(statuses()))
		for from, want := range c.want {
			r := Replay{Status: from}
			changed, err := c.to(&r, testTime())
			switch want {
			case ended:
				require.True(t, apperr.Is(err, apperr.CodeReplayEnded), "%s %s", name, from)
			case same:
				require.NoError(t, err)
				require.False(t, changed, "%s %s", name, from)
				require.Equal(t, Replay{Status: from}, r)
			default:
				require.NoError(t, err)
				require.True(t, changed)
				require.Equal(t, want, r.Status, "%s %s", name, from)
				require.Equal(t, want.hasEnded(), r.FinishedAt != nil)
			}
		}
	}
}

// Progress is the share of the time that was looked through, never backwards and never the whole before the end.
func TestProgress(t *testing.T) {
	t.Parallel()
	uuid := func(ms string) string { return "01939a4e-" + ms + "-7c6f-8a54-3b1f0f6a8f11" }
	for _, c := range []struct {
		work   work
		status Status
		want   float64
	}{
		{work{}, Queued, 0},
		{work{first: uuid("0000"), last: uuid("0064")}, Running, 0},
		{work{first: uuid("0000"), last: uuid("0064"), place: uuid("0019")}, Running, 0.25},
		{work{first: uuid("0000"), last: uuid("0064"), place: uuid("0064")}, Running, 0.99},
		{work{first: uuid("0000"), last: uuid("0000"), place: uuid("0000")}, Running, 0},
		{work{first: uuid("0000"), last: uuid("0064"), place: uuid("0032"), scanned: true}, Running, 1},
		{work{first: uuid("0000"), last: uuid("0064"), place: uuid("0032"), scanned: true, begun: uuid("0064")}, Running,
			0.5},
		{work{}, Completed, 1},
	} {
		require.InDelta(t, c.want, (&Replay{Status: c.status, work: c.work}).Progress(), 1e-9, "%+v", c.work)
	}
}

// fill sets every field below v to something that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(testTime()))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	default:
		require.Fail(t, "a kind of field that this test does not know", v.Kind().String())
	}
}

// A filter is stored with all its restrictions, also those that lists get later: a job that lost a restriction would
// send unwanted events. A restriction of another release is refused, not ignored.
func TestFilterIsStoredWhole(t *testing.T) {
	t.Parallel()
	var f Filter
	fill(t, reflect.ValueOf(&f).Elem())
	text, err := f.encode()
	require.NoError(t, err)
	got, err := decodeFilter(text)
	require.NoError(t, err)
	require.Equal(t, f, got)
	_, err = decodeFilter(`{"status":["failed"],"colour":["red"]}`)
	require.ErrorContains(t, err, "colour")
}

// Every field of a filter restricts the job, except those that leave out nothing that could be forwarded.
func TestRestricts(t *testing.T) {
	t.Parallel()
	var walk func(at reflect.Type, index []int, check func(name string, index []int))
	walk = func(at reflect.Type, index []int, check func(name string, index []int)) {
		for i := range at.NumField() {
			f := at.Field(i)
			next := append(append([]int{}, index...), i)
			if f.Anonymous {
				walk(f.Type, next, check)
				continue
			}
			check(f.Name, next)
		}
	}
	n := 0
	walk(reflect.TypeFor[Filter](), nil, func(name string, index []int) {
		var f Filter
		fill(t, reflect.ValueOf(&f).Elem().FieldByIndex(index))
		require.Equal(t, name != "All", f.Restricts(), name)
		n++
	})
	require.Greater(t, n, 12)
	for _, f := range []events.Filter{{}, {Types: []string{"a.b", "*"}}, {Duplicate: new(false)}, {Control: new(false)}} {
		require.False(t, (&Filter{Filter: f}).Restricts())
	}
}
