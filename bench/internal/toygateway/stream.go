package toygateway

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// readers are the streams that are open.
type readers struct {
	mu   sync.Mutex
	open map[chan string]bool
	sent int64
}

// send sends an event to every reader, or leaves it out or sends it twice as the defects say.
func (s *readers) send(f Defects, uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	times := 1
	if f.ForgetEvery > 0 && s.sent%f.ForgetEvery == 0 {
		times = 0
	}
	if f.SendTwiceEvery > 0 && s.sent%f.SendTwiceEvery == 0 {
		times = 2
	}
	message := fmt.Sprintf("id: %d\nevent: webhook_event.received\ndata: {\"event_uuid\":%q,\"received_at\":%q}\n\n",
		s.sent, uuid, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	for reader := range s.open {
		for range times {
			reader <- message
		}
	}
}

func (g *Gateway) stream(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("API-Key") != APIKey {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	messages := make(chan string, queueLength)
	g.readers.mu.Lock()
	g.readers.open[messages] = true
	g.readers.mu.Unlock()
	defer func() {
		g.readers.mu.Lock()
		defer g.readers.mu.Unlock()
		delete(g.readers.open, messages)
	}()
	next := "retry: 3000\n\n"
	for {
		_, err := w.Write([]byte(next))
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return
		}
		select {
		case next = <-messages:
		case <-r.Context().Done():
			return
		}
	}
}
