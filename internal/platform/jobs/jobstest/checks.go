package jobstest

import (
	"errors"

	"sallyport/internal/platform/jobs"
)

var errFailed = errors.New("the attempt failed")

// checks returns every promise.
func checks() []check {
	return []check{
		{"claims are exclusive", nil, claimsAreExclusive},
		{"any order of steps", nil, anyOrderOfSteps},
		{"earliest due first", nil, earliestDueFirst},
		{"concurrency is bounded", nil, concurrencyIsBounded},
		{"lease expiry returns the job", nil, leaseExpiryReturnsTheJob},
		{"stale claim changes nothing", nil, staleClaimChangesNothing},
		{"heartbeat keeps the lease", nil, heartbeatKeepsTheLease},
		{"lost lease ends the context", nil, lostLeaseEndsTheContext},
		{"uncertain clock", nil, uncertainClock},
		{"recall", nil, recall},
		{"finish is atomic", nil, finishIsAtomic},
		{"outcome waits for the database", nil, outcomeWaitsForTheDatabase},
		{"commit without response", nil, commitWithoutResponse},
		{"clocks of nodes may differ", nil, clocksMayDiffer},
		{"lease lasts", nil, leaseLasts},
		{"times are shifted", nil, timesAreShifted},
		{"kinds of errors", nil, kindsOfErrors},
		{"systemic error", nil, systemicError},
		{"panic", nil, handlerPanics},
		{"wake and poll", nil, wakeAndPoll},
		{"release at stop", nil, releaseAtStop},
		{"drain", nil, drain},
		{"turn", nil, turnsEnd},
		{"back-off", hasAttempts, backOff},
		{"attempts are bounded", hasAttempts, attemptsAreBounded},
		{"recurring job", hasClaim, recurringJob},
		{"what a job saves starts the count of attempts again", countsAttempts, savedJobsAreNotExhausted},
		{"recovery at start", hasClaim, recoveryAtStart},
		{"lost leases are bounded", hasLost, lostLeasesAreBounded},
		{"keys take turns", hasKey, keysTakeTurns},
		{"keys have shares", hasKey, keysHaveShares},
		{"progress survives a crash", hasProgress, progressSurvives},
	}
}

func hasAttempts(t *jobs.Table) bool { return t.Attempts != "" }
func hasClaim(t *jobs.Table) bool    { return t.Claim != "" }

func countsAttempts(t *jobs.Table) bool { return t.Attempts != "" && t.Claim != "" }

func hasLost(t *jobs.Table) bool     { return t.Lost != "" && t.Claim != "" }
func hasKey(t *jobs.Table) bool      { return t.Key != "" }
func hasProgress(t *jobs.Table) bool { return t.Progress != "" }
