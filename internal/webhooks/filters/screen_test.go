package filters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/filters"
)

// costly returns a filter that uses up most of its limit on the event of large, and does not match.
func costly(i int) *filters.Filter {
	return filters.New(fmt.Sprintf(`event.body.list.exists(x, event.body.list.exists(y, x + y == %d))`, -1-i))
}

// large returns an event that makes costly filters costly.
func large() *filters.Event {
	return &filters.Event{Type: "a", Body: []byte(`{"list":[` + strings.Repeat("1,", 100) + `1]}`)}
}

// One event cannot be made to cost more than the limit, however many filters there are and however costly each is: the
// rest are not evaluated, do not match and say so. A cheap filter never pays for costly ones.
func TestScreenIsBounded(t *testing.T) {
	t.Parallel()
	var list []*filters.Filter
	for i := range 50 {
		list = append(list, costly(i))
	}
	one := list[0].Eval(large())
	require.Nil(t, one.Failure)
	require.Greater(t, one.Cost, uint64(filters.MaxCost/2), "the filter is near its limit")
	cheap := filters.New(`event.type == "a"`)
	list = append(list, cheap)

	s := filters.NewScreen(large())
	spent, evaluated := uint64(0), 0
	fresh := s.Evaluate(list)
	require.Len(t, fresh, len(list))
	for _, r := range fresh {
		spent += r.Cost
		if !r.NotEvaluated {
			evaluated++
			continue
		}
		require.False(t, r.Matches)
		require.Equal(t, "not_evaluated", r.Outcome())
		require.Equal(t, filters.CodeCost, r.Failure.Code)
	}
	require.True(t, s.Result(cheap).Matches)
	require.Less(t, spent, uint64(filters.MaxEventCost+filters.MaxCost))
	require.Less(t, evaluated, 12)
	require.Empty(t, s.Evaluate(list), "each is evaluated once")
	late := filters.New("true")
	require.True(t, s.Evaluate([]*filters.Filter{late})[0].NotEvaluated, "the limit is that of the event")
	require.True(t, s.Has(late))
}

// Which filters are left out depends on the filters and the event alone, and not on the order in which subscriptions
// were found.
func TestScreenIsDeterministic(t *testing.T) {
	t.Parallel()
	var list []*filters.Filter
	for i := range 20 {
		list = append(list, costly(i))
	}
	forward, backward := filters.NewScreen(large()), filters.NewScreen(large())
	forward.Evaluate(list)
	for _, f := range list {
		require.True(t, forward.Has(f))
	}
	reversed := slices.Clone(list)
	slices.Reverse(reversed)
	backward.Evaluate(append(reversed, list...))
	for _, f := range list {
		require.Equal(t, forward.Result(f), backward.Result(f))
	}
}

// A filter on a large body costs the others nothing: what it has opened is open for them, and what it may open is not
// theirs.
func TestScreenOfALargeBody(t *testing.T) {
	t.Parallel()
	body := `{"data":{"text":[` + strings.Repeat(`"`+strings.Repeat("x", 64<<10)+`",`, 400) + `1],"x":1,"y":2},"z":3}`
	require.Greater(t, len(body), 25<<20)
	event := &filters.Event{Type: "a", Body: []byte(body)}
	list := []*filters.Filter{filters.New(`event.body.data.x == 1`), filters.New(`event.body.data.y == 2`),
		filters.New(`event.body.z == 3`), filters.New(`event.type == "a"`)}
	s := filters.NewScreen(event)
	for _, r := range s.Evaluate(list) {
		require.True(t, r.Matches, "%+v", r)
	}
	require.True(t, s.Evaluate([]*filters.Filter{filters.New(`event.type != "b"`)})[0].Matches)
}

// Opening the body has a limit: filters that each read another part of a large body cannot look through it without end.
// Those that read what is open, or nothing of the body, are evaluated nevertheless.
func TestScreenCountsWhatIsOpened(t *testing.T) {
	t.Parallel()
	const parts, size = 300, 128 << 10
	var body strings.Builder
	body.WriteByte('{')
	var list []*filters.Filter
	for i := range parts {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `"m%d":{"o":{"text":%q,"n":1}}`, i, strings.Repeat("x", size))
		list = append(list, filters.New(fmt.Sprintf(`event.body.m%d.o.n == 1`, i)))
	}
	body.WriteByte('}')
	// By their text they come last, or need more steps than the others.
	free := []*filters.Filter{filters.New(`has(event.body.m1) && has(event.body.m10) && has(event.body.m100)`),
		filters.New(`event.type == "a" && event.type != "b" && event.type != "c"`)}
	s := filters.NewScreen(&filters.Event{Type: "a", Body: []byte(body.String())})
	s.Evaluate(append(list, free...))
	left := 0
	for _, f := range list {
		switch r := s.Result(f); {
		case r.NotEvaluated:
			left++
			require.False(t, r.Matches)
			require.Equal(t, "not_evaluated", r.Outcome())
			require.Contains(t, r.Failure.Message, "96 MiB")
		default:
			require.True(t, r.Matches)
		}
	}
	require.Positive(t, left)
	require.Less(t, left, parts)
	for _, f := range free {
		require.True(t, s.Result(f).Matches)
	}
}

// Hundreds of ordinary filters are far from the limit.
func TestScreenLeavesRoomForOrdinaryFilters(t *testing.T) {
	t.Parallel()
	var list []*filters.Filter
	for i := range 500 {
		list = append(list, filters.New(fmt.Sprintf(
			`event.body.action == "opened" && event.body.issue.labels.exists(l, l.name == "label-%d")`, i)))
	}
	s := filters.NewScreen(&filters.Event{Type: "issues.opened",
		Body: []byte(`{"action":"opened","issue":{"number":7,"labels":[{"name":"bug"},{"name":"label-7"}]}}`)})
	matched := 0
	for _, r := range s.Evaluate(list) {
		require.Nil(t, r.Failure)
		if r.Matches {
			matched++
		}
	}
	require.Equal(t, 1, matched)
}
