package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
)

// looked stands in for connections: every look-up has one outcome, and is counted by segment. A segment that begins
// with "known" is known before, and one with "alias" in it is an alias.
type looked struct {
	Connections
	err   error
	asked map[string]int
}

func (l *looked) Knows(segment string) (known, byAlias bool) {
	return strings.HasPrefix(segment, "known"), strings.Contains(segment, "alias")
}

func (l *looked) Lookup(_ context.Context, segment string) (*connections.Inbound, error) {
	l.asked[segment]++
	return nil, l.err
}

// guessed is a service that looks connections up and does no more.
type guessed struct {
	*Service
	conns *looked
	clock *clock.Manual
}

func newGuessed() guessed {
	g := guessed{conns: &looked{asked: map[string]int{}}, clock: clock.NewManual(time.UnixMilli(1_750_000_000_000))}
	g.Service = &Service{conns: g.conns, clock: g.clock, refusals: newRefusals(), requests: newRequests()}
	return g
}

// ask sends a request with an outcome and reports whether anything was done for it. Every request that is limited says
// when to come back.
func (g guessed) ask(t *testing.T, from, segment string, outcome error) (worked bool) {
	t.Helper()
	if outcome == nil { // which takes more than this service has
		s := sender{netip.MustParseAddr(from), segment}
		known, byAlias := g.conns.Knows(segment)
		if _, worked = g.refusals.admit(s, known, byAlias, g.clock.Now()); worked {
			g.refusals.end(s, proved, nil, g.clock.Now())
		}
		return worked
	}
	before := g.conns.asked[segment]
	g.conns.err = outcome
	r := Request{Segment: segment, Source: netip.MustParseAddr(from),
		HTTP: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)}
	receipt, err := g.Receive(t.Context(), r)
	worked = g.conns.asked[segment] > before
	if worked {
		require.ErrorIs(t, err, outcome)
		return worked
	}
	require.True(t, apperr.Is(err, apperr.CodeRateLimited), "%v", err)
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Positive(t, e.RetryAfter)
	require.NotNil(t, receipt.Rate)
	require.Equal(t, ratelimit.Decision{Limit: refusalBurst, Reset: receipt.Rate.Reset, RetryAfter: e.RetryAfter},
		*receipt.Rate)
	require.Greater(t, receipt.Rate.Reset, e.RetryAfter)
	return worked
}

// fails sends refused requests and returns how many of them something was done for.
func (g guessed) fails(t *testing.T, n int, from string, segment func(int) string, outcome error) (worked int) {
	t.Helper()
	for i := range n {
		if g.ask(t, from, segment(i), outcome) {
			worked++
		}
	}
	return worked
}

func always(segment string) func(int) string { return func(int) string { return segment } }

func various(form string) func(int) string { return func(i int) string { return fmt.Sprintf(form, i) } }

// Behind a proxy that the server does not trust, all senders count as one. The refusal says so, and what to set.
func TestRefusalsOfOneAddressForAll(t *testing.T) {
	t.Parallel()
	for shared, want := range map[bool]string{
		false: "Too many rejected webhooks from this address",
		true: "Too many rejected webhooks from this address, which all senders have: they come through a proxy that " +
			"trusted-proxies does not list",
	} {
		g := newGuessed()
		g.opts.SharedAddress = shared
		require.Less(t, g.fails(t, 2*refusalBurst, "127.0.0.1", always("known"), wrongSignature()), 2*refusalBurst)
		_, err := g.Receive(t.Context(), Request{Segment: "known", Source: netip.MustParseAddr("127.0.0.1"),
			HTTP: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, want, e.Message)
	}
}

func wrongSignature() error { return apperr.New(apperr.CodeSignatureInvalid, "m") }

// A sender that keeps sending invalid requests has to wait, and nothing is done for its requests meanwhile: also one
// that sends only half a body, or none for a long time. The service's own failures do not count against the sender.
func TestCountedRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		limited bool
	}{
		{apperr.NotFound("connection"), true},
		{apperr.New(apperr.CodeSignatureMissing, "m"), true},
		{apperr.New(apperr.CodeSignatureInvalid, "m"), true},
		{apperr.HTTP(http.StatusBadRequest, "m"), true},
		{apperr.HTTP(http.StatusRequestTimeout, "m"), true},
		{fmt.Errorf("read: %w", apperr.HTTP(http.StatusRequestTimeout, "m")), true},
		{apperr.HTTP(http.StatusConflict, "m"), false},
		{apperr.New(apperr.CodePayloadTooLarge, "m"), false},
		{apperr.New(apperr.CodeConnectionDisabled, "m"), false},
		{apperr.Unavailable(errors.New("m")), false},
		{errors.New("m"), false},
	} {
		g := newGuessed()
		require.Equal(t, refusalBurst, g.fails(t, refusalBurst, "192.0.2.1", always("acme"), c.err), "%v", c.err)
		require.Equal(t, c.limited, !g.ask(t, "192.0.2.1", "acme", c.err), "%v", c.err)
		require.True(t, g.ask(t, "192.0.2.2", "acme", c.err), "another host")
	}
}

// A guess that is right, after too many wrong ones, is not accepted until the limit has passed, whether it is the
// secret of one connection or the segment of any that is guessed.
func TestRightGuessAfterTheLimit(t *testing.T) {
	t.Parallel()
	const host = "192.0.2.1"
	for name, c := range map[string]struct {
		segment func(int) string
		err     error
		right   string
	}{
		"secret":              {always("known"), wrongSignature(), "known"},
		"path token":          {various("guess %d"), apperr.NotFound("connection"), "right"},
		"alias":               {various("alias %d"), apperr.NotFound("connection"), "alias"},
		"alias that is known": {various("alias %d"), apperr.NotFound("connection"), "known alias"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuessed()
			require.Equal(t, refusalBurst, g.fails(t, 3000, host, c.segment, c.err))
			require.False(t, g.ask(t, host, c.right, nil))
			g.clock.Advance(refusalStep - 1)
			require.False(t, g.ask(t, host, c.right, nil))
			g.clock.Advance(1)
			require.Equal(t, 1, g.fails(t, 100, host, c.segment, c.err), "one more, then the next wait")
			g.clock.Advance(refusalStep)
			require.True(t, g.ask(t, host, c.right, nil))
		})
	}
}

