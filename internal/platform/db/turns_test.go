package db

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// load is a simulation of work that shares the writer: of each class two workers, which always have another transaction
// of the length given. It returns for how long each class had the writer.
func load(t *testing.T, length time.Duration, work map[Turn]time.Duration) map[Turn]time.Duration {
	t.Helper()
	had := map[Turn]time.Duration{}
	synctest.Test(t, func(t *testing.T) {
		var w writer
		begin := time.Now()
		for class, each := range work {
			for range 2 {
				go func() {
					for time.Since(begin) < length {
						if w.acquire(t.Context(), class, "") != nil {
							return
						}
						<-time.After(each)
						synctest.Wait()
						had[class] += each // only one has the writer
						w.release(each)
					}
				}()
			}
		}
		<-time.After(length + time.Second)
		synctest.Wait()
		synctest.Wait()
	})
	return had
}

// Requests have half of the writer's time as soon as they need it, no matter how long the transactions of the workers
// are, and the workers have the other half: neither stops the other.
func TestWriterIsSharedByTime(t *testing.T) {
	t.Parallel()
	for _, each := range []map[Turn]time.Duration{
		{TurnRequest: 2 * time.Millisecond, TurnDelivery: 20 * time.Millisecond},
		{TurnRequest: 20 * time.Millisecond, TurnDelivery: 2 * time.Millisecond},
	} {
		had := load(t, 10*time.Second, each)
		require.InDelta(t, 5, had[TurnRequest].Seconds(), 0.1)
		require.InDelta(t, 5, had[TurnDelivery].Seconds(), 0.1)
	}
	had := load(t, 9*time.Second, map[Turn]time.Duration{TurnRequest: 2 * time.Millisecond,
		TurnDelivery: 10 * time.Millisecond, TurnJob: 15 * time.Millisecond})
	require.InDelta(t, 4, had[TurnRequest].Seconds(), 0.1)
	require.InDelta(t, 4, had[TurnDelivery].Seconds(), 0.1)
	require.InDelta(t, 1, had[TurnJob].Seconds(), 0.1, "jobs are slow, but do not stop")
	require.InDelta(t, 9, load(t, 9*time.Second, map[Turn]time.Duration{TurnJob: time.Millisecond})[TurnJob].Seconds(),
		0.1, "work that is alone has the writer to itself")
}

// waiters are transactions that wait for the writer, and the order in which they got it.
type waiters struct {
	w      *writer
	mu     sync.Mutex
	got    []Turn
	owners []string
	errs   []error
}

// order returns the classes of those that got the writer so far.
func (x *waiters) order() []Turn {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.got)
}

// add makes a transaction of the class wait, which takes so long when it has the writer.
func (x *waiters) add(ctx context.Context, class Turn, took time.Duration) {
	x.addOf(ctx, class, "", took)
}

// addOf is add for a transaction of an owner.
func (x *waiters) addOf(ctx context.Context, class Turn, owner string, took time.Duration) {
	go func() {
		if err := x.w.acquire(ctx, class, owner); err != nil {
			x.mu.Lock()
			x.errs = append(x.errs, err)
			x.mu.Unlock()
			return
		}
		x.mu.Lock()
		x.got, x.owners = append(x.got, class), append(x.owners, owner)
		x.mu.Unlock()
		<-time.After(took)
		x.w.release(took)
	}()
	synctest.Wait() // they arrive one after the other
}

// A request that comes last writes next: it waits for the transaction in progress, and for no other.
func TestRequestWritesNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &waiters{w: &writer{}}
		for range 3 {
			x.add(t.Context(), TurnJob, 20*time.Millisecond)
			x.add(t.Context(), TurnDelivery, 10*time.Millisecond)
		}
		x.add(t.Context(), TurnRequest, time.Millisecond)
		<-time.After(time.Second)
		synctest.Wait()
		require.Equal(t, []Turn{TurnJob, TurnRequest, TurnDelivery}, x.order()[:3])
		require.Len(t, x.order(), 7)
	})
}

