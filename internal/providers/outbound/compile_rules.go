package outbound

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// compileRequests checks what requests have, for each mode: a definition's own headers may name only what every mode
// has.
func (c *compiler) compileRequests(d *Declaration) {
	c.userAgent, c.redirects = d.Request.UserAgent, d.Request.FollowRedirects
	if hasControl(c.userAgent) || len(c.userAgent) > maxText || strings.Contains(c.userAgent, exprOpen) {
		c.problems.add("request.user_agent", "must be one line, without templates")
	}
	switch c.redirects {
	case "":
		c.redirects = RedirectsNever
	case RedirectsNever, RedirectsReads:
	default:
		c.problems.add("request.follow_redirects", "must be never or reads")
	}
	for i, m := range c.modes {
		names, path, own := c.all(m), c.paths[i], c.declared[i].Request
		c.mode = m
		m.headers = c.headers("request.headers", d.Request.Headers, names)
		m.query = c.pairs("request.query", d.Request.Query, names, c.public())
		m.headers = override(m.headers, c.headers(path+".request.headers", own.Headers, names))
		m.query = override(m.query, c.pairs(path+".request.query", own.Query, names, c.public()))
		c.addUsual(m, path)
		for _, p := range m.headers {
			if text, ok := p.name.literal(); ok && !p.constant() {
				c.ownHeaders[http.CanonicalHeaderKey(text)] = true
			}
		}
		for _, p := range m.query {
			if text, ok := p.name.literal(); ok && !p.constant() {
				c.ownQuery[text] = true
			}
		}
	}
	c.mode = nil
}

// override adds pairs to others; those of the same name replace them.
func override(pairs, own []pair) []pair {
	out := slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool {
		text, ok := p.name.literal()
		return ok && slices.ContainsFunc(own, func(o pair) bool {
			name, ok := o.name.literal()
			return ok && http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(text)
		})
	})
	return append(out, own...)
}

// addUsual adds the usual header of a mode for which the definition names no place for its credentials.
func (c *compiler) addUsual(m *Mode, path string) {
	for _, p := range slices.Concat(m.headers, m.query) {
		if slices.ContainsFunc(p.value.names(), func(n name) bool { return n.space == spaceCred }) {
			return
		}
	}
	value := ""
	switch m.Kind {
	case APIKey:
		c.problems.add(path+".request", "must say where the API key goes: a header or a parameter with ${cred.api_key}")
	case Basic:
		value = "Basic ${basic(cred.username, cred.password)}"
	case Bearer:
		value = "Bearer ${cred.token}"
	case OAuth2, ClientCredentials, JWTBearer, ServiceAccount, GitHubApp, SessionToken:
		value = "Bearer ${cred." + AccessToken + "}"
	case None, OAuth1, AWSSigV4, HMAC:
		return
	}
	if value == "" {
		return
	}
	t, err := parseTemplate(value)
	if err != nil {
		c.problems.add(path+".request", "%s", err)
		return
	}
	m.headers = append(m.headers, pair{name: &template{parts: []part{{literal: "Authorization"}}}, value: t,
		field: path + ".request.headers.Authorization"})
}

