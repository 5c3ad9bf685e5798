package httpserver

import (
	"errors"
	"io"
	"net"
	"net/http"

	"sallyport/internal/platform/apperr"
)

// reasonChunks is the reason for a body of which net/http itself refuses the chunks or what follows them.
const reasonChunks = "the chunks of the body or its trailer are malformed"

// chunkedBody is the body of a request that came in chunks. Its Read returns an *apperr.Error with status 400 for a
// body that is malformed, so that a handler can distinguish it from one that ended early.
type chunkedBody struct {
	io.ReadCloser
	conn *conn
}

// Read reads from the body.
func (b *chunkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	reason := reasonChunks
	switch _, fromNet := errors.AsType[net.Error](err); {
	case b.conn.refused != "": // set by this read or one before it, since net/http reads nothing ahead of a body
		reason = b.conn.refused
	case fromNet, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, http.ErrBodyReadAfterClose):
		return n, err
	}
	malformed := apperr.HTTP(http.StatusBadRequest, rejectionMessage(http.StatusBadRequest)+": "+reason)
	malformed.Cause = err
	return n, malformed
}
