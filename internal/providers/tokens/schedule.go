package tokens

import (
	"maps"
	"slices"
	"time"

	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/outbound"
)

const (
	// coolDown is the shortest time between two exchanges of a connection's tokens that no user asks for.
	coolDown = 30 * time.Second
	// maxBackoff is the longest time between two attempts of a renewal that fails.
	maxBackoff = 30 * time.Minute
	// maxRequestBackoff is the longest that requests wait for the next attempt, unless the endpoint asks for more: a
	// provider that works again is found by those who need it.
	maxRequestBackoff = 2 * time.Minute
	// postponement is how long a renewal waits that cannot be made, because its connection is disabled or would send
	// credentials elsewhere.
	postponement = time.Hour
	// spread is the part by which times are made earlier or later, so that tokens of the same hour are not renewed at the
	// same time.
	spread = 0.2
)

// way is how the access token of a connection is replaced by a new one.
type way int

const (
	// neither: nothing renews the credentials. If they have an end, it is one for the user.
	neither way = iota
	refreshes
	mints
)

// wayOf returns how the credentials are renewed.
func wayOf(m *outbound.Mode, s *credentials.Set) way {
	switch {
	case m.Mints():
		return mints
	case m.Kind == outbound.OAuth2 && !m.Refresh.Reauth && slices.Contains(s.Fields, RefreshToken):
		return refreshes
	default:
		return neither
	}
}

// isStale reports whether requests have to wait for another access token.
func isStale(m *outbound.Mode, s *credentials.Set, now time.Time) bool {
	w := wayOf(m, s)
	return w == mints && !slices.Contains(s.Fields, AccessToken) || w != neither && isOver(s, now)
}

// isOver reports whether the access token has expired.
func isOver(s *credentials.Set, now time.Time) bool {
	return s.ExpiresAt != nil && !now.Before(*s.ExpiresAt)
}

// dueTime returns when something is to be done about credentials that were just stored or renewed; nil for never.
// Random is from 0 to 1.
func dueTime(m *outbound.Mode, s *credentials.Set, now time.Time, random float64) *time.Time {
	w := wayOf(m, s)
	if w == neither {
		return s.ExpiresAt
	}
	if w == mints && !slices.Contains(s.Fields, AccessToken) || s.RefreshedAt == nil && isOver(s, now) {
		return &now // there is no token of any use, and none was requested before
	}
	begun := s.StoredAt
	if s.RefreshedAt != nil {
		begun = *s.RefreshedAt
	}
	var due *time.Time
	earliest := func(at time.Time) {
		if due == nil || at.Before(*due) {
			due = &at
		}
	}
	expires := s.ExpiresAt
	if usual := m.Token.DefaultTTL; expires == nil && usual > 0 { // given without its end
		at := begun.Add(usual)
		expires = &at
	}
	if expires != nil {
		life := expires.Sub(begun)
		earliest(expires.Add(-vary(min(m.TokenBuffer, life/4), random)))
	}
	if idle := m.Refresh.MaxIdle; w == refreshes && idle > 0 {
		earliest(begun.Add(idle - vary(idle/4, random)))
	}
	// An endpoint whose tokens have expired as soon as they come must not be asked without a pause.
	if soonest := now.Add(coolDown); due != nil && due.Before(soonest) {
		return &soonest
	}
	return due
}

// vary returns a duration that is up to a fifth shorter or longer.
func vary(d time.Duration, random float64) time.Duration {
	return time.Duration(float64(d) * (1 - spread + 2*spread*random))
}

// retryTimes returns when something is done again about a renewal that has failed so many times in a row: by the
// worker, and by requests that need the token. The worker does not miss the end of the token: requests have to wait
// from then on, and the connection shows why, even if the endpoint is to be left alone for longer.
func retryTimes(s *credentials.Set, now time.Time, failures int64, asked time.Duration,
	random float64) (worker, requests time.Time) {
	wait := coolDown
	for range failures - 1 {
		if wait *= 2; wait >= maxBackoff {
			wait = maxBackoff
			break
		}
	}
	wait = max(vary(wait, random), coolDown)
	worker, requests = now.Add(max(wait, asked)), now.Add(max(min(wait, maxRequestBackoff), asked))
	if s.ExpiresAt != nil && s.ExpiresAt.After(now) && worker.After(*s.ExpiresAt) {
		return *s.ExpiresAt, requests
	}
	return worker, requests
}

// withNames returns the names of fields with those of values, sorted.
func withNames[V any](fields []string, values map[string]V) []string {
	out := slices.AppendSeq(slices.Clone(fields), maps.Keys(values))
	slices.Sort(out)
	return slices.Compact(out)
}
