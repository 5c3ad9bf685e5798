package apikeys

import (
	"fmt"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/ratelimit"
)

// rateViolations adds the validation errors of a key's limit.
func rateViolations(violations *apperr.Violations, l *ratelimit.Limit) {
	if l == nil {
		return
	}
	for _, v := range []struct {
		at         string
		value, max int64
	}{{"rate_limit.per_second", l.PerSecond, ratelimit.MaxPerSecond}, {"rate_limit.burst", l.Burst, ratelimit.MaxBurst}} {
		if v.value < 1 || v.value > v.max {
			violations.Add(v.at, "range", fmt.Sprintf("must be between 1 and %d", v.max))
		}
	}
}

func sameRate(a, b *ratelimit.Limit) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// storedRate is a key's limit as the columns hold it.
type storedRate struct {
	perSecond, burst *int64
}

func storeRate(l *ratelimit.Limit) storedRate {
	if l == nil {
		return storedRate{}
	}
	return storedRate{perSecond: &l.PerSecond, burst: &l.Burst}
}

func (r storedRate) limit() *ratelimit.Limit {
	if r.perSecond == nil || r.burst == nil {
		return nil
	}
	return &ratelimit.Limit{PerSecond: *r.perSecond, Burst: *r.burst}
}

// auditRate is a limit as the trail shows it.
func auditRate(l *ratelimit.Limit) any {
	if l == nil {
		return nil
	}
	return audit.State{"per_second": l.PerSecond, "burst": l.Burst}
}
