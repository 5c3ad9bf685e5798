package eventstream

import (
	"encoding/json"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/sse"
)

// Types of messages about the stream itself.
const (
	// StreamGap reports that earlier messages were missed.
	StreamGap = "stream.gap"
	// StreamLagged ends the stream of a reader that is too slow.
	StreamLagged = "stream.lagged"
	// StreamClosed ends the stream for another reason.
	StreamClosed = "stream.closed"
)

// Closing is the data of StreamLagged and StreamClosed.
type Closing struct {
	// Why the stream ends.
	Reason ClosingReason `json:"reason"`
	// A human-readable message.
	Message string `json:"message" example:"The stream has been open for half an hour; come back with Last-Event-ID"`
	// Whether the same credential can open another stream. If so, a client that reconnects with the last id misses
	// nothing.
	Reconnect bool `json:"reconnect"`
}

// ClosingReason is why a stream ends.
type ClosingReason string

// The reasons why a stream ends.
const (
	ReasonLagged     ClosingReason = "lagged"
	ReasonCredential ClosingReason = "credential_ended" //nolint:gosec // a reason, no credential
	ReasonUnverified ClosingReason = "credential_unverified"
	ReasonTimeLimit  ClosingReason = "time_limit"
	ReasonStopping   ClosingReason = "server_stopping"
	ReasonInternal   ClosingReason = "internal_error"
	// The last two are sent to no one: the reader is gone.
	reasonLeft     ClosingReason = "reader_left"
	reasonUnwanted ClosingReason = "write_failed"
)

// shownReasons returns every reason that a reader is shown.
func shownReasons() []ClosingReason {
	return []ClosingReason{ReasonLagged, ReasonCredential, ReasonUnverified, ReasonTimeLimit, ReasonStopping,
		ReasonInternal}
}

// reasons returns every reason.
func reasons() []ClosingReason { return append(shownReasons(), reasonLeft, reasonUnwanted) }

// Schema returns the schema with the reasons that a reader is shown, for the API.
func (ClosingReason) Schema(oas.Registry) *oas.Schema { return oas.Enum(shownReasons()) }

// ending is how a stream ends. Without an event nothing is sent.
type ending struct {
	event string
	Closing
}

func endLagged() ending {
	return ending{StreamLagged, Closing{ReasonLagged, "The reader did not keep up with the stream; come back with " +
		"Last-Event-ID, or filter", true}}
}

func endCredential() ending {
	return ending{StreamClosed, Closing{ReasonCredential, "The credential has ended or may no longer read the events",
		false}}
}

func endUnverified() ending {
	return ending{StreamClosed, Closing{ReasonUnverified, "The credential could not be checked; come back with " +
		"Last-Event-ID", true}}
}

func endTimeLimit() ending {
	return ending{StreamClosed, Closing{ReasonTimeLimit, "The stream has been open for half an hour; come back with " +
		"Last-Event-ID", true}}
}

func endStopping() ending {
	return ending{StreamClosed, Closing{ReasonStopping, "The server is stopping; come back with Last-Event-ID", true}}
}

func endInternal() ending {
	return ending{StreamClosed, Closing{ReasonInternal, "The stream cannot go on; come back with Last-Event-ID", true}}
}

func silent(reason ClosingReason) ending { return ending{Closing: Closing{Reason: reason}} }

// Gap is the data of StreamGap.
type Gap struct {
	// Why messages were missed:
	// - `too_old`: the first missed message is more than an hour old.
	// - `too_many`: more than 10,000 messages were missed.
	// - `unknown`: the log does not contain the client's position, for example after the client was away for an hour or a
	//   backup was restored.
	Reason GapReason `json:"reason"`
	// A human-readable message.
	Message string `json:"message" example:"More than 10,000 messages were missed; list the events received in between"`
	// No message from before this time was missed. To find the events received since, list them with `received_after`.
	Since string `json:"missed_since" format:"date-time"`
	// The stream resumes from this time.
	Until string `json:"missed_until" format:"date-time"`
}

// GapReason is why messages were missed.
type GapReason string

// The reasons of a gap.
const (
	GapTooOld  GapReason = "too_old"
	GapTooMany GapReason = "too_many"
	GapUnknown GapReason = "unknown"
)

// gapReasons returns every reason.
func gapReasons() []GapReason { return []GapReason{GapTooOld, GapTooMany, GapUnknown} }

// Schema returns the schema with the reasons, for the API.
func (GapReason) Schema(oas.Registry) *oas.Schema { return oas.Enum(gapReasons()) }

func (g GapReason) message() string {
	const what = "; list the events received in between"
	switch g {
	case GapTooOld:
		return "Some of the missed messages are more than an hour old" + what
	case GapTooMany:
		return "More than 10,000 messages were missed" + what
	case GapUnknown:
		return "The log no longer has the place where the reader stopped" + what
	default:
		return "Messages were missed" + what
	}
}

func newGap(reason GapReason, since, until time.Time) Gap {
	return Gap{Reason: reason, Message: reason.message(), Since: clock.Wire(since), Until: clock.Wire(until)}
}

// control returns a message about the stream as it goes over the wire.
func control(event, placeID string, data any) ([]byte, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return sse.Message{ID: placeID, Event: event, Data: b}.Append(nil)
}
