package outbound_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

const judged = `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth: [{mode: bearer}, {mode: none}]
connection_config: {cloud: {title: Cloud, source: probe, pattern: "[a-z]+", example: eu}}
health:
  probes:
    - {path: "/me?${now}=1", ok: [200, 403], account: {id: /id, label: /names/0}, config: {cloud: /cloud}, modes: [bearer]}
    - {method: POST, path: /ping, body: '{"a":1}'}
rate_limit:
  limited_when:
    - {status: 403, header: x-remaining, equals: "0"}
    - {body: /error/code, in: [slow_down, busy]}
    - {status: [418, 5xx], body: /error/text, contains: Too Many}
  wait:
    - {header: retry-after, kind: seconds_or_date}
    - {header: x-ms, kind: milliseconds}
    - {header: x-seconds, kind: seconds}
    - {header: x-reset, kind: epoch_s, when: {header: x-remaining, equals: "0"}}
    - {header: x-reset-ms, kind: epoch_ms}
    - {header: x-at, kind: rfc3339}
  min_wait: 7s
  max_wait: 60s
  budget: [{limit: 100, per: 1m}, {limit: 5, per: 1s, scope: client}]
  learn:
    - {limit: x-limit, remaining: x-remaining, reset: x-reset, reset_kind: epoch_s, when: {header: x-kind, equals: core}}
errors:
  success_when: {body: /ok, equals: true}
  message: [/error/text, /message]
  request_id_header: x-request-id
  auth_failed_when: [{status: 401}, {body: /error/code, equals: bad_token}]
  scope_missing_when: [{body: /error/code, equals: no_scope}, {status: 401, body: /scope, absent: true}]
`

func response(status int, body string, pairs ...string) outbound.Response {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h.Set(pair[0], pair[1])
	}
	return outbound.Response{Status: status, Header: h, Body: []byte(body)}
}