func (c *compiler) compileLimits(d *RateLimit) {
	c.judge.retry = statusSet{429: true, 502: true, 503: true, 504: true}
	c.judge.waits = []waitRule{{header: "Retry-After", kind: WaitSecondsOrDate}}
	if d == nil {
		return
	}
	if len(d.RetryStatuses) > 0 {
		c.judge.retry = compileStatuses("rate_limit.retry_statuses", d.RetryStatuses, &c.problems)
	}
	c.judge.limited = compileConditions("rate_limit.limited_when", d.LimitedWhen, &c.problems)
	if len(d.Wait) > 0 {
		c.judge.waits = nil
	}
	for i, w := range d.Wait {
		c.checkWait(at("rate_limit.wait", i), w.Header, w.Kind)
		c.judge.waits = append(c.judge.waits, waitRule{header: w.Header, kind: w.Kind,
			when: compileCondition(at("rate_limit.wait", i)+".when", w.When, &c.problems)})
	}
	c.judge.minWait = c.duration("rate_limit.min_wait", d.MinWait, 0)
	c.limits.MaxWait = c.duration("rate_limit.max_wait", d.MaxWait, 0)
	if c.judge.minWait > maxWait || c.limits.MaxWait > maxWait || len(d.Wait) > maxEntries {
		c.problems.add("rate_limit", "has a wait of more than 24h, or too many of them")
	}
	for i, b := range d.Budget {
		path := at("rate_limit.budget", i)
		out := BudgetRule{Limit: b.Limit, Per: c.duration(path+".per", b.Per, 0), Scope: b.Scope}
		if out.Scope == "" {
			out.Scope = ScopeConnection
		}
		if b.Limit < 1 || b.Limit > 1_000_000_000 || b.Per == "" {
			c.problems.add(path, "needs a limit of at least 1, and a time in per")
		}
		if !slices.Contains([]BudgetScope{ScopeConnection, ScopeClient, ScopeEnvironment}, out.Scope) {
			c.problems.add(path+".scope", "must be connection, client or environment")
		}
		c.limits.Budgets = append(c.limits.Budgets, out)
	}
	for i, l := range d.Learn {
		path := at("rate_limit.learn", i)
		if l.Remaining == "" {
			c.problems.add(path+".remaining", "is needed")
		}
		for what, text := range map[string]string{"limit": l.Limit, "remaining": l.Remaining} {
			if text != "" && !headerName.MatchString(text) {
				c.problems.add(path+"."+what, "must be the name of a header")
			}
		}
		if l.Reset != "" || l.ResetKind != "" {
			c.checkWait(path+".reset", l.Reset, l.ResetKind)
		}
		c.limits.learn = append(c.limits.learn, learnRule{Learn: l,
			when: compileCondition(path+".when", l.When, &c.problems)})
	}
}

func (c *compiler) checkWait(path, header string, kind WaitKind) {
	if !headerName.MatchString(header) {
		c.problems.add(path, "must name a header")
	}
	if !slices.Contains([]WaitKind{WaitSecondsOrDate, WaitSeconds, WaitMillis, WaitDuration, WaitEpochSeconds,
		WaitEpochMillis, WaitRFC3339}, kind) {
		c.problems.add(path, "must have a kind of seconds_or_date, seconds, milliseconds, duration, epoch_s, epoch_ms or "+
			"rfc3339")
	}
}

func (c *compiler) compileErrors(d *Errors) {
	c.judge.authFailed = []Test{{status: statusSet{401: true}}}
	if d == nil {
		return
	}
	c.judge.success = compileCondition("errors.success_when", d.SuccessWhen, &c.problems)
	if len(d.AuthFailedWhen) > 0 {
		c.judge.authFailed = compileConditions("errors.auth_failed_when", d.AuthFailedWhen, &c.problems)
	}
	c.judge.scopeMissing = compileConditions("errors.scope_missing_when", d.ScopeMissingWhen, &c.problems)
	for i, text := range d.Message {
		if p := compilePointer(at("errors.message", i), text, &c.problems); p != nil {
			c.judge.messages = append(c.judge.messages, p)
		}
	}
	if c.judge.requestID = d.RequestIDHeader; d.RequestIDHeader != "" && !headerName.MatchString(d.RequestIDHeader) {
		c.problems.add("errors.request_id_header", "must be the name of a header")
	}
}

var durationForm = regexp.MustCompile(`^([1-9][0-9]{0,6})(ms|s|m|h|d)$`)

// duration reads a time such as 90s or 24h.
func (c *compiler) duration(field, text string, usual time.Duration) time.Duration {
	if text == "" {
		return usual
	}
	m := durationForm.FindStringSubmatch(text)
	if m == nil {
		c.problems.add(field, "must be a time such as 500ms, 30s, 15m, 24h or 90d")
		return usual
	}
	n, err := strconv.Atoi(m[1])
	unit := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[m[2]]
	if err != nil || time.Duration(n) > maxLifetime/unit {
		c.problems.add(field, "must be at most 400d")
		return usual
	}
	return time.Duration(n) * unit
}
