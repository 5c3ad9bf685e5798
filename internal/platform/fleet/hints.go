package fleet

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/role"
)

const (
	// channel is the channel of PostgreSQL on which hints travel.
	channel = "sallyport_hints"
	// giveInterval is the shortest time between two notifications of a node. It follows real time: it only decides how
	// many hints travel together.
	giveInterval = 10 * time.Millisecond
	// maxKeys is how many keys of a topic wait for a notification. Beyond that the hint says that anything may be meant.
	maxKeys = 2000
	// listenRetry is when to listen again after the connection was lost.
	listenRetry = time.Second
	// lastTimeout bounds the last notification of a node that stops.
	lastTimeout = time.Second
)

// Hints show workers on other nodes, within milliseconds, that there is something to do. A hint can be lost, and
// nothing depends on one: workers poll. The nil Hints are those of a process without other nodes.
type Hints struct {
	cfg Config
	// elsewhere says that this node leaves the work to others.
	elsewhere bool
	wake      jobs.Wake

	mu    sync.Mutex
	given map[string]map[string]struct{}
	// heard are the functions of On, by topic.
	heard map[string]func(keys []string)
}

func newHints(c Config) *Hints {
	return &Hints{cfg: c, elsewhere: !c.Role.Does(role.Working), wake: jobs.NewWake(),
		given: map[string]map[string]struct{}{}, heard: map[string]func(keys []string){}}
}

// Elsewhere reports whether this node leaves the work to workers on other nodes.
func (h *Hints) Elsewhere() bool { return h != nil && h.elsewhere }

// Give sends a hint to the workers of other nodes, after the commit of what it is about. On a node that works itself it
// does nothing. Keys have no line breaks; none means that anything of the topic may have changed.
func (h *Hints) Give(topic string, keys ...string) {
	if !h.Elsewhere() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting := h.given[topic]
	if waiting == nil {
		waiting = map[string]struct{}{}
		h.given[topic] = waiting
	}
	for _, key := range keys {
		waiting[key] = struct{}{}
	}
	if len(keys) == 0 || len(waiting) > maxKeys {
		clear(waiting)
		waiting[""] = struct{}{}
	}
	h.wake.Signal()
}

// On makes a worker hear the hints of a topic. hear gets their keys; none if anything of the topic may have changed,
// such as after a time without hints. It must not block. Call On before the process starts.
func (h *Hints) On(topic string, hear func(keys []string)) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[topic] = hear
}

// services returns the services that carry the hints, on PostgreSQL.
func (h *Hints) services() []module.Service {
	hear := module.Background("hear-hints", h.listen)
	hear.Part = role.Working
	list := []module.Service{hear}
	if h.elsewhere {
		list = append(list, module.Background("give-hints", h.giveAll))
	}
	return list
}

// giveAll sends the hints that are given, until ctx ends.
func (h *Hints) giveAll(ctx context.Context) {
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
			defer cancel()
			h.give(last) // what the last requests have left
			return
		}
		h.give(ctx)
		t := clock.System().NewTimer(giveInterval)
		select {
		case <-t.C():
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// give sends the hints that were given since the last time.
func (h *Hints) give(ctx context.Context) {
	h.mu.Lock()
	given := h.given
	h.given = map[string]map[string]struct{}{}
	h.mu.Unlock()
	var texts []string
	for topic, keys := range given {
		texts = append(texts, pack(topic, slices.Sorted(maps.Keys(keys)))...)
	}
	if len(texts) == 0 {
		return
	}
	if err := db.Notify(ctx, h.cfg.DB, channel, texts); err != nil && ctx.Err() == nil {
		h.cfg.Logger.WarnContext(ctx, "cannot send hints to workers; they find the work by polling",
			slog.String("error", err.Error()), obs.Outage("hints"))
	}
}

// listen hears the hints of other nodes until ctx ends.
func (h *Hints) listen(ctx context.Context) {
	jobs.Loop(ctx, clock.System(), nil, func(ctx context.Context) time.Duration {
		err := db.Listen(ctx, h.cfg.DB, channel, func() {
			for topic := range h.topics() {
				h.hear(topic, nil) // what was hinted before
			}
		}, func(text string) { h.hear(unpack(text)) })
		if err != nil && ctx.Err() == nil {
			h.cfg.Logger.WarnContext(ctx, "cannot listen to other nodes; work is found by polling",
				slog.String("error", err.Error()), obs.Outage("hints"))
		}
		return listenRetry
	})
}

func (h *Hints) topics() map[string]func([]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.heard)
}

// hear passes a hint on. Topics of another release are ignored.
func (h *Hints) hear(topic string, keys []string) {
	if fn := h.topics()[topic]; fn != nil {
		fn(keys)
	}
}

// pack returns texts for db.Notify: lists of lines, of which the first is the topic. The empty key, which stands for
// anything, leaves the others out.
func pack(topic string, keys []string) (texts []string) {
	if len(keys) == 0 || keys[0] == "" {
		return []string{topic}
	}
	text := topic
	for _, key := range keys {
		if len(text)+1+len(key) > db.MaxNotice && text != topic {
			texts = append(texts, text)
			text = topic
		}
		text += "\n" + key
	}
	return append(texts, text)
}

// unpack returns the topic and the keys of a text.
func unpack(text string) (topic string, keys []string) {
	topic, rest, found := strings.Cut(text, "\n")
	if !found {
		return topic, nil
	}
	return topic, strings.Split(rest, "\n")
}
