package outbound

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sallyport/internal/providers/verification"
)

// judgement are the compiled rules of errors and rate_limit.
type judgement struct {
	success      *Test
	authFailed   []Test
	scopeMissing []Test
	limited      []Test
	retry        statusSet
	waits        []waitRule
	minWait      time.Duration
	messages     []*verification.Pointer
	requestID    string
}

// waitRule is a compiled Wait.
type waitRule struct {
	header string
	kind   WaitKind
	when   *Test
}

// Verdict is what a response means.
type Verdict struct {
	// OK is true for a status of 2xx or 3xx whose body does not say otherwise.
	OK bool
	// AuthFailed is true if the credentials are refused, ScopeMissing if they are accepted and do not suffice. Only one of
	// them is.
	AuthFailed, ScopeMissing bool
	// Limited is true if the provider did nothing because of a limit. Wait is how long to wait, between 0, where nothing
	// is known, and a day.
	Limited bool
	Wait    time.Duration
	// Retryable is true if a later attempt may succeed.
	Retryable bool
	// Message is the provider's, printable and of at most 500 bytes; empty without one.
	Message string
	// RequestID is the provider's id of the request, printable and of at most 200 bytes.
	RequestID string
}

// Judge says what a response means. It reads nothing of a body over 1 MiB.
func (e *Engine) Judge(r Response, now time.Time) Verdict {
	j := &e.judge
	v := Verdict{OK: r.Status >= 200 && r.Status < 400, RequestID: clean(r.Header.Get(j.requestID), maxRequestID)}
	if r.Status/100 == 2 && j.success != nil && !j.success.Holds(&r) {
		v.OK = false
	}
	v.Limited = !v.OK && (r.Status == http.StatusTooManyRequests || holdsAny(j.limited, &r))
	if !v.OK && !v.Limited {
		v.ScopeMissing = holdsAny(j.scopeMissing, &r)
		v.AuthFailed = !v.ScopeMissing && holdsAny(j.authFailed, &r)
	}
	v.Retryable = v.Limited || !v.OK && j.retry.has(r.Status)
	if v.Retryable {
		v.Wait = e.wait(&r, now)
		if v.Limited && v.Wait == 0 {
			v.Wait = j.minWait
		}
	}
	if v.OK {
		return v
	}
	for _, p := range j.messages {
		if text, found := r.text(p); found && text != "" {
			v.Message = clean(text, maxMessage)
			break
		}
	}
	return v
}

// wait returns the time of the first header that has one.
func (e *Engine) wait(r *Response, now time.Time) time.Duration {
	for _, w := range e.judge.waits {
		if w.when != nil && !w.when.Holds(r) {
			continue
		}
		if d, ok := readWait(r.Header.Get(w.header), w.kind, now); ok {
			return min(max(d, 0), maxWait)
		}
	}
	return 0
}

// readWait reads a time from now on. It may be in the past.
func readWait(text string, kind WaitKind, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 64 {
		return 0, false
	}
	switch kind {
	case WaitSecondsOrDate:
		if t, err := http.ParseTime(text); err == nil {
			return t.Sub(now), true
		}
		return readNumber(text, time.Second)
	case WaitSeconds:
		return readNumber(text, time.Second)
	case WaitMillis:
		return readNumber(text, time.Millisecond)
	case WaitEpochSeconds, WaitEpochMillis:
		unit := time.Second
		if kind == WaitEpochMillis {
			unit = time.Millisecond
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 0 || n > maxEpoch*float64(time.Second/unit) {
			return 0, false
		}
		return time.Unix(0, 0).Add(time.Duration(n * float64(unit))).Sub(now), true
	case WaitDuration:
		return readDuration(text)
	case WaitRFC3339:
		t, err := time.Parse(time.RFC3339, text)
		return t.Sub(now), err == nil
	default:
		return 0, false
	}
}

// maxEpoch is the last second since 1970 that is read as a time: in the year 2200.
const maxEpoch = 7258118400

var durationText = regexp.MustCompile(
	`^(?:(\d{1,4})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9}(?:\.\d{1,9})?)ms)?$`)

// readDuration reads numbers with units in their order, such as 6m0s, 1.5s or 120ms. It limits them to maxWait.
func readDuration(text string) (time.Duration, bool) {
	groups := durationText.FindStringSubmatch(text)
	if groups == nil || text == "" {
		return 0, false
	}
	var total time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second, time.Millisecond} {
		if groups[i+1] == "" {
			continue
		}
		d, ok := readNumber(groups[i+1], unit)
		if !ok {
			return 0, false
		}
		total += d
	}
	return min(total, maxWait), true
}

func readNumber(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != n || n < 0 {
		return 0, false
	}
	if n >= float64(maxWait/unit) {
		return maxWait, true
	}
	return time.Duration(math.Round(n * float64(unit))), true
}

// clean makes foreign text fit a line.
func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return -1
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return -1
		}
	}, s))
}

// Limits are the provider's limits as the definition has them.
type Limits struct {
	Budgets []BudgetRule
	// MaxWait is the longest wait that a request waits out; 0 if the definition names none.
	MaxWait time.Duration

	learn []learnRule
}

// learnRule is a compiled Learn.
type learnRule struct {
	Learn
	when *Test
}

// BudgetRule is a compiled Budget.
type BudgetRule struct {
	Limit int
	Per   time.Duration
	Scope BudgetScope
}

// Limits returns the limits that the definition names.
func (e *Engine) Limits() Limits { return e.limits }

// Learned is what a response says about one limit.
type Learned struct {
	// Limit is the number of requests of the whole window; 0 if it is not known.
	Limit int
	// Remaining is the number of requests that are left.
	Remaining int
	// Reset is the time to the end of the window, at most a day; 0 if it is not known or over.
	Reset time.Duration
}

// Learn returns what a response says about limits, in the order of the definition. Headers that make no sense are
// ignored.
func (l Limits) Learn(r Response, now time.Time) []Learned {
	var out []Learned
	header := r.Header
	for _, rule := range l.learn {
		remaining, ok := readCount(header.Get(rule.Remaining))
		if !ok || rule.when != nil && !rule.when.Holds(&r) {
			continue
		}
		one := Learned{Remaining: remaining}
		one.Limit, _ = readCount(header.Get(rule.Limit))
		if d, ok := readWait(header.Get(rule.Reset), rule.ResetKind, now); ok {
			one.Reset = min(max(d, 0), maxWait)
		}
		out = append(out, one)
	}
	return out
}

func readCount(text string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > 1_000_000_000 {
		return 0, false
	}
	return n, true
}
