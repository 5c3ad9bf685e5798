package phases

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/event"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func acked(sent, at int) event.Record {
	return event.Record{Sent: ms(sent), Acked: ms(at), WasAcked: true}
}

// The rate counts only events acknowledged inside the window. The times are those of requests that began inside it, so
// that the slow response at its end is not lost.
func TestAcknowledgedWindow(t *testing.T) {
	t.Parallel()
	records := slices.Values([]event.Record{
		acked(0, 9),    // warm-up
		acked(8, 12),   // began in the warm-up: in the rate, not in the times
		acked(10, 20),  // inside
		{Sent: ms(15)}, // refused
		acked(19, 40),  // began inside, finished after the end: in the times, not in the rate
		acked(41, 42),  // after the end
	})
	require.Equal(t, window{
		length: ms(10), events: 2, eventsToEnd: 4, ack: []time.Duration{ms(10), ms(21)},
	}, acknowledged(records, ms(10), ms(20), false))
	require.Equal(t, ms(32), acknowledged(records, ms(10), time.Hour, true).length,
		"a load cut short by its limit is divided by the time it took")
	require.Equal(t, ms(10), acknowledged(records, ms(10), ms(20), true).length,
		"the limit was met after the time: the time counts")
	require.Equal(t, window{}, acknowledged(slices.Values([]event.Record(nil)), 0, 0, true))
}

// An event that was acknowledged but not seen is missing. One that was seen but not acknowledged is no delivery. Each
// time is taken from the sending.
func TestFollow(t *testing.T) {
	t.Parallel()
	seen := func(r event.Record, at, duplicates int) event.Record {
		r.Seen, r.WasSeen, r.Duplicates = ms(at), true, duplicates
		return r
	}
	got := follow(slices.Values([]event.Record{
		seen(acked(1, 5), 4, 0), // at the sink before the acknowledgement
		acked(2, 90),            // missing
		seen(acked(3, 6), 50, 2),
		seen(event.Record{Sent: ms(4)}, 99, 1), // refused, yet forwarded
		{Sent: ms(5)},
	}))
	require.Equal(t, journey{
		acknowledged: 3, delivered: 2, unacknowledged: 1, duplicates: 3, lastAck: ms(90), lastSeen: ms(50),
		ack: []time.Duration{ms(4), ms(88), ms(3)}, toSink: []time.Duration{ms(3), ms(47)},
	}, got)
}
