package eventstream

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// longest is how long a test waits for what must come. Only a defect makes it wait so long.
const longest = await.Limit

func began() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC) }

// world is a database with events, and streams that feed from it.
type world struct {
	t      testing.TB
	db     *db.DB
	events *events.Store
	clock  clock.Clock
	env    id.Environment
	who    *people
}

func newWorld(t testing.TB, store testkit.Store, clk clock.Clock) *world {
	return &world{t: t, db: store.DB, clock: clk,
		events: events.New(events.Config{DB: store.DB, Deliveries: deliveries.Filter{}, Types: writers{},
			Configs: writers{}}),
		env: environment(t, store.DB), who: &people{}}
}

// environment makes an environment, which tickets refer to.
func environment(t require.TestingT, d *db.DB) id.Environment {
	team, env := id.New(id.PrefixTeam), id.New(id.PrefixEnvironment)
	// rapid's T has no context
	_, err := d.Write().ExecContext(context.Background(),
		"INSERT INTO teams (id, name, created_ms) VALUES ($1, 'team', 0)", team)
	require.NoError(t, err)
	// as above
	_, err = d.Write().ExecContext(context.Background(),
		"INSERT INTO environments (id, team_id, name, type, created_ms) VALUES ($1, $2, 'env', 'test', 0)", env, team)
	require.NoError(t, err)
	return id.Environment(env)
}

// people holds the rights of the principals.
type people struct {
	mu  sync.Mutex
	err error
}

func (p *people) Current(_ context.Context, who access.Principal) (access.Principal, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who.Grants = access.Open(access.RouteEvents)
	return who, p.err
}

func (p *people) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// node is one process's streams.
type node struct {
	*Service
	end func()
}

// start starts a node, which ends with the test at the latest.
func (w *world) start(options ...func(*Options)) *node {
	o := Options{MaxReaders: 100, MaxPerEnvironment: 100}
	for _, change := range options {
		change(&o)
	}
	s := New(Config{DB: w.db, Events: w.events, Attempts: deliveries.NewStore(deliveries.StoreConfig{DB: w.db,
		Events: w.events}), Identity: w.who, Clock: w.clock, Logger: slog.New(slog.DiscardHandler),
		Data: told, Options: o})
	ctx, cancel := context.WithCancel(context.Background()) // it is ended before the database is closed
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	n := &node{Service: s, end: func() {
		s.endStreams()
		cancel()
		await.Return(w.t, "the end of the node", running.Wait)
	}}
	w.t.Cleanup(n.end)
	return n
}

// delays returns how many delays the node has measured.
func (n *node) delays(t require.TestingT) uint64 {
	return uint64(testkit.Metric(t, n.Module().Metrics, "sallyport_stream_delay_seconds"))
}

// data is the data of the tests' messages.
type data struct {
	Event    string
	Status   events.Status
	Attempts int64
	Try      string
	Env      id.Environment
}

func told(m Message) ([]byte, error) {
	d := data{Event: m.Event.UUID, Status: m.Event.Status, Attempts: m.Event.AttemptCount, Env: m.Event.Environment}
	if m.Attempt != nil {
		d.Try = m.Attempt.ID
	}
	return json.Marshal(d)
}

// event returns an event to store.
func (w *world) event(env id.Environment) events.NewEvent {
	return events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: env, ConnectionUUID: id.NewUUID(),
		ConnectionID: "acme", Provider: "github", ProviderConfigKey: "github", Type: "issues.opened", IdempotencyKey: "key",
		Verification: "{}", ReceivedAt: w.clock.Now()}, Payload: &events.Payload{Headers: "{}", Body: []byte("{}"),
		Encoding: events.JSON}}
}

func (w *world) run(list ...db.Statement) error {
	ctx := context.Background() // writers outlive what rapid calls a test
	return w.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := w.db.ExecAll(ctx, tx, list...)
		return err
	})
}

// received stores events in one transaction and returns their uuids.
func (w *world) received(list ...events.NewEvent) []string {
	require.NoError(w.t, w.run(events.Insert(list)...))
	uuids := make([]string, len(list))
	for i := range list {
		uuids[i] = list[i].UUID
	}
	return uuids
}

// one stores one event.
func (w *world) one() string { return w.received(w.event(w.env))[0] }

// attempted returns the statements that record an attempt of an event, as deliveries does.
func (w *world) attempted(env id.Environment, eventUUID string) (try string, list []db.Statement) {
	try = id.NewUUID()
	log := events.Log{At: w.clock.Now()}
	log.Attempted(env, eventUUID, try)
	_, change := events.Apply([]events.Change{{Environment: env, EventUUID: eventUUID, Attempts: 1, At: w.clock.Now()}},
		&log)
	insert := &db.MultiRow{Before: `INSERT INTO delivery_attempts (id, event_uuid, subscription_id, environment_id,
		generation, number, outcome, started_ms, dns_us, connect_us, tls_us, first_byte_us, total_us, request_headers,
		response_headers, truncated)`,
		Types: []string{"text", "text", "text", "text"},
		Row:   "(?, ?, ?, ?, 1, 1, 'succeeded', 0, 1, 2, 3, 4, 5, '{}', '{}', false)"}
	return try, []db.Statement{{Rows: insert, Args: []any{try, eventUUID, "sub", string(env)}}, change, log.Statement()}
}

// padded logs n messages of the environment about one attempt.
func (w *world) padded(n int) {
	uuid := w.one()
	try, list := w.attempted(w.env, uuid)
	require.NoError(w.t, w.run(list...))
	w.sameAttempt(n, uuid, try)
}

