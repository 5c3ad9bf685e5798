package eventstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
)

const (
	// recheckInterval is how often every credential behind a stream is checked: one that has ended closes its streams
	// within five seconds.
	recheckInterval = 3 * time.Second
	// recheckTimeout bounds one check.
	recheckTimeout = time.Second
	// rechecks is how many credentials are checked at a time.
	rechecks = 4
	// trust is how long a stream continues while its credential cannot be checked.
	trust = 30 * time.Second
)

// credential is the credential that opened one or more streams.
type credential struct {
	check    func(ctx context.Context) error
	readers  map[*Reader]struct{}
	verified time.Time
}

// watch checks the reader's credential from now on. The caller holds the lock.
func (s *Service) watch(r Request, reader *Reader) {
	c := s.credentials[r.Credential]
	if c == nil {
		c = &credential{readers: map[*Reader]struct{}{}}
		s.credentials[r.Credential] = c
	}
	c.check, c.verified = r.Check, s.clock.Now() // it has just opened a stream
	c.readers[reader] = struct{}{}
}

// unwatch undoes watch.
func (s *Service) unwatch(reader *Reader, name string) {
	c := s.credentials[name]
	delete(c.readers, reader)
	if len(c.readers) == 0 {
		delete(s.credentials, name)
	}
}

// recheck checks every credential once, however many streams it opened.
func (s *Service) recheck(ctx context.Context) time.Duration {
	s.mu.Lock()
	list := make([]*credential, 0, len(s.credentials))
	for _, c := range s.credentials {
		list = append(list, c)
	}
	s.mu.Unlock()
	work := make(chan *credential)
	var workers sync.WaitGroup
	for range min(rechecks, len(list)) {
		workers.Go(func() {
			for c := range work {
				s.checkAgain(ctx, c)
			}
		})
	}
	for _, c := range list {
		work <- c
	}
	close(work)
	workers.Wait()
	return recheckInterval
}

func (s *Service) checkAgain(ctx context.Context, c *credential) {
	s.mu.Lock()
	check := c.check
	s.mu.Unlock()
	own, cancel := context.WithTimeout(ctx, recheckTimeout)
	err := check(own)
	cancel()
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var end ending
	switch {
	case err == nil:
		c.verified = s.clock.Now()
		return
	case refused(err):
		end = endCredential()
	case s.clock.Now().Sub(c.verified) > trust:
		end = endUnverified()
	default:
		return
	}
	for r := range c.readers {
		r.end(end)
	}
}

// refused reports whether the error says that the credential no longer opens the stream. Other errors leave that open.
func refused(err error) bool {
	var e *apperr.Error
	return errors.As(err, &e) && e.HTTPStatus() < http.StatusInternalServerError
}
