package limiter

import (
	"context"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/outbound"
)

// Given is a test of credentials that a caller has just given. They belong to no connection yet.
type Given struct {
	Environment id.Environment
	ConfigKey   string
	// Hosts are those to which the test may send something.
	Hosts []string
	// Entered is the UUID of the connection on whose page a person has entered the credentials; empty for those that
	// came with a request of the environment.
	Entered string
}

// TooManyGiven is the message to a caller who is refused.
const TooManyGiven = "The environment has tested too many credentials at this provider; send them later, or with " +
	`"test": false, which stores them without a test`

// maxGivenHosts bounds the hosts that a test counts for. Definitions name fewer.
const maxGivenHosts = 8

// Limits of tests of given credentials. They keep an environment from guessing credentials at a provider, and from
// flooding it. An environment that creates connections for its users stays far below them.
func limitOfHost() ratelimit.Limit { return ratelimit.Limit{Every: 2 * time.Second, Burst: 30} }
func limitOfEnvironment() ratelimit.Limit {
	return ratelimit.Limit{Every: 500 * time.Millisecond, Burst: 120}
}

// limitOfPage is for the credentials that are entered for one connection: it keeps a person from using up what all
// persons of the environment share.
func limitOfPage() ratelimit.Limit { return ratelimit.Limit{Every: 10 * time.Second, Burst: 5} }

// AcquireGiven returns rate_limited, with the time after which to try again, if the environment has tested given
// credentials too often: at one of the hosts, at all hosts together, or more often than the provider's budgets for an
// OAuth client or an environment allow. Credentials that persons enter are counted apart from those of requests, and
// for each connection. It does not wait.
func (l *Limiter) AcquireGiven(ctx context.Context, g Given, limits outbound.Limits) error {
	if l == nil {
		return nil // a test of something else
	}
	prefix := "given/" + string(g.Environment)
	var parts []part
	if g.Entered != "" {
		prefix = "entered/" + string(g.Environment)
		parts = append(parts, part{ratelimit.Bucket{Kind: ratelimit.Provider, ID: "entered/" + g.Entered}, limitOfPage()})
	}
	parts = append(parts, part{ratelimit.Bucket{Kind: ratelimit.Provider, ID: prefix}, limitOfEnvironment()})
	for _, host := range g.Hosts[:min(len(g.Hosts), maxGivenHosts)] {
		parts = append(parts, part{ratelimit.Bucket{Kind: ratelimit.Provider, ID: prefix + "/" + host}, limitOfHost()})
	}
	var shared []outbound.BudgetRule
	for _, b := range limits.Budgets {
		if b.Scope == outbound.ScopeClient || b.Scope == outbound.ScopeEnvironment {
			shared = append(shared, b)
		}
	}
	parts = append(parts, partsOf(&Caller{Environment: g.Environment, ConfigKey: g.ConfigKey}, shared)...)
	if wait := l.take(ctx, parts); wait > 0 {
		l.metrics.count(false, true)
		return apperr.New(apperr.CodeRateLimited, TooManyGiven).RetryIn(wait)
	}
	l.metrics.count(false, false)
	return nil
}
