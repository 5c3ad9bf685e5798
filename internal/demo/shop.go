package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
)

// shop stands for the API of a provider: it takes orders from those who have its token.
type shop struct {
	url    string
	token  string
	orders atomic.Int64
	server *http.Server
	ended  chan struct{}
}

// order is what the shop takes, and what it returns with a number.
type order struct {
	Item   string `json:"item"`
	Number int64  `json:"number"`
}

func newShop(ctx context.Context, token string) (*shop, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
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

// ServeHTTP implements http.Handler.
func (p *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+p.token:
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method != http.MethodPost || r.URL.Path != "/orders":
		w.WriteHeader(http.StatusNotFound)
	case json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&o) != nil || o.Item == "":
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		o.Number = p.orders.Add(1)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(o) // the gateway is gone when this fails
	}
}

func (p *shop) close() {
	_ = p.server.Close() // any remaining requests of the demo end here
	<-p.ended
}
