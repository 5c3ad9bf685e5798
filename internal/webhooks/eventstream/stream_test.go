package eventstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// each runs fn on every engine, at a time that moves on only while something is waited for.
func each(t *testing.T, fn func(w *world, clk *clock.Manual)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		t.Helper()
		clk := clock.NewManual(began())
		fn(newWorld(t, store, clk), clk)
	})
}

// A reader begins now, gets events received and attempts made after that, and nothing of another environment.
func TestReaderHearsOfItsEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		other := environment(w.t, w.db)
		w.one()
		s := w.open(n)
		foreign := w.connect(n, newClient(), Request{View: access.Whole(other)})
		foreign.until("the other stream to begin", foreign.begun)
		own := w.received(w.event(other), w.event(w.env), w.event(w.env))
		try, list := w.attempted(w.env, own[2])
		require.NoError(w.t, w.run(list...))
		s.until("the try and the change", func() bool { return len(s.of(w.t, EventUpdated)) == 1 })
		require.Equal(w.t, own[1:], s.uuids(w.t))
		require.Equal(w.t, []data{{Event: own[2], Status: events.Received, Attempts: 1, Try: try, Env: w.env}},
			s.of(w.t, AttemptCompleted))
		require.Equal(w.t, int64(1), s.of(w.t, EventUpdated)[0].Attempts)
		foreign.until("the other's event", func() bool { return len(foreign.uuids(w.t)) == 1 })
		require.Equal(w.t, own[:1], foreign.uuids(w.t))
		require.Len(w.t, foreign.messages(), 1)
	})
}

// The id that a reader holds moves on although nothing is for it, also of a reader who has never got anything: it comes
// back without a gap, after a restart too, and gets only what is new.
func TestQuietReaderComesBack(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		empty := w.open(n)
		first := empty.last()
		empty.until("a heartbeat", func() bool { return empty.last() != first })
		none := Request{View: access.Whole(w.env), Filter: events.Filter{Providers: []string{"nobody"}}}
		filtered := w.connect(n, newClient(), none)
		filtered.until("the stream to begin", filtered.begun)
		first = filtered.last()
		seen := w.one()
		filtered.until("a heartbeat with another id", func() bool { return filtered.last() != first })
		empty.until("the event", func() bool { return len(empty.uuids(w.t)) == 1 })
		for _, s := range []*session{empty, filtered} {
			s.quit()
		}
		n.end()

		// An hour and more passes in silence.
		clk.Advance(2 * events.LogAge)
		require.NoError(w.t, events.NewLogStore(w.db).Trim(w.t.Context(), clk.Now()))
		missed := w.one()
		n = w.start()
		for _, c := range []*client{empty.client, filtered.client} {
			s := w.connect(n, c, Request{View: access.Whole(w.env)})
			s.until("what was missed", func() bool { return slices.Contains(s.uuids(w.t), missed) })
			for _, m := range s.messages() {
				require.NotEqual(w.t, StreamGap, m.Event)
			}
		}
		require.Equal(w.t, []string{seen, missed}, empty.uuids(w.t))
		require.Equal(w.t, []string{missed}, filtered.uuids(w.t))
	})
}

// gapOf opens a stream from an id and returns the gap that it begins with; nil without one.
func (w *world) gapOf(n *node, text string) *Gap {
	w.t.Helper()
	c := newClient()
	c.lastID = text
	s := w.connect(n, c, Request{View: access.Whole(w.env)})
	s.until("the stream to begin", s.begun)
	marker := w.one()
	s.until("the stream to go on", func() bool { return slices.Contains(s.uuids(w.t), marker) })
	s.quit()
	var gap *Gap
	for i, m := range s.messages() {
		if m.Event == StreamGap {
			require.Zero(w.t, i, "a gap comes first")
			gap = &Gap{}
			require.NoError(w.t, json.Unmarshal(m.Data, gap))
			require.Equal(w.t, []string{marker}, s.uuids(w.t), "after a gap the stream goes on from now")
			require.NotEqual(w.t, text, m.ID)
		}
	}
	return gap
}

