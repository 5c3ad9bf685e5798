package httpserver

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certificate is read again when its file has changed, so that a renewal needs no restart. A pair that cannot be read
// leaves the old one active.
type certificate struct {
	certFile, keyFile string

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.certFile)
	if err != nil {
		return c.keep(fmt.Errorf("read the certificate: %w", err))
	}
	if c.current != nil && info.ModTime().Equal(c.changed) {
		return c.current, nil
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return c.keep(fmt.Errorf("read the certificate: %w", err))
	}
	c.current, c.changed = &pair, info.ModTime()
	return c.current, nil
}

func (c *certificate) keep(err error) (*tls.Certificate, error) {
	if c.current != nil {
		return c.current, nil
	}
	return nil, err
}
