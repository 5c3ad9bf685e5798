//go:build linux

package soak

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// kind is the kind of an event that the provider sends.
type kind string

const (
	issue kind = "issues"
	push  kind = "push"
	// fan is an event that hundreds of subscriptions match.
	fan kind = "fan"
)

// message is what the provider sends: one event, resent until it is acknowledged and now and then after that.
type message struct {
	// marker identifies it, in the body and as the provider's id.
	marker      string
	environment *environment
	kind        kind
	// odd is a field of the body that a filter asks for.
	odd bool
}

// exchange is one request of the provider.
type exchange struct {
	marker, node string
	at, ended    time.Time
	status       int // 0 without a response
	event        string
	duplicate    bool
}

// provider sends messages at a moderate rate to all nodes.
type provider struct {
	http   *http.Client
	secret string

	mu sync.Mutex
	// made are all messages; open those that are not acknowledged, and acked those that are.
	made        map[string]message
	open, acked []string
	events      map[string]string // by marker
	first       map[string]bool   // markers that were acknowledged as no duplicate
	exchanges   []exchange
	problems    []violation
}

func newProvider(client *http.Client) *provider {
	return &provider{http: client, secret: "the secret of the provider's side", made: map[string]message{},
		events: map[string]string{}, first: map[string]bool{}}
}

const (
	// senders is how many requests are in progress at the same time.
	senders = 4
	// mostOpen is how many messages may be open before nothing new is sent.
	mostOpen = 200
)

// start sends to the nodes until stop is called, which waits for the last responses.
func (p *provider) start(ctx context.Context, seed uint64, environments []*environment, nodes []*process,
	rate int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range senders {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		running.Go(func() {
			for tick := time.NewTicker(time.Second * senders / time.Duration(rate)); ; {
				select {
				case <-tick.C:
					p.sendOne(context.WithoutCancel(ctx), random, environments, nodes)
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// sendOne sends a new message, or one of before, some to two nodes at the same time.
func (p *provider) sendOne(ctx context.Context, random *rand.Rand, environments []*environment, nodes []*process) {
	m, twice := p.next(random, environments)
	to := func() string { return nodes[random.IntN(len(nodes))].cfg.Listen }
	if twice {
		second := to()
		var other sync.WaitGroup
		other.Go(func() { p.post(ctx, second, m) })
		defer other.Wait()
	}
	p.post(ctx, to(), m)
}

// burst sends so many messages as fast as it can.
func (p *provider) burst(ctx context.Context, random *rand.Rand, environments []*environment, nodes []*process,
	count int) {
	var running sync.WaitGroup
	for range senders {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		running.Go(func() {
			for range count / senders {
				p.sendOne(ctx, own, environments, nodes)
			}
		})
	}
	running.Wait()
}

func (p *provider) next(random *rand.Rand, environments []*environment) (m message, twice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	chance := random.IntN(100)
	switch n := len(p.open); {
	case n > 0 && (chance < 30 || n > mostOpen):
		i := random.IntN(n)
		marker := p.open[i]
		p.open[i] = p.open[n-1]
		p.open = p.open[:n-1]
		return p.made[marker], false
	case chance < 35 && len(p.acked) > 0:
		return p.made[p.acked[random.IntN(len(p.acked))]], false
	}
	m = message{marker: fmt.Sprintf("00000000-0000-4000-8000-%012x", len(p.made)), odd: random.IntN(2) == 1,
		environment: environments[random.IntN(len(environments))], kind: issue}
	if random.IntN(4) == 0 {
		m.kind = push
	}
	p.made[m.marker] = m
	return m, chance >= 95
}

// fanOut sends one event that hundreds of subscriptions match.
func (p *provider) fanOut(ctx context.Context, address string, e *environment) {
	p.mu.Lock()
	m := message{marker: fmt.Sprintf("fan-%d", len(p.made)), environment: e, kind: fan}
	p.made[m.marker] = m
	p.mu.Unlock()
	p.post(ctx, address, m)
}

// resend sends everything that is not acknowledged once, and reports whether all is acknowledged now.
func (p *provider) resend(ctx context.Context, address string) bool {
	p.mu.Lock()
	var list []message
	for _, marker := range p.open {
		list = append(list, p.made[marker])
	}
	p.open = nil
	p.mu.Unlock()
	for _, m := range list {
		p.post(ctx, address, m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) == 0
}

// post sends a message and writes down what came of it.
func (p *provider) post(ctx context.Context, address string, m message) {
	x := exchange{marker: m.marker, node: address, at: time.Now()}
	x.status, x.event, x.duplicate = p.request(ctx, address, m)
	x.ended = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges = append(p.exchanges, x)
	known := p.events[m.marker]
	problem := func(detail string) {
		p.problems = append(p.problems, violation{rule: ruleDuplicate, event: known, detail: detail})
	}
	switch {
	case x.event == "" && known == "":
		p.open = append(p.open, m.marker)
	case x.event == "":
	case known == "":
		p.events[m.marker] = x.event
		p.acked = append(p.acked, m.marker)
	case known != x.event:
		problem(fmt.Sprintf("message %s was acknowledged as event %s and as event %s", m.marker, known, x.event))
	}
	if x.event != "" && !x.duplicate {
		if p.first[m.marker] {
			problem(fmt.Sprintf("message %s was acknowledged as new twice", m.marker))
		}
		p.first[m.marker] = true
	}
}

// request returns the status, or 0 without a response, and an acknowledgement's content.
func (p *provider) request(ctx context.Context, address string, m message) (status int, event string,
	duplicate bool) {
	content := map[string]any{"marker": m.marker, "odd": m.odd}
	url, header := "http://"+address+"/api/v1/webhook/"+m.environment.webhook, http.Header{}
	switch m.kind {
	case fan:
		url = "http://" + address + "/api/v1/webhook-events"
		content = map[string]any{"event_type": "fan.out", "data": content, "idempotency_key": m.marker}
		header.Set("Api-Key", m.environment.key)
	case issue:
		content["action"] = "opened"
	case push:
	}
	body, err := json.Marshal(content)
	if err != nil {
		return 0, "", false
	}
	mac := hmac.New(sha256.New, []byte(p.secret))
	mac.Write(body)
	header.Set("Content-Type", "application/json")
	if m.kind != fan {
		header.Set("X-Github-Event", string(m.kind))
		header.Set("X-Github-Delivery", m.marker)
		header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, "", false
	}
	req.Header = header
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, "", false
	}
	text, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err != nil || closeErr != nil {
		return 0, "", false
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, "", false
	}
	var ack struct {
		EventUUID string `json:"event_uuid"`
		Duplicate bool   `json:"duplicate"`
	}
	if json.Unmarshal(text, &ack) != nil {
		return resp.StatusCode, "", false
	}
	return resp.StatusCode, ack.EventUUID, ack.Duplicate
}