// A response means what the definition says, also one that says 200 and fails.
func TestJudge(t *testing.T) {
	t.Parallel()
	e := compile(t, judged)
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(http.TimeFormat) }
	tests := map[string]struct {
		r    outbound.Response
		want outbound.Verdict
	}{
		"success":              {response(200, `{"ok":true}`, "X-Request-Id", "r1"), outbound.Verdict{OK: true, RequestID: "r1"}},
		"redirect":             {response(302, ``), outbound.Verdict{OK: true}},
		"200 that fails":       {response(200, `{"ok":false,"message":"no"}`), outbound.Verdict{Message: "no"}},
		"200 of a page":        {response(200, `<html>`), outbound.Verdict{}},
		"200 cut":              {response(200, `{"ok":true`), outbound.Verdict{}},
		"200 with a text":      {response(200, `{"ok":"true"}`), outbound.Verdict{OK: true}},
		"refused":              {response(401, `{"scope":"x"}`), outbound.Verdict{AuthFailed: true}},
		"refused by body":      {response(200, `{"ok":false,"error":{"code":"bad_token","text":"t"}}`), outbound.Verdict{AuthFailed: true, Message: "t"}},
		"scope":                {response(403, `{"error":{"code":"no_scope"}}`), outbound.Verdict{ScopeMissing: true}},
		"scope before refused": {response(401, `{}`), outbound.Verdict{ScopeMissing: true}},
		"not found":            {response(404, `{"message":"nothing"}`), outbound.Verdict{Message: "nothing"}},
		"gateway":              {response(503, ``), outbound.Verdict{Retryable: true}},
		"429":                  {response(429, ``), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"429 is not refused":   {response(429, `{"error":{"code":"bad_token"}}`, "Retry-After", "1"), outbound.Verdict{Limited: true, Retryable: true, Wait: time.Second}},
		"by header":            {response(403, ``, "X-Remaining", "0"), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"no header":            {response(403, ``), outbound.Verdict{}},
		"by body":              {response(200, `{"ok":false,"error":{"code":"busy"}}`), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"by text":              {response(502, `{"error":{"text":"TOO many calls"}}`), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second, Message: "TOO many calls"}},
		"date":                 {response(429, ``, "Retry-After", at(90*time.Second)), outbound.Verdict{Limited: true, Retryable: true, Wait: 90 * time.Second}},
		"date over":            {response(429, ``, "Retry-After", at(-time.Hour)), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"503 waits":            {response(503, ``, "Retry-After", "120"), outbound.Verdict{Retryable: true, Wait: 2 * time.Minute}},
		"milliseconds":         {response(429, ``, "X-Ms", "1500"), outbound.Verdict{Limited: true, Retryable: true, Wait: 1500 * time.Millisecond}},
		"fraction":             {response(429, ``, "X-Seconds", "0.25"), outbound.Verdict{Limited: true, Retryable: true, Wait: 250 * time.Millisecond}},
		"epoch":                {response(429, ``, "X-Remaining", "0", "X-Reset", "1772600797"), outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second}},
		"epoch not meant":      {response(429, ``, "X-Remaining", "5", "X-Reset", "1772600797"), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"epoch in ms":          {response(429, ``, "X-Reset-Ms", "1772600797000"), outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second}},
		"rfc3339":              {response(429, ``, "X-At", "2026-03-04T05:06:17Z"), outbound.Verdict{Limited: true, Retryable: true, Wait: 10 * time.Second}},
		"first of two":         {response(429, ``, "Retry-After", "x", "X-Ms", "1"), outbound.Verdict{Limited: true, Retryable: true, Wait: time.Millisecond}},
		"absurd":               {response(429, ``, "Retry-After", "99999999999999999999"), outbound.Verdict{Limited: true, Retryable: true, Wait: 24 * time.Hour}},
		"negative":             {response(429, ``, "Retry-After", "-5"), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"not a number":         {response(429, ``, "Retry-After", "NaN"), outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"infinite":             {response(429, ``, "Retry-After", "Inf"), outbound.Verdict{Limited: true, Retryable: true, Wait: 24 * time.Hour}},
		"epoch of milliseconds where seconds are declared": {response(429, ``, "X-Remaining", "0", "X-Reset", "1772600797000"),
			outbound.Verdict{Limited: true, Retryable: true, Wait: 7 * time.Second}},
		"message is a line": {response(400, `{"message":"a\u0000\u001b[31m\r\nb\u202e"}`), outbound.Verdict{Message: "a[31m  b"}},
		"long message":      {response(400, `{"message":"`+strings.Repeat("é", 600)+`"}`), outbound.Verdict{Message: strings.Repeat("é", 250)}},
		"message no text":   {response(400, `{"error":{"text":{}},"message":7}`), outbound.Verdict{Message: "7"}},
		"too large":         {response(200, `{"ok":true,"a":"`+strings.Repeat("a", 1<<20)+`"}`), outbound.Verdict{}},
		"status of nothing": {outbound.Response{}, outbound.Verdict{}},
	}
	for name, tt := range tests {
		require.Equal(t, tt.want, e.Judge(tt.r, now), name)
	}
}

// Without rules a status of 401 refuses credentials, 429 limits, and Retry-After says how long.
func TestJudgeByConvention(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	require.Equal(t, outbound.Verdict{OK: true}, e.Judge(response(204, ``), now))
	require.Equal(t, outbound.Verdict{AuthFailed: true}, e.Judge(response(401, ``), now))
	require.Equal(t, outbound.Verdict{}, e.Judge(response(403, ``), now))
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: 3 * time.Second},
		e.Judge(response(429, ``, "Retry-After", "3"), now))
	require.Empty(t, e.Limits().Budgets)
	require.Empty(t, e.Limits().Learn(response(200, ``, "X-Remaining", "3"), now))
	require.Empty(t, e.Probes(""))
}

// Limits are learned from the headers that belong to them, and from numbers only.
func TestLimits(t *testing.T) {
	t.Parallel()
	l := compile(t, judged).Limits()
	require.Equal(t, time.Minute, l.MaxWait)
	require.Equal(t, []outbound.BudgetRule{{Limit: 100, Per: time.Minute, Scope: outbound.ScopeConnection},
		{Limit: 5, Per: time.Second, Scope: outbound.ScopeClient}}, l.Budgets)
	require.Equal(t, []outbound.Learned{{Limit: 60, Remaining: 3, Reset: 30 * time.Second}}, l.Learn(response(200, ``,
		"X-Kind", "core", "X-Limit", "60", "X-Remaining", "3", "X-Reset", "1772600797"), now))
	require.Equal(t, []outbound.Learned{{Remaining: 0}}, l.Learn(response(200, ``, "X-Kind", "core", "X-Limit", "-1",
		"X-Remaining", "0", "X-Reset", "1"), now))
	for _, pairs := range [][]string{{"X-Remaining", "3"}, {"X-Kind", "search", "X-Remaining", "3"}, {"X-Kind", "core"},
		{"X-Kind", "core", "X-Remaining", "-1"}, {"X-Kind", "core", "X-Remaining", "99999999999"}, {"X-Kind", "core", "X-Remaining", "many"}} {
		require.Empty(t, l.Learn(response(200, ``, pairs...), now), "%v", pairs)
	}
}

// A probe has its statuses, and finds the account and values of connection_config that their fields accept.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := compile(t, judged)
	require.Len(t, e.Probes("none"), 1)
	require.Empty(t, e.Probes("unknown"))
	probes := e.Probes("bearer")
	require.Len(t, probes, 2)
	v := outbound.Values{Credentials: credentials("token", "T"), Now: now}
	req, err := e.PrepareProbe(t.Context(), probes[0], v)
	require.NoError(t, err)
	require.Equal(t, "GET https://api.acme.com/me?1772600767=1", req.Method+" "+req.URL.String())
	require.Equal(t, "Bearer T", req.Header.Get("Authorization"))
	require.Equal(t, "GET /me?${now}=1", probes[0].String())
	req, err = e.PrepareProbe(t.Context(), probes[1], v)
	require.NoError(t, err)
	require.Equal(t, "POST https://api.acme.com/ping", req.Method+" "+req.URL.String())
	require.Equal(t, "application/json", req.Header.Get("Content-Type"))
	require.Equal(t, int64(7), req.ContentLength)

	verdict, account, values := e.JudgeProbe(probes[0], nil, response(200, `{"ok":true,"id":7,"names":["A\nB"],"cloud":"eu"}`), now)
	require.True(t, verdict.OK)
	require.Equal(t, outbound.Account{ID: "7", Label: "A B"}, account)
	require.Equal(t, map[string]string{"cloud": "eu"}, values)
	verdict, account, values = e.JudgeProbe(probes[0], nil, response(200, `{"ok":true,"id":{},"cloud":"e/u#"}`), now)
	require.True(t, verdict.OK)
	require.Equal(t, outbound.Account{}, account)
	require.Empty(t, values)
	for body, want := range map[string]bool{`{"ok":true}`: true, `{"ok":false}`: false, `<html>`: false} {
		verdict, _, _ = e.JudgeProbe(probes[0], nil, response(200, body), now)
		require.Equal(t, want, verdict.OK, body)
	}
	for status, want := range map[int]bool{403: true, 204: false, 401: false, 500: false, 429: false} {
		verdict, _, _ = e.JudgeProbe(probes[0], nil, response(status, `{"scope":1}`), now)
		require.Equal(t, want, verdict.OK, status)
	}
}