// A class that rested has no more than its share afterwards: it has not saved up the time of its rest.
func TestRestIsNotSavedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &waiters{w: &writer{}}
		for range 1000 {
			x.add(t.Context(), TurnDelivery, 10*time.Millisecond)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		for range 100 {
			x.add(t.Context(), TurnRequest, 10*time.Millisecond)
		}
		synctest.Wait()
		before := len(x.order())
		<-time.After(time.Second)
		synctest.Wait()
		requests := slices.DeleteFunc(x.order()[before:], func(c Turn) bool { return c != TurnRequest })
		require.InDelta(t, 50, len(requests), 2)
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.Len(t, x.order(), 1100)
	})
}

// A transaction whose context ends while it waits does not get the writer, and keeps no other from it.
func TestWaitForTheWriterEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &waiters{w: &writer{}}
		impatient, leave := context.WithCancel(t.Context())
		x.add(t.Context(), TurnDelivery, time.Second)
		x.add(impatient, TurnRequest, time.Second)
		x.add(t.Context(), TurnRequest, time.Second)
		leave()
		synctest.Wait()
		require.Equal(t, []error{context.Canceled}, x.errs)
		<-time.After(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []Turn{TurnDelivery, TurnRequest}, x.order())
		require.False(t, x.w.busy)
	})
}

// However many requests of one environment wait, those of another and the commits of events go next: each waits for the
// transaction in progress, and for hardly more.
func TestWriterIsSharedByOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &waiters{w: &writer{}}
		for range 100 {
			x.addOf(t.Context(), TurnRequest, "busy", 10*time.Millisecond)
		}
		<-time.After(105 * time.Millisecond)
		synctest.Wait()
		began := len(x.owners)
		for range 3 {
			x.addOf(t.Context(), TurnRequest, "other", time.Millisecond)
			x.add(t.Context(), TurnRequest, time.Millisecond)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{"other", "other", "other", "", "", ""}, x.owners[began:began+6])
		require.Len(t, x.owners, 106)
		require.Zero(t, x.w.classes[TurnRequest].waiting)
	})
}

// Owners have the same time, however long their transactions are, also one that never has two of them waiting. Work for
// all of them has more.
func TestOwnersHaveTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w writer
		had := map[string]time.Duration{}
		begin := time.Now()
		work := func(owner string, each time.Duration) {
			for time.Since(begin) < 7*time.Second {
				if w.acquire(t.Context(), TurnRequest, owner) != nil {
					return
				}
				<-time.After(each)
				synctest.Wait()
				had[owner] += each
				w.release(each)
			}
		}
		for range 20 {
			go work("many", 2*time.Millisecond)
		}
		go work("long", 20*time.Millisecond)
		go work("short", time.Millisecond)
		for range 2 {
			go work("", 2*time.Millisecond)
		}
		<-time.After(8 * time.Second)
		synctest.Wait()
		synctest.Wait()
		require.InDelta(t, 1, had["many"].Seconds(), 0.1)
		require.InDelta(t, 1, had["long"].Seconds(), 0.1)
		require.InDelta(t, 1, had["short"].Seconds(), 0.1)
		require.InDelta(t, 4, had[""].Seconds(), 0.2)
	})
}

// The writer remembers the owners that have used more than others, and no others: environments come and go.
func TestOwnersAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &waiters{w: &writer{}}
		x.addOf(t.Context(), TurnRequest, "busy", time.Hour)
		x.addOf(t.Context(), TurnRequest, "other", time.Millisecond)
		<-time.After(2 * time.Hour)
		synctest.Wait()
		for range 100 {
			x.addOf(t.Context(), TurnRequest, "0", time.Second)
			for i := range leastForgotten {
				x.addOf(t.Context(), TurnRequest, strconv.Itoa(i), 0)
			}
			require.NotNil(t, x.w.classes[TurnRequest].owners["busy"], "it has used more")
			<-time.After(time.Minute)
			synctest.Wait()
		}
		for i := range 10 * leastForgotten {
			require.NoError(t, x.w.acquire(t.Context(), TurnRequest, "rare"+strconv.Itoa(i)))
			x.w.release(time.Duration(i) * time.Second)
		}
		require.LessOrEqual(t, len(x.w.classes[TurnRequest].owners), 2*leastForgotten)
	})
}