// Where a reader's missed records are gone, it learns the time span of the loss and continues from now: after more than
// an hour, after more than 10,000 messages, and from a position that the log does not have, forged or lost in the
// restoration of a backup.
func TestGaps(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		head := func() Place {
			here, err := n.locate(w.t.Context(), w.env, nil)
			require.NoError(w.t, err)
			return here.place
		}
		text := func(p Place) string { return p.text(digestOf(w.env)) }
		never := head()
		require.Nil(w.t, w.gapOf(n, text(never)))
		old := head()
		w.one()
		clk.Advance(events.LogAge + time.Millisecond)
		gap := w.gapOf(n, text(old))
		require.Equal(w.t, GapTooOld, gap.Reason)
		require.Equal(w.t, clock.Wire(old.at), gap.Since)
		require.LessOrEqual(w.t, gap.Until, clock.Wire(clk.Now()))
		require.Equal(w.t, GapTooOld, w.gapOf(n, text(never)).Reason, "what came first may be gone")

		begun := head()
		w.padded(events.LogMessages - 4) // with an event, an attempt and a change of its own
		require.Nil(w.t, w.gapOf(n, text(begun)))
		w.one()
		w.one()
		require.Equal(w.t, GapTooMany, w.gapOf(n, text(begun)).Reason)

		now := head()
		for _, forged := range []Place{
			{position: now.position + 100, index: 1, at: now.at}, {position: now.position, index: now.index + 1, at: now.at},
			{position: now.position, index: now.index, at: now.at.Add(time.Millisecond)}, {position: now.position,
				index: 1 << 40, at: now.at},
			{position: maxNumber, at: clock.FromMillis(maxNumber)},
		} {
			require.Equal(w.t, GapUnknown, w.gapOf(n, text(forged)).Reason, "%+v", forged)
		}
	})
}

// A place in the middle of a transaction's messages leads to the rest of them.
func TestPlaceInTheMiddle(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		s := w.open(n)
		list := w.received(w.event(w.env), w.event(w.env), w.event(w.env))
		s.until("the events", func() bool { return len(s.uuids(w.t)) == 3 })
		first := s.messages()[0]
		for range 2 { // with a feed that has the chunk, and with none
			c := newClient()
			c.lastID = first.ID
			again := w.connect(n, c, Request{View: access.Whole(w.env)})
			again.until("the rest", func() bool { return len(again.uuids(w.t)) == 2 })
			require.Equal(w.t, list[1:], again.uuids(w.t))
			s.leave()
			again.quit()
		}
	})
}

// A reader who comes back far behind catches up from the database, alongside readers who are up to date, and gets each
// message once.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		early := w.open(n)
		early.quit()
		var all []string
		add := func(transactions, found int) {
			for range transactions {
				list := make([]events.NewEvent, found)
				for i := range list {
					list[i] = w.event(w.env)
				}
				all = append(all, w.received(list...)...)
			}
		}
		add(30, 40)
		live := w.open(n)
		add(3, 1)
		back := w.connect(n, early.client, Request{View: access.Whole(w.env)})
		add(2, 1)
		back.until("everything", func() bool { return len(back.uuids(w.t)) >= len(all) })
		require.Equal(w.t, all, back.uuids(w.t))
		live.until("what came after it", func() bool { return len(live.uuids(w.t)) == 5 })

		alone := newClient()
		alone.lastID = live.messages()[0].ID
		live.quit()
		back.quit()
		s := w.connect(n, alone, Request{View: access.Whole(w.env)})
		s.until("the rest, with no other reader", func() bool { return len(s.uuids(w.t)) == 4 })
	})
}

// A reader that comes back after some minutes, to a node that feeds no one else in its environment, gets everything
// that it has missed, however old: nothing is dropped before it is read. Its absence does not count as delay of the
// stream.
func TestComesBackAfterMinutes(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		s := w.open(n)
		s.quit()
		var missed []string
		for range 5 {
			missed = append(missed, w.one())
			clk.Advance(time.Minute)
		}
		again := w.connect(n, s.client, Request{View: access.Whole(w.env)})
		again.until("what was missed", func() bool { return len(again.uuids(w.t)) == len(missed) })
		require.Equal(w.t, missed, again.uuids(w.t))
		require.Zero(w.t, n.delays(w.t))
		w.one()
		again.until("what is new", func() bool { return len(again.uuids(w.t)) == len(missed)+1 })
		require.Equal(w.t, uint64(1), n.delays(w.t))
	})
}

