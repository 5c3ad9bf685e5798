// Package ingest serves the inbound endpoint: it verifies requests, stores them with their deliveries in one group
// commit, and passes the deliveries to the workers. See README.md.
package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// Connections finds the connection that a path names.
type Connections interface {
	// Knows reports whether the path segment has named a connection before, and whether it has the form of an alias. It
	// reads only memory.
	Knows(segment string) (known, byAlias bool)
	Lookup(ctx context.Context, segment string) (*connections.Inbound, error)
	// Matched records that a webhook verified under a secret.
	Matched(secretID string, at time.Time)
	// OfID returns the environment's connections of that id, one for each provider configuration.
	OfID(ctx context.Context, env id.Environment, connectionID string) ([]connections.Connection, error)
	// InboundOf returns a connection that the view shows, or not_found.
	InboundOf(ctx context.Context, v access.View, providerConfigKey, connectionID string) (*connections.Inbound, error)
	// Capture stores a secret that a handshake hands over. Errors: connections.ErrNotEnrolled,
	// connections.ErrCaptureByAlias, connections.ErrUnfitSecret.
	Capture(ctx context.Context, in *connections.Inbound, c *verification.Captured) error
}

// Subscriptions finds the subscriptions of an event.
type Subscriptions interface {
	Match(ctx context.Context, env id.Environment, o subscriptions.Origin,
		types []string) ([]subscriptions.Matched, subscriptions.Generation, error)
	// TypeRules returns the rules for the types of events of that origin.
	TypeRules(ctx context.Context, env id.Environment, o subscriptions.Origin) (eventtypes.Rules, error)
	// WarnUnknownType returns a warning about a type of an event that the provider of that slug is not known to send.
	WarnUnknownType(provider, eventType string) []subscriptions.Warning
	// Current reports whether the subscriptions of the environment are as they were for that Match. It does not wait.
	Current(env id.Environment, g subscriptions.Generation) bool
}

// Config holds what a Service is made from.
type Config struct {
	DB            *db.DB
	Connections   Connections
	Subscriptions Subscriptions
	Deliveries    *deliveries.Service
	Rejections    Rejections
	Limiter       Limiter
	Clock         clock.Clock
	Logger        *slog.Logger
	Evaluations   *filters.Evaluations
	Batches       *obs.Batches
	Options       Options
}

// Options are the limits of the inbound endpoint.
type Options struct {
	// MaxBodyBytes limits every body, in addition to the limit of its connection.
	MaxBodyBytes int64
	// MemoryBudget limits the memory of all bodies over 4 KiB together, in bytes.
	MemoryBudget int64
	// DedupeWindow is how long bodies are compared where the connection sets nothing; 0 compares none.
	DedupeWindow time.Duration
	// PublicURL is the scheme and host under which providers reach the service. Some providers sign it.
	PublicURL string
	// SharedAddress is set if all senders appear under the address of a proxy.
	SharedAddress bool
	// SpoolDir is where large bodies wait while they arrive; empty means the system's folder.
	SpoolDir string
	// SpoolFailed is called when a body cannot be written in SpoolDir, if it is set.
	SpoolFailed func()
}

// Service receives webhooks and stores them.
type Service struct {
	db         *db.DB
	conns      Connections
	subs       Subscriptions
	keys       *events.Keys
	deliveries *deliveries.Service
	rejections Rejections
	clock      clock.Clock
	log        *slog.Logger
	// requests counts inbound requests by outcome.
	requests    *prometheus.CounterVec
	evaluations *filters.Evaluations
	batching    *obs.Batches
	limiter     Limiter
	opts        Options

	bodies   *bodyReader
	refusals *refusals
	screens  *screens
	failing  *filterFailures
	batches  *jobs.TurnBatcher[*item]
	stop     chan struct{}
	ended    chan struct{}
}

