package eventstream

import (
	"sync"
	"time"

	"sallyport/internal/platform/sse"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Kind is the type of a message.
type Kind string

// The types of messages about events.
const (
	// EventReceived reports a stored event, once.
	EventReceived Kind = "webhook_event.received"
	// AttemptCompleted reports a recorded attempt, once.
	AttemptCompleted Kind = "webhook_attempt.completed"
	// EventUpdated reports the state of an event after a change. Of changes in quick succession, only the last is
	// reported.
	EventUpdated Kind = "webhook_event.updated"
)

// Message is a message of a stream about an event.
type Message struct {
	Kind Kind
	// Event is the event in its state when the message was made.
	Event *events.Event
	// Attempt is the attempt of an AttemptCompleted, without headers and bodies; otherwise nil.
	Attempt *deliveries.Attempt
}

// message is a message with its place and, once a reader needs it, its wire format, which all readers share.
type message struct {
	Message
	place Place
	// deliveries are those of the event, where the feed's readers ask about them.
	deliveries []deliveries.Delivery
	// scopes says which subscriptions a bounded reader may see; nil in feeds without such readers.
	scopes *scopes

	// full is for readers who may see the event's last failure, and partial for the others.
	full, partial frame
}

// frame is a message in its wire format.
type frame struct {
	once  sync.Once
	bytes []byte
	err   error
}

// encode returns the message as it goes over the wire. hideFailure leaves the event's last failure out.
func (m *message) encode(d digest, data func(Message) ([]byte, error), hideFailure bool) ([]byte, error) {
	f, shown := &m.full, m.Message
	if hideFailure {
		e := *m.Event
		e.LastError = nil
		f, shown.Event = &m.partial, &e
	}
	f.once.Do(func() {
		var b []byte
		if b, f.err = data(shown); f.err != nil {
			return
		}
		f.bytes, f.err = sse.Message{ID: m.place.text(d), Event: string(m.Kind), Data: b}.Append(make([]byte, 0, len(b)+128))
	})
	return f.bytes, f.err
}

// deliverySize is about what one delivery of an event takes, in bytes.
const deliverySize = 512

// messageOverhead is the size of a message in addition to the texts of its event, in bytes.
const messageOverhead = 1280

// size estimates what the message takes in memory, its form on the wire included.
func (m *message) size() int {
	e := m.Event
	text := len(e.IdempotencyKey) + len(e.Type) + len(e.ConnectionID) + len(e.Provider) + len(e.ProviderConfigKey) +
		len(e.ContentType) + len(e.Verification)
	if e.LastError != nil {
		text += len(*e.LastError)
	}
	for _, t := range e.Types {
		text += len(t)
	}
	forms := 2 // the event and its form on the wire
	if m.scopes != nil {
		forms++
	}
	return messageOverhead + forms*text + len(m.deliveries)*deliverySize
}

// chunk holds the messages of one record of the log, or of a part of one.
type chunk struct {
	// record has the messages of the record up to the end of the chunk.
	record   events.LogPlace
	messages []*message
	size     int
	// added is when a feed got it.
	added time.Time
}
