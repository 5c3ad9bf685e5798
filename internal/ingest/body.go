package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"sallyport/internal/platform/apperr"
)

// spoolOver is the size up to which a body is read into memory as it comes. A larger one waits in a temporary file until
// it is complete, so that slow senders of large bodies hold disk and not memory.
const spoolOver = 256 << 10

// errOverloaded is the answer when the bodies in memory have used up their budget.
var errOverloaded error = &apperr.Error{ //nolint:gochecknoglobals,errname // one value, so that the metric can tell it apart
	Code: apperr.CodeUnavailable, Message: "Too many large deliveries at once; try again", RetryAfter: time.Second,
}

// bodyReader reads bodies within one budget of memory.
type bodyReader struct {
	budget *semaphore.Weighted
	max    int64
	dir    string
}

func newBodyReader(budget int64, dir string) *bodyReader {
	return &bodyReader{budget: semaphore.NewWeighted(budget), max: budget, dir: dir}
}

// read returns the whole body, of at most limit bytes, and a function that gives its memory back.
func (b *bodyReader) read(r *http.Request, limit int64) (body []byte, free func(), err error) {
	if n := r.ContentLength; n >= 0 && n <= spoolOver {
		return b.readKnown(r.Body, n)
	}
	return b.readStream(r.Body, limit)
}

func (b *bodyReader) acquire(n int64) (free func(), err error) {
	if n > b.max || !b.budget.TryAcquire(n) {
		return nil, errOverloaded
	}
	return func() { b.budget.Release(n) }, nil
}

func (b *bodyReader) readKnown(r io.Reader, n int64) ([]byte, func(), error) {
	free, err := b.acquire(n)
	if err != nil {
		return nil, nil, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		free()
		return nil, nil, broken(err)
	}
	return body, free, nil
}

func (b *bodyReader) readStream(r io.Reader, limit int64) ([]byte, func(), error) {
	free, err := b.acquire(spoolOver)
	if err != nil {
		return nil, nil, err
	}
	var head bytes.Buffer
	n, err := io.Copy(&head, io.LimitReader(r, spoolOver+1))
	if err != nil {
		free()
		return nil, nil, broken(err)
	}
	if n > limit {
		free()
		return nil, nil, tooLarge()
	}
	if n <= spoolOver {
		return head.Bytes(), free, nil
	}
	file, total, err := b.spool(&head, r, limit)
	free()
	if err != nil {
		return nil, nil, err
	}
	defer discardFile(file)
	free, err = b.acquire(total)
	if err != nil {
		return nil, nil, err
	}
	body := make([]byte, total)
	if _, err := io.ReadFull(file, body); err != nil {
		free()
		return nil, nil, fmt.Errorf("read the spooled body: %w", err)
	}
	return body, free, nil
}

// spool writes the body to a temporary file and returns the file at its start, and the body's size.
func (b *bodyReader) spool(head io.Reader, rest io.Reader, limit int64) (*os.File, int64, error) {
	file, err := os.CreateTemp(b.dir, "sallyport-body-*")
	if err != nil {
		return nil, 0, apperr.Unavailable(fmt.Errorf("make a spool file: %w", err))
	}
	body := &readErrors{r: io.MultiReader(head, rest)}
	total, err := io.Copy(file, io.LimitReader(body, limit+1))
	switch {
	case body.err != nil:
		err = broken(body.err)
	case err != nil:
		err = apperr.Unavailable(fmt.Errorf("write a spool file: %w", err))
	case total > limit:
		err = tooLarge()
	default:
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		discardFile(file)
		return nil, 0, err
	}
	return file, total, nil
}

// discardFile closes and removes a spool file. What cannot be removed is the system's to clean up; the delivery does not
// depend on it.
func discardFile(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// readErrors remembers the error of the sender's side, to tell it from the file's.
type readErrors struct {
	r   io.Reader
	err error
}

func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// broken is the answer to a body that ended early or did not come in time.
func broken(err error) error {
	e := apperr.HTTP(http.StatusBadRequest, "The request body ended early")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e = apperr.HTTP(http.StatusRequestTimeout, "The request body did not arrive in time")
	}
	e.Cause = err
	return e
}