// New returns a Service that commits nothing before its module starts.
func New(c Config) *Service {
	s := &Service{db: c.DB, conns: c.Connections, subs: c.Subscriptions, keys: events.NewKeys(c.DB),
		deliveries: c.Deliveries, rejections: c.Rejections, limiter: c.Limiter, clock: c.Clock, log: c.Logger,
		requests: newRequests(), evaluations: c.Evaluations, batching: c.Batches, opts: c.Options,
		bodies: newBodyReader(c.Options.MemoryBudget, spoolBudget, min(c.Options.MaxBodyBytes, connections.MaxBodyBytes),
			c.Options.SpoolDir),
		refusals: newRefusals(), screens: newScreens(c.Clock), failing: newFilterFailures(),
		stop: make(chan struct{}), ended: make(chan struct{})}
	if c.Options.SpoolFailed != nil {
		s.bodies.failed = c.Options.SpoolFailed
	}
	s.batches = jobs.NewTurnBatcher(jobs.TurnLimits{Items: maxBatch, Cost: maxCost, Turn: turnCost},
		func(it *item) (string, int) { return string(it.event.Environment), it.cost() }, s.commitBatch)
	s.batches.Linger(severalEvents, lingerTime)
	return s
}

// startCommits deletes files that a crash has left in the spool, and starts the group commit.
func (s *Service) startCommits() error {
	if err := s.bodies.clearSpool(); err != nil {
		return err
	}
	go func() {
		defer close(s.ended)
		s.batches.Run(s.stop)
	}()
	return nil
}

// stopCommits commits the accepted events and returns. The HTTP server must accept no more requests.
func (s *Service) stopCommits() {
	close(s.stop)
	<-s.ended
}

// Request is one inbound request.
type Request struct {
	// Segment is the part of the path that names the connection: its path token or alias.
	Segment string
	// Source is the sender as clientaddr.Host returns it. Each source has a share of the budgets of bodies.
	Source netip.Addr
	// Address is the sender's address itself.
	Address netip.Addr
	// HTTP is the request; its body is read and not closed.
	HTTP *http.Request
	// Deadlines limits the time of the body; nil leaves that to the server.
	Deadlines ReadDeadliner

	// sample is set for a sample of the gateway's own making.
	sample *ownSample

	// proof is set when the webhook is accepted.
	proof proof

	// connection and environment are those that the body counts for.
	connection  string
	environment id.Environment
}

func (r *Request) holder() holder { return holder{r.Source, r.connection, r.environment} }

// ReadDeadliner sets the time by which the body must have been read, as *http.ResponseController does.
type ReadDeadliner interface {
	SetReadDeadline(deadline time.Time) error
}

// Receipt is the response to a webhook that was accepted, or to a handshake.
type Receipt struct {
	// EventUUID is the event's, or for a duplicate the first event's; empty for a handshake.
	EventUUID string
	Duplicate bool
	// Suspect says of a duplicate that its body is not that of the first event.
	Suspect bool
	// Matched is how many subscriptions get the event; 0 for a duplicate.
	Matched int
	// Response is the response that the provider expects; nil for the service's own acknowledgement.
	Response *verification.Response
	// Rate is the state of the connection's limit, or of the sender's limit of refused requests if that is used up, with
	// an error too; nil if the webhook was not counted.
	Rate *ratelimit.Decision
}

var errStopped = errors.New("ingest has stopped")

// Receive handles one request: it finds the connection, responds to a handshake, or verifies the raw bytes of a webhook
// and returns when the event is durable. Forwarding continues by itself.
//
// Errors: not_found for a path that names no connection; connection_disabled; signature_missing and signature_invalid,
// with the status code of the provider's definition; payload_too_large; rate_limited for a verified webhook beyond the
// connection's limit, and for a sender with too many refused requests, before anything is done for the request;
// http_error of status 400 for a body that ended early or a request that is not a handshake, 405 for a method that the
// provider does not use, and 408 for a body that did not arrive in time; unavailable if the database cannot commit, the
// provider's keys cannot be fetched, the bodies that arrive, or those of the one sender, use too much memory or disk,
// or the filters of too many events of the environment wait.
func (s *Service) Receive(ctx context.Context, r Request) (Receipt, error) {
	receipt, err := s.receiveLimited(ctx, &r)
	s.requests.WithLabelValues(outcomeOf(receipt, err)).Inc()
	return receipt, err
}

