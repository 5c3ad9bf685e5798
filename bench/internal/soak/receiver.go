//go:build linux

package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// deliveryKey names a delivery.
type deliveryKey struct{ event, subscription string }

// generationKey names a delivery's first life, or the one that a replay began.
type generationKey struct {
	deliveryKey
	replay bool
}

// arrival is a request that reached a receiver.
type arrival struct {
	generationKey
	environment string
	receiver    string
	// number is the attempt's number in its generation.
	number int64
	// at is when its first byte arrived; whole says that its last did too.
	at    time.Time
	whole bool
	// status is that of the response's status line, if that went out; 0 otherwise.
	status int
	// marker is what the provider wrote into the body to find the event by; empty in the gateway's own events.
	marker string
}

// maxClockError is how far the time of an attempt may be from the receiver's. It is more than the steps of a clock that
// no database corrects.
const maxClockError = time.Minute

// receiver is one target of subscriptions. It responds as its behaviour says and writes down every arrival.
type receiver struct {
	name, environment string
	url               string
	listener          net.Listener
	serving           sync.WaitGroup
	// trap is a URL that no one may ever request: the target of redirects.
	trap string

	mu        sync.Mutex
	behaviour behaviour
	hooks     map[string]*standardwebhooks.Webhook
	conns     map[net.Conn]bool
	arrivals  []arrival
	problems  []violation
	closed    bool
}

// newReceiver listens on an address of its own, so that no other receiver shares its limits per host.
func newReceiver(ctx context.Context, environment, name string, host int) (*receiver, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf("127.0.1.%d:0", host))
	if err != nil {
		return nil, err
	}
	r := &receiver{name: name, environment: environment, listener: listener, url: "http://" + listener.Addr().String() +
		"/" + name, hooks: map[string]*standardwebhooks.Webhook{}, conns: map[net.Conn]bool{}, behaviour: accept}
	r.serving.Go(r.serve)
	return r, nil
}

// close ends all connections and waits for their goroutines.
func (r *receiver) close() {
	_ = r.listener.Close() // ends serve
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		_ = c.Close() // it may have ended
	}
	r.mu.Unlock()
	r.serving.Wait()
}

// expect verifies the requests of a subscription by its secret.
func (r *receiver) expect(subscription, secret string) error {
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("signing secret: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[subscription] = hook
	return nil
}

// behave changes the behaviour from the next request on. Requests that hang end.
func (r *receiver) behave(b behaviour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b == r.behaviour {
		return
	}
	r.behaviour = b
	for c := range r.conns {
		reset(c)
	}
}

func (r *receiver) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns[conn] = true
		closed := r.closed
		r.mu.Unlock()
		if closed {
			reset(conn)
		}
		r.serving.Go(func() { r.converse(conn) })
	}
}

func (r *receiver) converse(conn net.Conn) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, conn)
		_ = conn.Close() // it may have been reset
	}()
	for input := bufio.NewReader(conn); ; {
		if _, err := input.Peek(1); err != nil {
			return
		}
		at := time.Now()
		request, err := http.ReadRequest(input)
		if err != nil {
			return // the sender was killed
		}
		body, err := io.ReadAll(request.Body)
		index, b := r.arrived(at, request, body, err == nil)
		if err != nil || !b.respond(conn, r.trap, func(status int) { r.responded(index, status) }) {
			return
		}
	}
}

// arrived writes an arrival down and returns its index and the behaviour that it meets.
func (r *receiver) arrived(at time.Time, request *http.Request, body []byte, whole bool) (int, behaviour) {
	h := request.Header
	number, numberErr := strconv.ParseInt(h.Get("Sallyport-Attempt"), 10, 64)
	a := arrival{environment: r.environment, receiver: r.name, number: number, at: at, whole: whole,
		generationKey: generationKey{deliveryKey{h.Get("Webhook-Id"), h.Get("Sallyport-Subscription-Id")},
			h.Get("Sallyport-Replay") == "true"}}
	r.mu.Lock()
	defer r.mu.Unlock()
	problem := func(rule string, format string, args ...any) {
		r.problems = append(r.problems, violation{rule: rule, event: a.event,
			detail: fmt.Sprintf("receiver %s/%s: ", r.environment, r.name) + fmt.Sprintf(format, args...)})
	}
	if whole {
		hook := r.hooks[a.subscription]
		switch {
		case numberErr != nil:
			problem(ruleRequest, "no attempt number: %v", h)
		case hook == nil:
			problem(ruleIsolation, "a request of subscription %s, which does not send here", a.subscription)
		default:
			if err := hook.VerifyIgnoringTimestamp(body, h); err != nil {
				problem(ruleSignature, "%v", err)
			}
		}
		if s, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64); err != nil ||
			at.Sub(time.Unix(s, 0)).Abs() > maxClockError {
			problem(ruleSignature, "webhook-timestamp %s at %s", h.Get("Webhook-Timestamp"), at)
		}
		a.marker = markerOf(body)
	}
	r.arrivals = append(r.arrivals, a)
	return len(r.arrivals) - 1, r.behaviour
}

// markerOf finds the provider's marker in a raw body or in an envelope.
func markerOf(body []byte) string {
	var content struct {
		Marker string `json:"marker"`
		Data   struct {
			Marker string `json:"marker"`
		} `json:"data"`
	}
	_ = json.Unmarshal(body, &content) // the gateway's own events have another form
	return content.Marker + content.Data.Marker
}

// responded notes that a status line is about to go out, so that no one can know of it earlier.
func (r *receiver) responded(index, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals[index].status = status
}

// taken returns copies of all arrivals and of the problems so far.
func (r *receiver) taken() ([]arrival, []violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals...), append([]violation(nil), r.problems...)
}
