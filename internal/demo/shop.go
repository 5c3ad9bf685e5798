package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// shopToken is the token of the shop that Serve runs.
const shopToken = "secret-token"

// maxOrders is how many orders the shop takes.
const maxOrders = 1000

// shop stands for the API of a provider: it takes orders from those who have its token, and lists them.
type shop struct {
	url    string
	token  string
	server *http.Server
	ended  chan struct{}

	mu     sync.Mutex
	orders []order
}

// order is what the shop takes, and what it returns with a number.
type order struct {
	Number int    `json:"number"`
	Item   string `json:"item"`
}

func newShop(ctx context.Context, addr, token string) (*shop, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the shop of the demo: %w", err)
	}
	p := &shop{url: "http://" + l.Addr().String(), token: token, ended: make(chan struct{})}
	p.server = &http.Server{ReadTimeout: stopTimeout, WriteTimeout: stopTimeout, Handler: p}
	go func() {
		_ = p.server.Serve(l) // ends with close
		close(p.ended)
	}()
	return p, nil
}

// Serve runs only the shop at an address until ctx ends, for those who try actions by hand.
func Serve(ctx context.Context, addr string, out io.Writer) error {
	p, err := newShop(ctx, addr, shopToken)
	if err != nil {
		return err
	}
	defer p.close()
	if _, err := fmt.Fprintf(out, "The shop takes orders at %s/orders with the token %s.\n", p.url, p.token); err != nil {
		return fmt.Errorf("say where the shop is: %w", err)
	}
	<-ctx.Done()
	return nil
}

// ServeHTTP implements http.Handler.
func (p *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, response := p.respond(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(response) // the client is gone when this fails
}

func (p *shop) respond(r *http.Request) (status int, response any) {
	failure := func(status int, message string) (int, any) { return status, map[string]string{"message": message} }
	switch {
	case r.Header.Get("Authorization") != "Bearer "+p.token:
		return failure(http.StatusUnauthorized, "Bad token")
	case r.URL.Path != "/orders":
		return failure(http.StatusNotFound, "There are only orders here")
	case r.Method == http.MethodGet:
		return http.StatusOK, map[string]any{"orders": p.list()}
	case r.Method != http.MethodPost:
		return failure(http.StatusMethodNotAllowed, "Orders are listed and made")
	}
	var o order
	if json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&o) != nil || o.Item == "" {
		return failure(http.StatusUnprocessableEntity, "item is missing")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.orders) == maxOrders {
		return failure(http.StatusConflict, "The shop is sold out")
	}
	o.Number = len(p.orders) + 1
	p.orders = append(p.orders, o)
	return http.StatusCreated, o
}

func (p *shop) list() []order {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]order{}, p.orders...)
}

func (p *shop) close() {
	_ = p.server.Close() // any remaining requests of the demo end here
	<-p.ended
}