// A reader that does not take its messages is ended as lagged. It neither fills the memory nor delays the others. It
// comes back at its position.
func TestStallingReader(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		slow, quick := w.open(n), w.open(n)
		release := make(chan struct{})
		slow.mu.Lock()
		slow.stall = release
		slow.mu.Unlock()
		first := w.one()
		slow.until("the reader to stall", func() bool { return len(slow.stalled) == 1 })
		for range 11 {
			w.padded(1000)
			last := w.one()
			quick.until("everything", func() bool { return slices.Contains(quick.uuids(w.t), last) })
		}
		n.mu.Lock()
		for _, f := range n.feeds {
			require.LessOrEqual(w.t, f.messages, feedMessages)
		}
		require.LessOrEqual(w.t, n.bytes, nodeBytes)
		n.mu.Unlock()
		close(release)
		event, closing := slow.over()
		require.Equal(w.t, StreamLagged, event)
		require.Equal(w.t, ReasonLagged, closing.Reason)
		require.True(w.t, closing.Reconnect)
		require.Equal(w.t, []string{first}, slow.uuids(w.t))

		slow.mu.Lock()
		slow.stall = nil
		slow.mu.Unlock()
		again := w.connect(n, slow.client, Request{View: access.Whole(w.env)})
		again.until("the gap", func() bool {
			return slices.ContainsFunc(again.messages(), func(m sse.Message) bool { return m.Event == StreamGap })
		})
	})
}

// No feed skips a gap: where the log was cut before a feed had read it, its readers are ended as lagged.
func TestCutUnderTheFeed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		s := w.open(n)
		w.one()
		s.until("an event", func() bool { return len(s.uuids(w.t)) == 1 })
		// While the hub sleeps, more happens than the log keeps. Where it was not asleep yet, it has read all of it, and the
		// test runs again.
		var read []string
		for range 20 {
			read = append(read, w.one())
			w.padded(events.LogMessages + 100)
			require.NoError(w.t, events.NewLogStore(w.db).Trim(w.t.Context(), clk.Now()))
			read = append(read, w.one())
			s.until("the end of the stream, or all that happened", func() bool {
				return len(s.ended) == 1 || slices.Contains(s.uuids(w.t), read[len(read)-1])
			})
			if len(s.ended) == 1 {
				event, _ := s.over()
				require.Equal(w.t, StreamLagged, event)
				return
			}
			require.Subset(w.t, s.uuids(w.t), read, "left out, and not told so")
		}
		require.FailNow(w.t, "the hub never slept")
	})
}

// A stream ends after about half an hour, and when the server stops; the reader learns both, and both leave an id to
// come back with.
func TestEndings(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, clk *clock.Manual) {
		n := w.start()
		s := w.open(n)
		clk.Advance(time.Duration(float64(maxLife)*(1-lifeJitter)) - time.Minute)
		w.one()
		s.until("the event", func() bool { return len(s.uuids(w.t)) == 1 })
		clk.Advance(time.Duration(float64(maxLife)*2*lifeJitter) + 2*time.Minute)
		event, closing := s.over()
		require.Equal(w.t, StreamClosed, event)
		require.Equal(w.t, ReasonTimeLimit, closing.Reason)
		require.True(w.t, closing.Reconnect)

		s = w.connect(n, s.client, Request{View: access.Whole(w.env)})
		w.one()
		s.until("the second event", func() bool { return len(s.uuids(w.t)) == 2 })
		n.endStreams()
		event, closing = s.over()
		require.Equal(w.t, StreamClosed, event)
		require.Equal(w.t, ReasonStopping, closing.Reason)
		require.True(w.t, closing.Reconnect)
		err := newClient().read(w.t.Context(), n, Request{View: access.Whole(w.env)})
		require.True(w.t, apperr.Is(err, apperr.CodeUnavailable))

		missed := w.one()
		s = w.connect(w.start(), s.client, Request{View: access.Whole(w.env)})
		s.until("what was missed", func() bool { return len(s.uuids(w.t)) == 3 })
		require.Equal(w.t, missed, s.uuids(w.t)[2])
	})
}