// receiveLimited is receive for senders without too many refused requests.
func (s *Service) receiveLimited(ctx context.Context, r *Request) (Receipt, error) {
	from := sender{r.Source, r.Segment}
	known, byAlias := s.conns.Knows(r.Segment)
	if state, ok := s.refusals.admit(from, known, byAlias, s.clock.Now()); !ok {
		return Receipt{Rate: &state}, s.tooManyRefusals(state)
	}
	receipt, err := s.receive(ctx, r)
	s.refusals.end(from, r.proof, err, s.clock.Now())
	return receipt, err
}

func (s *Service) receive(ctx context.Context, r *Request) (Receipt, error) {
	in, err := s.conns.Lookup(ctx, r.Segment)
	if err != nil {
		return Receipt{}, err
	}
	obs.LineFrom(ctx).Add(slog.String("connection_uuid", in.Connection.UUID),
		slog.String("environment_id", string(in.Connection.Environment)))
	if r.sample == nil {
		r.HTTP.Header.Del(verification.SampleHeader) // nothing that a stranger says makes a webhook a sample
	}
	if in.Connection.Status == connections.Disabled {
		s.recordRejection(in, r, nil, reasonDisabled, messageDisabled, nil)
		return Receipt{}, apperr.New(apperr.CodeConnectionDisabled,
			"The connection is disabled and accepts no webhooks").RetryIn(time.Minute)
	}
	req := s.newVerification(r)
	if refusal := checkSource(in, r.Address); refusal != nil {
		return Receipt{}, s.rejectWebhook(ctx, in, r, req, refusal)
	}
	if r.HTTP.Method != http.MethodPost {
		return s.respondHandshakeOnly(ctx, in, r, req)
	}
	limit := bodyLimit(in, s.opts.MaxBodyBytes)
	if r.HTTP.ContentLength > limit {
		return Receipt{}, s.rejectUnread(in, r, tooLarge())
	}
	if refusal := in.Verifier.Precheck(r.HTTP.Header); refusal != nil {
		return Receipt{}, s.rejectWebhook(ctx, in, r, req, refusal)
	}
	r.connection, r.environment = in.Connection.UUID, in.Connection.Environment
	body, memory, err := s.bodies.read(r, limit)
	if err != nil {
		return Receipt{}, s.rejectUnread(in, r, err)
	}
	defer memory.release()
	now := s.clock.Now()
	req.Body, req.Now = body, now
	if answer, err := s.respondHandshake(ctx, in, r, req); answer != nil || err != nil {
		return Receipt{Response: answer}, err
	}
	result, refusal := in.Verifier.Verify(ctx, req)
	if refusal != nil {
		return Receipt{}, s.rejectWebhook(ctx, in, r, req, refusal)
	}
	if r.sample == nil && verification.IsSample(body) {
		return Receipt{}, s.rejectWebhook(ctx, in, r, req, refuseSample())
	}
	s.conns.Matched(result.KeyID, now)
	rate := s.countRate(ctx, &in.Connection)
	if rate != nil && !rate.Allowed {
		s.recordRejection(in, r, req, reasonRate, messageRate, nil)
		return Receipt{Rate: rate}, apperr.New(apperr.CodeRateLimited, "The connection accepts no more webhooks now").
			RetryIn(rate.RetryAfter)
	}
	told, refusal := in.Verifier.Describe(req)
	if refusal != nil {
		return Receipt{Rate: rate}, s.rejectWebhook(ctx, in, r, req, refusal)
	}
	it := s.newItem(in, req, result, &told, now)
	if r.sample != nil && r.sample.ordered {
		it.payload.Signatures = ""
	}
	receipt, err := s.store(ctx, it)
	receipt.Response, receipt.Rate = in.Verifier.Ack(), rate
	if err == nil {
		r.proof = proofOf(in.Verifier, result)
	}
	return receipt, err
}

