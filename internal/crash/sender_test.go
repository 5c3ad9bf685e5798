package crash_test

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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// phase says in what state the test has put the world.
type phase int

const (
	healthy phase = iota
	down
	recovering
)

// exchange is the result of one inbound request.
type exchange struct {
	guid string
	// began and ended are the phases in which the request started and its response came.
	began, ended phase
	status       int // 0 when there was no response
	retryAfter   string
	event        string
	duplicate    bool
}

// sender is the provider: it posts signed GitHub deliveries, posts again what was not acknowledged, and now and then
// what was, too.
type sender struct {
	http    *http.Client
	segment string // of the webhook URL
	seed    uint64

	mu         sync.Mutex
	phase      phase
	made       int
	unanswered []string
	exchanges  []exchange
	// events is the acknowledged event of each delivery.
	events     map[string]string
	acked      []string // guids in the order of their first acknowledgement
	violations []string
}

func newSender(client *http.Client, seed uint64) *sender {
	return &sender{http: client, seed: seed, events: map[string]string{}}
}

const (
	// bodyPrefix is what the bytes of every delivery begin with.
	bodyPrefix = `{"action":"opened",`
	// senders is how many requests are in progress at the same time.
	senders = 8
	// patientSender is how many deliveries without a response the provider lets gather before it sends nothing new.
	patientSender = 200
	// refusedPause is how long the provider leaves the server alone after a refusal: far less than a real one would, but
	// enough to leave the machine to others.
	refusedPause = 5 * time.Millisecond
)

// start sends until the function that it returns is called, which waits for the last responses.
func (p *sender) start(t *testing.T, base string) (stop func()) {
	t.Helper()
	var stopped atomic.Bool
	var running sync.WaitGroup
	for i := range senders {
		random := rand.New(rand.NewPCG(p.seed, uint64(i)))
		running.Go(func() {
			for !stopped.Load() {
				if !p.sendOne(t.Context(), base, random) {
					<-time.After(refusedPause)
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		running.Wait()
	}
}

// sendOne reports whether what it sent was acknowledged.
func (p *sender) sendOne(ctx context.Context, base string, random *rand.Rand) bool {
	guid, twice := p.next(random)
	if twice {
		var other sync.WaitGroup
		other.Go(func() { p.post(ctx, base, guid) })
		defer other.Wait()
	}
	return p.post(ctx, base, guid)
}

// next chooses what to send: a delivery without a response, an acknowledged one, or a new one, which may be sent twice
// at the same time.
func (p *sender) next(random *rand.Rand) (guid string, twice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	chance := random.IntN(100)
	switch n := len(p.unanswered); {
	case n > 0 && (chance < 30 || n > patientSender):
		i := random.IntN(n)
		guid = p.unanswered[i]
		p.unanswered[i] = p.unanswered[n-1]
		p.unanswered = p.unanswered[:n-1]
		return guid, false
	case chance < 35 && len(p.acked) > 0:
		return p.acked[random.IntN(len(p.acked))], false
	default:
		p.made++
		return fmt.Sprintf("00000000-0000-4000-8000-%012x", p.made), chance >= 95
	}
}

// resend sends all deliveries without a response once, and reports whether all are acknowledged now.
func (p *sender) resend(ctx context.Context, base string) bool {
	p.mu.Lock()
	list := p.unanswered
	p.unanswered = nil
	p.mu.Unlock()
	for _, guid := range list {
		p.post(ctx, base, guid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.unanswered) == 0
}

// post sends a delivery, takes down what came of it, and reports whether it was acknowledged.
func (p *sender) post(ctx context.Context, base, guid string) bool {
	a := exchange{guid: guid, began: p.now()}
	a.status, a.retryAfter = p.request(ctx, base+"/api/v1/webhook/"+p.segment, guid, &a)
	p.mu.Lock()
	defer p.mu.Unlock()
	a.ended = p.phase
	p.exchanges = append(p.exchanges, a)
	if a.status != http.StatusOK {
		if p.events[guid] == "" {
			p.unanswered = append(p.unanswered, guid)
		}
		return false
	}
	switch known := p.events[guid]; {
	case known == "":
		p.events[guid] = a.event
		p.acked = append(p.acked, guid)
	case known != a.event:
		p.violations = append(p.violations, fmt.Sprintf("delivery %s was acknowledged as event %s and as event %s", guid,
			known, a.event))
	}
	return true
}

// request returns the response's status, or 0 when there was none, and reads an acknowledgement into a.
func (p *sender) request(ctx context.Context, url, guid string, a *exchange) (status int, retryAfter string) {
	body := []byte(bodyPrefix + `"issue":{"title":` + strconv.Quote(guid) + `}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, ""
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Github-Event", "issues")
	r.Header.Set("X-Github-Delivery", guid)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := p.http.Do(r)
	if err != nil {
		return 0, ""
	}
	text, err := io.ReadAll(resp.Body)
	if resp.Body.Close() != nil || err != nil {
		return 0, ""
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	var ack struct {
		EventUUID string `json:"event_uuid"`
		Duplicate bool   `json:"duplicate"`
	}
	if json.Unmarshal(text, &ack) != nil {
		return 0, ""
	}
	a.event, a.duplicate = ack.EventUUID, ack.Duplicate
	return resp.StatusCode, ""
}

func (p *sender) now() phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

// enter begins a phase.
func (p *sender) enter(next phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = next
}

// acknowledged returns how many deliveries have been acknowledged.
func (p *sender) acknowledged() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// exchangesIn returns the results of the requests that began and ended in the phase.
func (p *sender) exchangesIn(ph phase) []exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []exchange
	for _, a := range p.exchanges {
		if a.began == ph && a.ended == ph {
			list = append(list, a)
		}
	}
	return list
}

// refused reports whether many requests in a row have been refused since the store went away.
func (p *sender) refused() bool {
	const many = 30
	list := p.exchangesIn(down)
	if len(list) < many {
		return false
	}
	return !slices.ContainsFunc(list[len(list)-many:], func(a exchange) bool { return a.status == http.StatusOK })
}

// check requires that acknowledgements were consistent: one event for one delivery, and at most one of its responses
// without the mark of a duplicate.
func (p *sender) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.violations)
	first := map[string]bool{}
	for _, a := range p.exchanges {
		if a.status == http.StatusOK && !a.duplicate {
			require.False(t, first[a.guid], "delivery %s was acknowledged twice as new", a.guid)
			first[a.guid] = true
		}
	}
}

// acknowledgedEvents returns the events of all acknowledged deliveries.
func (p *sender) acknowledgedEvents() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := make(map[string]string, len(p.events))
	for guid, event := range p.events {
		events[guid] = event
	}
	return events
}