// A node feeds so many readers and no more, and an environment has its share. A reader that leaves makes room.
func TestLimits(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start(func(o *Options) { o.MaxReaders, o.MaxPerEnvironment = 3, 2 })
		other := environment(w.t, w.db)
		first, second := w.open(n), w.open(n)
		err := newClient().read(w.t.Context(), n, Request{View: access.Whole(w.env)})
		require.True(w.t, apperr.Is(err, apperr.CodeTooManyStreams))
		elsewhere := w.connect(n, newClient(), Request{View: access.Whole(other)})
		elsewhere.until("a stream of another environment", elsewhere.begun)
		err = newClient().read(w.t.Context(), n, Request{View: access.Whole(other)})
		require.True(w.t, apperr.Is(err, apperr.CodeUnavailable))
		var known *apperr.Error
		require.ErrorAs(w.t, err, &known)
		require.Positive(w.t, known.RetryAfter)
		for _, s := range []*session{first, second, elsewhere} {
			s.quit()
		}
		first.until("the places to be given back", func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.readers == 0 && len(n.perEnv) == 0 && len(n.feeds) == 0 && len(n.credentials) == 0 && n.bytes == 0
		})
		w.open(n)
	})
}

// Filters that ask about deliveries are held against the deliveries as they are.
func TestFilterOverDeliveries(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		request := Request{View: access.Whole(w.env),
			Filter: events.Filter{DeliveryCriteria: events.DeliveryCriteria{SubscriptionIDs: []string{"sub"}}}}
		s := w.connect(n, newClient(), request)
		s.until("the stream to begin", s.begun)
		other := w.open(n)
		uuid := w.one()
		other.until("the event", func() bool { return len(other.uuids(w.t)) == 1 })
		try, list := w.attempted(w.env, uuid)
		require.NoError(w.t, w.run(list...))
		s.until("the try", func() bool { return len(s.messages()) > 0 })
		require.Equal(w.t, try, s.of(w.t, AttemptCompleted)[0].Try)
		require.Empty(w.t, s.uuids(w.t), "the event has no delivery to the subscription")
	})
}

// A store that does not respond ends no stream: it continues when the store is back.
func TestStoreComesBack(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		s := w.open(n)
		uuid := w.one()
		_, err := w.db.Write().ExecContext(w.t.Context(), "ALTER TABLE webhook_event_log RENAME TO hidden")
		require.NoError(w.t, err)
		s.until("some rounds", func() bool { return w.clock.Now().Sub(began()) > 20*tickInterval })
		_, err = w.db.Write().ExecContext(w.t.Context(), "ALTER TABLE hidden RENAME TO webhook_event_log")
		require.NoError(w.t, err)
		// The first may have been read just before the log was hidden, the second was not.
		both := []string{uuid, w.one()}
		s.until("both events", func() bool { return len(s.uuids(w.t)) == len(both) })
		require.Equal(w.t, both, s.uuids(w.t))
	})
}

// A write is bounded and consists of whole blocks.
func TestPieces(t *testing.T) {
	t.Parallel()
	each(t, func(w *world, _ *clock.Manual) {
		n := w.start()
		p := &pieces{client: newClient()}
		ctx, leave := context.WithCancel(w.t.Context())
		reader, err := n.Open(ctx, Request{View: access.Whole(w.env), Check: func(context.Context) error { return nil }})
		require.NoError(w.t, err)
		ended := make(chan struct{})
		go func() { defer close(ended); reader.Serve(ctx, p) }()
		s := &session{client: p.client, w: w}
		s.until("the stream to begin", s.begun)
		w.padded(2000)
		s.until("everything", func() bool { return len(s.of(w.t, AttemptCompleted)) == 2001 })
		leave()
		<-ended
		require.NoError(w.t, p.fault)
	})
}

type pieces struct {
	*client
	fault error
}

func (p *pieces) Write(b []byte) error {
	if len(b) > pieceBytes || !bytes.HasSuffix(b, []byte("\n\n")) || strings.Contains(string(b), "\n\n\n") {
		p.fault = errors.New("an odd piece")
	}
	return p.client.Write(b)
}