// proofOf returns what an accepted webhook shows about its sender.
func proofOf(v *verification.Verifier, result verification.Result) proof {
	if result.Verified && !v.CarriesSecret() {
		return signed
	}
	return proved
}

// bodyLimit returns the size of the largest body that the connection accepts, and at most most, in bytes.
func bodyLimit(in *connections.Inbound, most int64) int64 {
	limit := min(in.Connection.Webhook.MaxBodyBytes, most, connections.MaxBodyBytes)
	if most := in.Verifier.MaxBody(); most > 0 {
		limit = min(limit, most)
	}
	return limit
}

// newVerification returns what verification sees of a webhook before its body is read.
func (s *Service) newVerification(r *Request) *verification.Request {
	return &verification.Request{Method: r.HTTP.Method, PublicURL: s.opts.PublicURL, Host: r.HTTP.Host,
		Path: r.HTTP.URL.EscapedPath(), RawQuery: r.HTTP.URL.RawQuery, Header: r.HTTP.Header, RemoteIP: r.Address,
		Now: s.clock.Now()}
}

func (s *Service) store(ctx context.Context, it *item) (Receipt, error) {
	// Once the first commit has taken the event, it is committed whether or not the client stays, unless the process has
	// stopped committing.
	lasting := context.WithoutCancel(ctx)
	it.again = true
	for wait := ctx; it.again; wait = lasting {
		it.again, it.done = false, make(chan struct{})
		if err := s.commit(wait, it); err != nil {
			return Receipt{}, err
		}
	}
	if it.err != nil {
		return Receipt{}, it.err
	}
	if it.duplicateOf == "" {
		obs.LineFrom(ctx).Add(slog.String("event_uuid", it.event.UUID), slog.String("event_type", it.event.Type))
		return Receipt{EventUUID: it.event.UUID, Matched: len(it.matched)}, nil
	}
	obs.LineFrom(ctx).Add(slog.String("event_uuid", it.event.UUID), slog.String("duplicate_of", it.duplicateOf))
	if it.in != nil && it.in.Connection.Webhook.RedeliverOnDuplicate {
		if _, err := s.deliveries.Redeliver(lasting, it.in.Connection.Environment, it.duplicateOf); err != nil {
			// The duplicate itself is stored, so the provider must not resend it.
			s.log.ErrorContext(ctx, "cannot restart the dead deliveries of a duplicated event",
				slog.String("event_uuid", it.duplicateOf), slog.String("error", err.Error()), obs.Outage("redelivery"))
		}
	}
	return Receipt{EventUUID: it.duplicateOf, Duplicate: true, Suspect: it.event.Suspect != nil}, nil
}

// commit matches the event, submits it to the group commit, and waits for that. If ctx ends while the event waits for
// its turn, it is not committed.
func (s *Service) commit(ctx context.Context, it *item) error {
	switch err := s.match(ctx, it); {
	case errors.Is(err, errFiltersBusy):
		return err
	case err != nil:
		return unavailable(err)
	}
	s.batches.Submit(it)
	left := ctx.Done()
	for waits := true; waits; {
		select {
		case <-it.done:
			return nil
		case <-left:
			if s.batches.Withdraw(it) {
				return apperr.Unavailable(ctx.Err())
			}
			left = nil // it is being committed
		case <-s.ended:
			waits = false
		}
	}
	select {
	case <-it.done:
		return nil
	default:
		return apperr.Unavailable(errStopped)
	}
}

