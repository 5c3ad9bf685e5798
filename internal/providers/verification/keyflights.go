package verification

// KeyOwner is the connection for which keys are fetched, and its environment.
type KeyOwner struct{ Environment, Connection string }

const (
	// maxKeyFlights limits the fetches in progress, and maxOwnFlights those for one connection. A fetch from a server that
	// hangs takes KeyTimeout.
	maxKeyFlights, maxOwnFlights = 64, 2
)

// keyFlights counts the fetches in progress. An environment may begin one while it has fewer than are free: alone it
// has half of them, and a newcomer always finds room.
type keyFlights struct {
	total         int
	byEnvironment map[string]int
	byOwner       map[KeyOwner]int
}

func newKeyFlights() keyFlights {
	return keyFlights{byEnvironment: map[string]int{}, byOwner: map[KeyOwner]int{}}
}

// begin counts a fetch, unless its connection or environment has its share.
func (f *keyFlights) begin(o KeyOwner) bool {
	if f.byOwner[o] >= maxOwnFlights || f.byEnvironment[o.Environment] >= maxKeyFlights-f.total {
		return false
	}
	f.total++
	f.byOwner[o]++
	f.byEnvironment[o.Environment]++
	return true
}

func (f *keyFlights) end(o KeyOwner) {
	f.total--
	if f.byOwner[o]--; f.byOwner[o] == 0 {
		delete(f.byOwner, o)
	}
	if f.byEnvironment[o.Environment]--; f.byEnvironment[o.Environment] == 0 {
		delete(f.byEnvironment, o.Environment)
	}
}
