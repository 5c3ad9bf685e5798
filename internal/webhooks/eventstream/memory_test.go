package eventstream

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/webhooks/events"
)

// A slow reader does not keep in memory what its feed has dropped: its stream ends as lagged in the middle of a record,
// and it comes back there.
func TestDripReader(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		slow, quick := w.open(n), w.open(n)
		uuid := w.one()
		try, list := w.attempted(w.env, uuid)
		require.NoError(w.t, w.run(list...))
		slow.until("the try", func() bool { return len(slow.of(w.t, EventUpdated)) == 1 })
		release := make(chan struct{})
		slow.mu.Lock()
		slow.stall = release
		slow.mu.Unlock()
		w.sameAttempt(2000, uuid, try)
		slow.until("the reader to stall", func() bool { return len(slow.stalled) == 1 })
		for range 6 {
			w.padded(2000)
			last := w.one()
			quick.until("everything", func() bool { return slices.Contains(quick.uuids(w.t), last) })
		}
		close(release)
		event, _ := slow.over()
		require.Equal(w.t, StreamLagged, event)
		require.Less(w.t, len(slow.of(w.t, AttemptCompleted)), 2000)
	})
}

// The bytes that a reader takes from a feed at a time are bounded too, except for a single record.
func TestTakenAtATime(t *testing.T) {
	t.Parallel()
	f := newFeed(feedKey{}, 0, 0, began())
	f.add([]*chunk{chunkOf(1, 1, takeBytes+1, began()), chunkOf(2, 1, takeBytes/2, began()),
		chunkOf(3, 1, takeBytes/2, began()), chunkOf(4, 1, 1, began())}, began())
	require.Len(t, f.read(0).chunks, 1)
	require.Len(t, f.read(1).chunks, 2)
	require.Len(t, f.read(3).chunks, 1)
}

// The pages with which a reader catches up hold each message behind its place once, in order, and few at a time however
// many one record has.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var log []events.LogRecord
		var all []string
		for i := range rapid.IntRange(1, 20).Draw(rt, "records") {
			r := events.LogRecord{Position: int64(i + 1)}
			add := func(most int) (list []string) {
				for range rapid.IntRange(0, most).Draw(rt, "messages") {
					all = append(all, strconv.Itoa(len(all)))
					list = append(list, all[len(all)-1])
				}
				return list
			}
			r.Received = add(100)
			for _, a := range add(300) {
				r.Attempts = append(r.Attempts, events.LogAttempt{ID: a})
			}
			r.Updated = add(300)
			log = append(log, r)
		}
		first := log[0].Messages()
		r := &Reader{place: Place{position: 1, index: rapid.IntRange(0, first).Draw(rt, "index")}}
		skipped := r.place.index
		need, target := int64(0), int64(len(log)+rapid.IntRange(0, 3).Draw(rt, "foreign"))
		var got []string
		for need < target {
			page := log[need:min(int(need)+pageRecords, len(log))]
			parts, next := r.clip(page, target)
			messages := 0
			for _, p := range parts {
				require.Equal(rt, log[p.Position-1].Position, p.Position)
				got = append(got, p.Received...)
				for _, a := range p.Attempts {
					got = append(got, a.ID)
				}
				got = append(got, p.Updated...)
				messages += p.Messages()
				r.place = Place{position: p.Position, index: p.end()}
			}
			require.LessOrEqual(rt, messages, pageMessages)
			require.True(rt, next > need || messages > 0, "it goes on for ever")
			need = next
		}
		require.True(rt, slices.Equal(all[skipped:], got))
	})
}

// A reader who comes back into the middle of a long record gets the rest of it, once.
func TestCatchUpInsideARecord(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		s := w.open(n)
		list := make([]events.NewEvent, 2*pageMessages+10)
		for i := range list {
			list[i] = w.event(w.env)
		}
		all := w.received(list...)
		s.until("everything", func() bool { return len(s.uuids(w.t)) == len(all) })
		s.quit()
		w.padded(nearby) // so that the reader has to catch up
		back := newClient()
		back.lastID = s.messages()[4].ID
		again := w.connect(n, back, Request{View: access.Whole(w.env)})
		again.until("the rest", func() bool { return len(again.of(w.t, AttemptCompleted)) == nearby+1 })
		require.Equal(w.t, all[5:], again.uuids(w.t)[:len(all)-5])
	})
}