// item is one verified webhook on its way to the database. Expensive work is done before.
type item struct {
	in      *connections.Inbound // nil for an event that is published
	event   events.NewEvent
	payload events.Payload
	keys    []claimedKey
	// singleUse is the key of a value that the provider uses once; nil if there is none. usedBy is the event that used the
	// value before, as the transaction in progress knows.
	singleUse *claimedKey
	usedBy    string
	// bodyKey is the hash in the text of a body-hash key; empty if the provider's id is the key.
	bodyKey string

	// claims are the keys that the event claims in the transaction in progress.
	claims []claimedKey
	// matched are the subscriptions that get the event, as the generation of their index says. matches counts how often
	// they were looked for. screen has the results of their filters; nil if there are none.
	matched    []subscriptions.Matched
	generation subscriptions.Generation
	matches    int
	screen     *filters.Screen

	plan        *deliveries.Plan
	duplicateOf string
	// check is the caller's condition, for the transaction that stores the event; nil if there is none.
	check db.Check
	// done is closed when the item has been committed, with err, or when it must be matched again, with again set.
	done  chan struct{}
	again bool
	err   error
}

func (s *Service) newItem(in *connections.Inbound, r *verification.Request, result verification.Result,
	told *verification.Event, now time.Time) *item {
	c := &in.Connection
	it := &item{in: in}
	it.payload = newPayload(in, r)
	it.event = events.NewEvent{Event: events.Event{
		Environment: c.Environment, ConnectionUUID: c.UUID, ConnectionID: c.ConnectionID, Provider: c.Provider,
		ProviderConfigKey: c.ProviderConfigKey, Type: told.Type, Types: told.Types, Control: told.Control,
		Verification: describeVerification(result), ContentType: storedContentType(r.Header.Get("Content-Type")),
		BodySize: int64(len(r.Body)), Hops: readHops(r.Header), ReceivedAt: now,
	}}
	if result.SingleUse != "" {
		// It is needed as long as its signature is accepted; the second covers the clocks of other nodes.
		it.singleUse = &claimedKey{hash: string(events.HashSingleUse(result.SingleUse)), decides: true,
			expires: clock.Millis(result.SingleUseUntil.Add(time.Second))}
	}
	it.nameKeys(in, told, r.Body, now, s.opts.DedupeWindow)
	return it
}

// newPayload returns what is stored of a webhook.
func newPayload(in *connections.Inbound, r *verification.Request) events.Payload {
	v := in.Verifier
	keepLost(in, r)
	p := events.Payload{Body: v.RedactBody(r), Encoding: encodingOf(r.Header.Get("Content-Type"), r.Body)}
	signatures := v.SignatureHeaders()
	if !bytes.Equal(p.Body, r.Body) {
		signatures = nil // they are those of another body, with which no receiver could verify them
	}
	rules := rulesFor(in, signatures, p.Encoding)
	p.Headers, p.Signatures = storedHeaders(r.Header, rules)
	if len(p.Headers)+len(p.Signatures) > deliveries.FewHeaderBytes || len(r.Header) > deliveries.FewHeaders {
		rules.first = v.EventHeaders()
		_, p.Signatures = storedHeaders(r.Header, rules)
	}
	return p
}

// describeVerification returns the event's verification as JSON.
func describeVerification(r verification.Result) string {
	result := "unverified"
	if r.Verified {
		result = "verified"
	}
	b := appendString(append(make([]byte, 0, 128), `{"result":`...), result)
	b = appendString(append(b, `,"scheme":`...), r.Scheme)
	b = appendString(append(b, `,"key_id":`...), r.KeyID)
	return string(append(b, '}'))
}

func tooLarge() error {
	return apperr.New(apperr.CodePayloadTooLarge, "The body is larger than the connection accepts")
}

func internal(err error) error { return fmt.Errorf("store an event: %w", err) }
