package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

const (
	// freePiece is the size up to which a body's buffer is not charged: a connection costs the server more than that
	// before it sends anything.
	freePiece = 4 << 10
	// spoolOver is the size up to which a body is read into memory as it arrives. A larger one waits in a temporary file
	// until it is complete, so that slow senders of large bodies use disk and not memory.
	spoolOver = 256 << 10
	// slowOver is the size from which a body waits in a file if many bodies are arriving: senders that are slow on purpose
	// would otherwise use up the memory.
	slowOver = 32 << 10
	// spoolBudget limits the bytes in temporary files, over all bodies: 2 GiB.
	spoolBudget = 2 << 30
	// smallBodyTimeout is the time limit of the first spoolOver bytes of a body, which wait in memory, and
	// largeBodyTimeout that of the rest, which waits on disk.
	smallBodyTimeout, largeBodyTimeout = 10 * time.Second, time.Minute
)

// bodyReader reads bodies within a budget of memory and one of disk. Both are charged as bytes arrive, so a body that
// is only announced costs nothing.
type bodyReader struct {
	memory, disk *budget
	dir          string
	// failed is called when nothing can be written in dir.
	failed func()
}

// newBodyReader returns a reader whose large bodies wait in dir; an empty dir means the system's folder. No body is
// larger than largest.
func newBodyReader(memory, disk, largest int64, dir string) *bodyReader {
	return &bodyReader{memory: newBudget(memory, largest), disk: newBudget(disk, largest), dir: dir,
		failed: func() {}}
}

// read returns the whole body, of at most limit bytes, and its share of the memory budget, which the caller releases.
// The announced length must be checked against limit before.
func (b *bodyReader) read(r *Request, limit int64) (body []byte, memory *lease, err error) {
	announced := r.HTTP.ContentLength
	hurry := announced != 0 && r.Deadlines != nil
	if hurry {
		setDeadline(r, smallBodyTimeout)
	}
	if announced >= 0 && announced <= freePiece {
		body = make([]byte, announced)
		if _, err = io.ReadFull(r.HTTP.Body, body); err != nil {
			return nil, nil, brokenBody(err)
		}
	} else {
		memory = &lease{of: b.memory, holder: r.holder()}
		body, err = b.readCharged(r, announced, limit, memory)
		if err == nil && int64(len(body)) < announced {
			err = brokenBody(io.ErrUnexpectedEOF)
		}
		if err != nil {
			memory.release()
			return nil, nil, err
		}
	}
	if hurry {
		// The body is complete. A deadline that passed during the commit of the event would cancel the request.
		_ = r.Deadlines.SetReadDeadline(time.Time{})
	}
	return body, memory, nil
}

// setDeadline limits the time of the rest of a body. The connection knows real time only. A connection without
// deadlines has those of the server.
func setDeadline(r *Request, d time.Duration) {
	if r.Deadlines != nil {
		_ = r.Deadlines.SetReadDeadline(clock.System().Now().Add(d))
	}
}

// readCharged reads a body into a buffer that doubles as the body arrives, each growth charged before it is allocated.
func (b *bodyReader) readCharged(request *Request, announced, limit int64, memory *lease) ([]byte, error) {
	r := request.HTTP.Body
	most := min(limit, spoolOver)
	if announced >= 0 {
		most = min(most, announced)
	}
	buffer := make([]byte, min(freePiece, most))
	filled := 0
	for {
		n, ended, err := fill(r, buffer[filled:])
		filled += n
		switch {
		case err != nil:
			return nil, err
		case ended || int64(filled) == announced:
			return buffer[:filled], nil
		}
		if int64(filled) == most {
			break
		}
		size := min(2*int64(filled), most)
		if size > slowOver {
			if !memory.growEarly(size) {
				break
			}
		} else if err := memory.grow(size); err != nil {
			return nil, err
		}
		grown := make([]byte, size)
		copy(grown, buffer)
		buffer = grown
	}
	var next [1]byte
	n, _, err := fill(r, next[:])
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return buffer, nil
	case int64(filled) == limit:
		return nil, tooLarge()
	}
	setDeadline(request, largeBodyTimeout)
	return b.readSpooled(buffer, next[0], r, limit, memory)
}

// fill reads until the buffer is full or the body has ended, and reports which.
func fill(r io.Reader, buffer []byte) (n int, ended bool, err error) {
	for n < len(buffer) {
		k, err := r.Read(buffer[n:])
		n += k
		switch {
		case errors.Is(err, io.EOF):
			return n, true, nil
		case err != nil:
			return n, false, brokenBody(err)
		}
	}
	return n, false, nil
}

// brokenBody returns the error of a body that ended early, is malformed or did not arrive in time.
func brokenBody(err error) error {
	var malformed *apperr.Error
	if errors.As(err, &malformed) {
		return malformed // the listener knows more
	}
	e := apperr.HTTP(http.StatusBadRequest, "The request body ended early")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e = apperr.HTTP(http.StatusRequestTimeout, "The request body did not arrive in time")
	}
	e.Cause = err
	return e
}
