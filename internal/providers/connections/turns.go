package connections

import (
	"context"
	"fmt"
	"sync"
)

// turns let the changes of one connection in this process wait for each other. The zero value is ready to use.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

type turn struct {
	free    chan struct{}
	waiting int
}

// lock waits for the turn of a name, and returns what ends it.
func (t *turns) lock(ctx context.Context, name string) (unlock func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turn{}
	}
	own := t.held[name]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		t.held[name] = own
	}
	own.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.waiting--; own.waiting == 0 {
			delete(t.held, name)
		}
	}
	select {
	case <-own.free:
		return func() {
			own.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, fmt.Errorf("wait for another change of the connection: %w", ctx.Err())
	}
}
