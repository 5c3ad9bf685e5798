package ingest

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/ratelimit"
)

// Limits of refused requests from one sender. Accepted webhooks are never counted, because the provider may not resend
// one that was turned away.
const (
	refusalsPerSecond = 20
	refusalBurst      = 100
	refusalStep       = time.Second / refusalsPerSecond
	refusalSpan       = refusalBurst * refusalStep
	// maxPenalty limits how long a sender waits whose requests were in progress together when they were refused. They
	// count all the same, so that guesses at the same time are no more than guesses one after the other.
	maxPenalty = 5 * time.Minute
	// maxSenders limits the memory that strangers can use, in senders of each kind.
	maxSenders = 10_000
	// trust is how long a host that sent a verified webhook is distinguished from those who guess.
	trust = time.Hour
	// signedTrust is how long a connection stays open to a host that sent it a signed webhook. Some providers send one a
	// week.
	signedTrust = 8 * 24 * time.Hour
)

// sender is where refusals are counted: a host, as clientaddr.Host returns it, at the path segment of one connection.
type sender struct {
	host    netip.Addr
	segment string
}

// refusals limits the requests of senders that are refused, before anything is done for a request: nothing is looked
// up, read or verified for a sender over its limit, so that a guess that is right after too many wrong ones is not
// accepted either.
//
// A provider sends the webhooks of many connections from the same addresses, and so may a proxy. Refusals of one of its
// customers must not cost the webhooks of others. So refusals at a connection close that connection to the host, and
// all refusals of a host close to it what it may have guessed: see guesses. They close nothing to other hosts, or any
// stranger could keep a provider out. Nor do they close a connection to a host from which it got a signed webhook
// lately: anyone who has an account at the provider can have it send wrong signatures to the alias of another's
// connection. A secret that comes with the webhook is guessed with each request, and a signature is not. It is safe for
// concurrent use.
type refusals struct {
	mu sync.RWMutex
	// atConnections and byHost count what was refused lately. Only a connection that exists is counted by itself.
	atConnections *simplelru.LRU[sender, *refused]
	byHost        *simplelru.LRU[netip.Addr, *refused]
	// accepted holds when a webhook of a host was accepted. A handshake proves nothing.
	accepted *simplelru.LRU[netip.Addr, time.Time]
	// signed holds when a connection accepted a webhook of a host by its signature.
	signed *simplelru.LRU[sender, time.Time]
}

// refused is the state of one sender.
type refused struct {
	// tat is when the sender's limit is full again, as in package ratelimit.
	tat time.Time
}

func newRefusals() *refusals {
	return &refusals{atConnections: newRecent[sender, *refused](), byHost: newRecent[netip.Addr, *refused](),
		accepted: newRecent[netip.Addr, time.Time](), signed: newRecent[sender, time.Time]()}
}

func newRecent[K comparable, V any]() *simplelru.LRU[K, V] {
	l, err := simplelru.NewLRU[K, V](maxSenders, nil)
	if err != nil {
		panic(err) // the size is positive
	}
	return l
}

// wait returns how long the sender must wait for its next request.
func (r *refused) wait(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	return max(0, r.tat.Add(refusalStep-refusalSpan).Sub(now))
}

// decision describes the state of a sender that must wait.
func (r *refused) decision(now time.Time) ratelimit.Decision {
	return ratelimit.Decision{Limit: refusalBurst, Reset: r.tat.Sub(now), RetryAfter: r.wait(now)}
}

// admit returns the state of the limit that the sender of a request is over, and false; and true for any other request,
// with whose outcome end is to be called. known says whether this node knows a connection of the segment, byAlias
// whether the segment could be an alias, which anyone can guess.
func (l *refusals) admit(s sender, known, byAlias bool, now time.Time) (ratelimit.Decision, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if at, ok := l.signed.Peek(s); ok && now.Sub(at) < signedTrust {
		return ratelimit.Decision{}, true
	}
	own, _ := l.atConnections.Peek(s)
	if own.wait(now) > 0 {
		return own.decision(now), false
	}
	if all, _ := l.byHost.Peek(s.host); all.wait(now) > 0 && l.guesses(s.host, known, byAlias, now) {
		return all.decision(now), false
	}
	return ratelimit.Decision{}, true
}

// guesses reports whether a segment may be a guess of a host that was refused too often. No one can guess a path token,
// so one that this node knows is none. Whether one that it does not know is right, it would have to look up; and an
// alias can be guessed. Both are left to hosts that have sent a verified webhook, as a provider's do.
func (l *refusals) guesses(host netip.Addr, known, byAlias bool, now time.Time) bool {
	if known && !byAlias {
		return false
	}
	at, ok := l.accepted.Peek(host)
	return !ok || now.Sub(at) >= trust
}

// proof is how a request that was admitted ended.
type proof int

const (
	// unproved is a request that was refused, or a handshake.
	unproved proof = iota
	// proved is a webhook that was accepted.
	proved
	// signed is a webhook that was accepted, at a connection whose secret no webhook carries.
	signed
)

// end notes the outcome of a request that was admitted.
func (l *refusals) end(s sender, p proof, err error, now time.Time) {
	switch {
	case p != unproved:
		remember(l, l.accepted, s.host, trust, now)
		if p == signed {
			remember(l, l.signed, s, signedTrust, now)
		}
	case apperr.Is(err, apperr.CodeNotFound):
		count(l, l.byHost, s.host, now)
	case isRefusal(err):
		count(l, l.byHost, s.host, now)
		count(l, l.atConnections, s, now)
	}
}

func count[K comparable](l *refusals, in *simplelru.LRU[K, *refused], key K, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := in.Get(key)
	if !ok {
		r = &refused{}
		in.Add(key, r)
	}
	if r.tat.Before(now) {
		r.tat = now
	}
	if most := now.Add(refusalSpan + maxPenalty); r.tat.Add(refusalStep).Before(most) {
		r.tat = r.tat.Add(refusalStep)
	}
}

// remember notes that a webhook was accepted, at most twice in a span.
func remember[K comparable](l *refusals, in *simplelru.LRU[K, time.Time], key K, span time.Duration, now time.Time) {
	l.mu.RLock()
	at, ok := in.Peek(key)
	l.mu.RUnlock()
	if ok && now.Sub(at) < span/2 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	in.Add(key, now)
}

// isRefusal reports whether a request was refused for its content and not for the state of the service. A body that
// ended early or arrived too slowly counts, because an honest sender sends it whole.
func isRefusal(err error) bool {
	var e *apperr.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case apperr.CodeNotFound, apperr.CodeSignatureMissing, apperr.CodeSignatureInvalid, apperr.CodeHandshakeRefused:
		return true
	case apperr.CodeHTTP:
		return e.Status == http.StatusBadRequest || e.Status == http.StatusRequestTimeout
	default:
		return false
	}
}

// errRefusals is the cause of the error of a sender over its limit, by which the metric knows it.
var errRefusals = errors.New("too many of the sender's requests were refused")

// MessageRefusals is the message to a sender over its limit. MessageShared follows it if all senders have one address.
const (
	MessageRefusals = "Too many rejected webhooks from this address"
	MessageShared   = ", which all senders have: they come through a proxy that trusted-proxies does not list"
)

func (s *Service) tooManyRefusals(d ratelimit.Decision) error {
	message := MessageRefusals
	if s.opts.SharedAddress {
		message += MessageShared
	}
	return apperr.Wrap(apperr.CodeRateLimited, message, errRefusals).RetryIn(d.RetryAfter)
}
