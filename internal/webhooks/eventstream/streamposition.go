package eventstream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// Place is a reader's position in the environment's log: all records before one, and the first messages of that one,
// are behind the reader. Its text is the id of a message.
type Place struct {
	// position is that of a record of the environment; 0 where the environment had none yet.
	position int64
	// index is how many messages of the record are behind the reader.
	index int
	// at is the record's time, by which a record is known from another that got its position, as after the restoration of
	// a backup. At position 0 it is when the place was made.
	at time.Time
}

// after is the place behind a whole record.
func after(p events.LogPlace) Place {
	return Place{position: p.Position, index: p.Messages, at: p.At}
}

// beyond reports whether the place is farther than another.
func (p Place) beyond(other Place) bool {
	return p.position > other.position || p.position == other.position && p.index > other.index
}

const (
	placeVersion = 1
	digestLength = 8
	// maxPlace bounds what is decoded: version, digest and three numbers.
	maxPlace = 1 + digestLength + 3*binary.MaxVarintLen64
)

// maxIDLength is the length of the longest id in characters.
const maxIDLength = (maxPlace*8 + 5) / 6

// digest is the part of a place's text that depends on its environment, so that the place of another is recognised.
type digest [digestLength]byte

func digestOf(env id.Environment) digest {
	sum := sha256.Sum256([]byte("webhook-events/stream " + string(env)))
	return digest(sum[:digestLength])
}

// text returns the place as an id.
func (p Place) text(d digest) string {
	b := make([]byte, 0, maxPlace)
	b = append(b, placeVersion)
	b = append(b, d[:]...)
	b = binary.AppendUvarint(b, uint64(p.position))         //nolint:gosec // positions count from 1
	b = binary.AppendUvarint(b, uint64(p.index))            //nolint:gosec // a count
	b = binary.AppendUvarint(b, uint64(clock.Millis(p.at))) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(b)
}

// errPlace says that a text is no id that a stream of the environment has sent.
var errPlace = errors.New("the id is not from a stream of this environment")

// ParsePlace parses the id of a message of the environment's streams. Forged ids are not recognised, but lead only into
// the environment's own log.
func ParsePlace(env id.Environment, text string) (Place, error) {
	if len(text) > maxIDLength {
		return Place{}, errPlace
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+digestLength || b[0] != placeVersion || digest(b[1:1+digestLength]) != digestOf(env) {
		return Place{}, errPlace
	}
	b = b[1+digestLength:]
	var numbers [3]int64
	for i := range numbers {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > maxNumber {
			return Place{}, errPlace
		}
		numbers[i], b = int64(v), b[n:]
	}
	if len(b) > 0 {
		return Place{}, errPlace
	}
	return Place{position: numbers[0], index: int(numbers[1]), at: clock.FromMillis(numbers[2])}, nil
}

// maxNumber bounds the numbers of a place far above what they reach, and below where their sums would overflow.
const maxNumber = 1 << 53