// Guesses that are in progress together are as many as guesses one after the other: those beyond the limit are paid for
// by a longer wait.
func TestGuessesAtTheSameTime(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(), time.UnixMilli(1_750_000_000_000)
	s := sender{netip.MustParseAddr("192.0.2.1"), "acme"}
	const guesses = 1000
	for range guesses {
		_, ok := r.admit(s, true, false, now)
		require.True(t, ok, "none of them has been refused yet")
	}
	for range guesses {
		r.end(s, unproved, wrongSignature(), now)
	}
	d, ok := r.admit(s, true, false, now)
	require.False(t, ok)
	require.Equal(t, (guesses-refusalBurst+1)*refusalStep, d.RetryAfter)
	for range 1_000_000 {
		r.end(s, unproved, wrongSignature(), now)
	}
	d, _ = r.admit(s, true, false, now)
	require.LessOrEqual(t, d.RetryAfter, maxPenalty+refusalStep)
}

// Others behind the address of a guesser, as behind that of a provider or a proxy, are accepted at other connections
// than the one whose secret is guessed: by a path token that the node knows and, at a host that has sent a verified
// webhook, by one that it does not know and by an alias.
func TestInnocentSendersBehindTheAddress(t *testing.T) {
	t.Parallel()
	const host = "192.0.2.1"
	for name, guess := range map[string]func(g guessed) int{
		"secret": func(g guessed) int { return g.fails(t, 200, host, always("known"), wrongSignature()) },
		"alias": func(g guessed) int {
			return g.fails(t, 200, host, various("alias %d"), apperr.NotFound("connection"))
		},
	} {
		g := newGuessed()
		require.Equal(t, refusalBurst, guess(g), name)
		require.True(t, g.ask(t, host, "known too", nil)) // which shows that the host is no stranger's alone
		for range 1000 {
			for _, segment := range []string{"known too", "known alias", "new", "alias"} {
				require.True(t, g.ask(t, host, segment, nil), "%s %s", name, segment)
			}
		}
		if name == "secret" {
			require.False(t, g.ask(t, host, "known", nil))
			require.True(t, g.ask(t, "192.0.2.2", "known", nil), "the connection is open to other hosts")
		}
		g.clock.Advance(trust) // the guesses are forgotten as well
		require.Equal(t, refusalBurst, guess(g), name)
		for segment, open := range map[string]bool{"known too": true, "known alias": false, "new": false} {
			require.Equal(t, open, g.ask(t, host, segment, wrongSignature()), "%s %s", name, segment)
		}
	}
}

// Anyone who has an account at a provider can have it send wrong signatures to the alias of another's connection, from
// the provider's own address. A connection that got a signed webhook from there lately stays open to it. That of a
// token does not, because each request guesses one, and neither do other connections or addresses.
func TestSignedConnectionsStayOpen(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_750_000_000_000)
	provider, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	r := newRefusals()
	open := func(host netip.Addr, segment string) bool {
		_, ok := r.admit(sender{host, segment}, true, true, now)
		return ok
	}
	r.end(sender{provider, "signed"}, signed, nil, now)
	r.end(sender{provider, "token"}, proved, nil, now)
	for range 3000 {
		for _, segment := range []string{"signed", "token", "fresh"} {
			r.end(sender{provider, segment}, unproved, wrongSignature(), now)
		}
		r.end(sender{other, "signed"}, unproved, wrongSignature(), now)
	}
	require.True(t, open(provider, "signed"))
	require.False(t, open(provider, "token"))
	require.False(t, open(provider, "fresh"))
	require.False(t, open(other, "signed"))
	now = now.Add(signedTrust / 2)
	r.end(sender{provider, "signed"}, signed, nil, now) // a weekly one
	now = now.Add(signedTrust - 1)
	for range 3000 {
		r.end(sender{provider, "signed"}, unproved, wrongSignature(), now)
	}
	require.True(t, open(provider, "signed"))
	now = now.Add(1)
	require.False(t, open(provider, "signed"))
}

// A handshake, which most providers do not sign, makes no one trusted: strangers can send one to an alias.
func TestHandshakesMakeNoOneTrusted(t *testing.T) {
	t.Parallel()
	const host = "192.0.2.1"
	g := newGuessed()
	g.refusals.end(sender{netip.MustParseAddr(host), "alias"}, unproved, nil, g.clock.Now())
	require.Equal(t, refusalBurst, g.fails(t, 200, host, various("%d"), apperr.NotFound("connection")))
	require.False(t, g.ask(t, host, "new", nil))
}

// Strangers cannot use up the memory, nor have the counts of connections forgotten by guessing from many addresses.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	r, now := newRefusals(), time.UnixMilli(1_750_000_000_000)
	s := sender{netip.MustParseAddr("192.0.2.1"), "acme"}
	for range refusalBurst {
		r.end(s, unproved, wrongSignature(), now)
	}
	address := netip.MustParseAddr("10.0.0.0")
	for range 2 * maxSenders {
		address = address.Next()
		r.end(sender{address, "guess"}, unproved, apperr.NotFound("connection"), now)
	}
	require.Equal(t, maxSenders, r.byHost.Len())
	_, ok := r.admit(s, true, false, now)
	require.False(t, ok)
}