// sameAttempt logs n messages of the environment about the attempt of an event.
func (w *world) sameAttempt(n int, uuid, try string) {
	for n > 0 {
		log := events.Log{At: w.clock.Now()}
		for range min(n, 2000) {
			log.Attempted(w.env, uuid, try)
		}
		n -= 2000
		require.NoError(w.t, w.run(log.Statement()))
	}
}

// errBroken is the error of a broken connection.
var errBroken = errors.New("the connection is broken")

// client reads streams, one after the other, and remembers the last id.
type client struct {
	mu     sync.Mutex
	lastID string
	list   []sse.Message
	// budget is how many bytes the connection carries before it breaks; less than 0 is no end.
	budget int
	rest   []byte
	writes int
	// stall, where it is set, holds every write until it is closed.
	stall   chan struct{}
	stalled chan struct{}
}

func newClient() *client { return &client{budget: -1, stalled: make(chan struct{}, 1)} }

// Write takes what a connection carries: part of it before it breaks.
func (c *client) Write(blocks []byte) error {
	c.mu.Lock()
	stall := c.stall
	c.mu.Unlock()
	if stall != nil {
		select {
		case c.stalled <- struct{}{}:
		default:
		}
		<-stall
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	broken := c.budget >= 0 && c.budget < len(blocks)
	if broken {
		blocks = blocks[:c.budget]
	}
	if c.budget >= 0 {
		c.budget -= len(blocks)
	}
	c.rest = append(c.rest, blocks...)
	c.writes++
	if end := bytes.LastIndex(c.rest, []byte("\n\n")); end >= 0 {
		r := sse.NewReader(bytes.NewReader(c.rest[:end+2]), 1<<20)
		for {
			m, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			c.list = append(c.list, m)
		}
		c.lastID = r.LastID()
		c.rest = append([]byte(nil), c.rest[end+2:]...)
	}
	if broken {
		return errBroken
	}
	return nil
}

// read opens a stream, from the last id where there is one, and reads it until it ends.
func (c *client) read(ctx context.Context, n *node, r Request) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	last := c.lastID
	c.rest, c.writes = nil, 0
	c.mu.Unlock()
	if last != "" {
		place, err := ParsePlace(r.View.Environment, last)
		if err != nil {
			return err
		}
		r.From = &place
	}
	if r.Check == nil {
		r.Credential, r.Check = "somebody", func(context.Context) error { return nil }
	}
	reader, err := n.Open(ctx, r)
	if err != nil {
		return err
	}
	reader.Serve(ctx, c)
	return nil
}

// messages returns what has come so far.
func (c *client) messages() []sse.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]sse.Message(nil), c.list...)
}

// begun reports whether something has come.
func (c *client) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes > 0
}

// last returns the last id.
func (c *client) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// of returns the data of the messages of a kind.
func (c *client) of(t require.TestingT, kind Kind) (list []data) {
	for _, m := range c.messages() {
		if m.Event == string(kind) {
			var d data
			require.NoError(t, json.Unmarshal(m.Data, &d))
			list = append(list, d)
		}
	}
	return list
}

// uuids returns the events that were reported as received.
func (c *client) uuids(t require.TestingT) (list []string) {
	for _, d := range c.of(t, EventReceived) {
		list = append(list, d.Event)
	}
	return list
}

// session is a stream that a client reads in the background.
type session struct {
	*client
	w     *world
	ended chan error
	leave context.CancelFunc
}

// connect has a client read a stream in the background.
func (w *world) connect(n *node, c *client, r Request) *session {
	ctx, cancel := context.WithCancel(context.Background()) // it is ended below
	s := &session{client: c, w: w, ended: make(chan error, 1), leave: cancel}
	go func() { s.ended <- c.read(ctx, n, r) }()
	w.t.Cleanup(cancel)
	return s
}

// quit has the client leave.
func (s *session) quit() {
	s.leave()
	require.NoError(s.w.t, await.Value(s.w.t, "the end of the stream", s.ended))
}

// open opens a stream of the world's environment and waits until it has begun.
func (w *world) open(n *node) *session {
	s := w.connect(n, newClient(), Request{View: access.Whole(w.env)})
	s.until("the stream to begin", s.begun)
	return s
}

// until waits for a condition, which changes when something is written; where the clock is a test's, it moves on
// meanwhile.
func (s *session) until(what string, condition func() bool) {
	manual, _ := s.w.clock.(*clock.Manual)
	waitFor(s.w.t, what, manual, condition)
}

// waitFor waits until a condition holds, moving a clock on where there is one.
func waitFor(t require.TestingT, what string, manual *clock.Manual, condition func() bool) {
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
			if manual != nil {
				manual.Advance(tickInterval)
			}
		case <-deadline.C:
			require.FailNow(t, "waited in vain for: "+what)
		}
	}
}

// over waits for the end of the stream and returns the reported reason.
func (s *session) over() (event string, closing Closing) {
	done := make(chan error, 1)
	s.until("the stream to end", func() bool {
		select {
		case err := <-s.ended:
			done <- err
			return true
		default:
			return false
		}
	})
	require.NoError(s.w.t, <-done)
	list := s.messages()
	require.NotEmpty(s.w.t, list)
	last := list[len(list)-1]
	require.NoError(s.w.t, json.Unmarshal(last.Data, &closing))
	return last.Event, closing
}

func unauthorized() error { return apperr.New(apperr.CodeUnauthorized, "no") }
