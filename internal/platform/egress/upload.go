package egress

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errUploadOver ends a Read on a part of an upload whose exchange is over or has moved to another connection.
var errUploadOver = errors.New("upload is over")

// errUploadLength says that a request body is not as long as announced.
var errUploadLength = errors.New("request body differs from its announced length")

// upload is the streamed body of a request. Connections read it through parts, one at a time.
type upload struct {
	getBody func() (io.ReadCloser, error)
	// length is the announced length, or -1.
	length int64

	mu       sync.Mutex
	body     io.ReadCloser
	begun    bool // body has been read from
	released bool // body has been closed
	count    int64
	failure  error // with which the caller's body ended
	current  *uploadPart
	closed   bool
}

// newUpload returns the body of the request as an upload, or nil if it has none.
func newUpload(q *http.Request) *upload {
	if q.Body == nil || q.Body == http.NoBody {
		return nil
	}
	u := &upload{body: q.Body, getBody: q.GetBody, length: -1}
	if q.ContentLength > 0 && len(q.TransferEncoding) == 0 {
		u.length = q.ContentLength
	}
	return u
}

// part returns the body for a connection. The connection before it can no longer read.
func (u *upload) part() io.ReadCloser {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current = &uploadPart{u}
	return u.current
}

// rewind prepares the body for another connection. It reports whether the body can still be sent from its beginning.
func (u *upload) rewind() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current = nil
	if u.closed || u.failure != nil || u.begun && u.getBody == nil {
		return false
	}
	if u.begun {
		body, err := u.getBody()
		if err != nil {
			return false
		}
		if old := u.release(); old != nil {
			go func() { _ = old.Close() }() // a Read by the old connection may delay it
		}
		u.body, u.begun, u.released, u.count = body, false, false, 0
	}
	return true
}

// close ends the upload and closes the caller's body, which should wake a blocked Read.
func (u *upload) close() {
	if u == nil {
		return
	}
	u.mu.Lock()
	u.closed = true
	body := u.release()
	u.mu.Unlock()
	if body != nil {
		_ = body.Close() // what had to be read has been read
	}
}

// release returns the body for the one caller that closes it, and nil to all others. The caller holds mu.
func (u *upload) release() io.Closer {
	if u.released {
		return nil
	}
	u.released = true
	return u.body
}

// failed returns the error with which the caller's body ended, if any.
func (u *upload) failed() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failure
}

// uploadPart is an upload as one connection sees it.
type uploadPart struct{ u *upload }

// Read reads from the caller's body and checks its length.
func (p *uploadPart) Read(b []byte) (int, error) {
	u := p.u
	u.mu.Lock()
	if u.current != p || u.closed {
		u.mu.Unlock()
		return 0, errUploadOver
	}
	u.begun = true
	body := u.body
	u.mu.Unlock()

	n, err := body.Read(b)

	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current != p || u.closed {
		return 0, errUploadOver
	}
	u.count += int64(n)
	end := errors.Is(err, io.EOF)
	switch {
	case u.length >= 0 && (u.count > u.length || end && u.count < u.length):
		err, u.failure = errUploadLength, errUploadLength
	case err != nil && !end:
		u.failure = err
	}
	return n, err
}

// Close closes the caller's body. It leaves one that has not been read from to another connection or to the end of the
// exchange.
func (p *uploadPart) Close() error {
	u := p.u
	var body io.Closer
	u.mu.Lock()
	if u.current == p && u.begun {
		body = u.release()
	}
	u.mu.Unlock()
	if body == nil {
		return nil
	}
	return body.Close()
}
