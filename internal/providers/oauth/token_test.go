package oauth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

// Tokens are found wherever providers put them, in any form that they send.
func TestParseToken(t *testing.T) {
	t.Parallel()
	none := map[string]string{}
	in := func(d time.Duration) time.Time { return now.Add(d) }
	type of struct {
		spec oauth.TokenSpec
		body string
		want oauth.Token
	}
	cases := map[string]of{
		"RFC 6749": {body: `{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"example","expires_in":3600,
			"refresh_token":"tGzv3JOkF0XG5Qx2TlKWIA","example_parameter":"example_value"}`,
			want: oauth.Token{Access: "2YotnFZFEjr1zCsicMWpAA", Refresh: "tGzv3JOkF0XG5Qx2TlKWIA", Type: "example",
				ExpiresAt: in(time.Hour)}},
		"form of GitHub": {body: "access_token=gho_16C7e42F292c6912E7710c838347Ae178B4a&scope=repo%2Cgist&token_type=bearer",
			want: oauth.Token{Access: "gho_16C7e42F292c6912E7710c838347Ae178B4a", Type: "bearer",
				Scopes: []string{"gist", "repo"}}},
		"form with expiry": {body: "access_token=a&expires_in=28800&refresh_token=r&scope=&token_type=bearer",
			want: oauth.Token{Access: "a", Refresh: "r", Type: "bearer", ExpiresAt: in(8 * time.Hour), Scopes: []string{}}},
		"Slack's bot": {spec: oauth.TokenSpec{SuccessWhen: &oauth.Condition{Path: "ok", Equals: "true"},
			Alternate: "authed_user.access_token", Metadata: map[string]string{"team": "team.id", "none": "team.none"}},
			body: `{"ok":true,"access_token":"xoxb-1","scope":"chat:write,users:read","token_type":"bot","team":{"id":"T1"},
				"authed_user":{"id":"U1","access_token":"xoxp-1"}}`,
			want: oauth.Token{Access: "xoxb-1", Type: "bot", Scopes: []string{"chat:write", "users:read"},
				Metadata: map[string]string{"team": "T1"}}},
		"Slack's user": {spec: oauth.TokenSpec{SuccessWhen: &oauth.Condition{Path: "/ok", Equals: "true"},
			Alternate: "authed_user.access_token"},
			body: `{"ok":true,"refresh_token":"of another","authed_user":{"id":"U1","access_token":"xoxp-1","scope":"chat:write",
				"token_type":"user","refresh_token":"xoxe-1","expires_in":43200}}`,
			want: oauth.Token{Access: "xoxp-1", Refresh: "xoxe-1", Type: "user", ExpiresAt: in(12 * time.Hour),
				Scopes: []string{"chat:write"}}},
		"alternate by pointer": {spec: oauth.TokenSpec{Alternate: "/data/0/t"},
			body: `{"data":[{"t":"a","refresh_token":"r"}],"refresh_token":"x"}`, want: oauth.Token{Access: "a", Refresh: "r"}},
		"session": {spec: oauth.TokenSpec{Access: "credentials.token", DefaultTTL: 2 * time.Hour},
			body: `{"credentials":{"token":"s"}}`, want: oauth.Token{Access: "s", ExpiresAt: in(2 * time.Hour)}},
		"array of scopes": {body: `{"access_token":"a","scope":["b","a","b",1,"c d",""]}`,
			want: oauth.Token{Access: "a", Scopes: []string{"a", "b"}}},
		"no error": {body: `{"access_token":"a","error":null,"refresh_token":null}`, want: oauth.Token{Access: "a"}},
		"no error but false": {body: `{"access_token":"a","error":false,"code":"x","refresh_token":""}`,
			want: oauth.Token{Access: "a"}},
		"empty error": {body: `{"access_token":"a","error":""}`, want: oauth.Token{Access: "a"}},
		"error that counts not": {spec: oauth.TokenSpec{SuccessWhen: &oauth.Condition{Path: "code", Equals: "0"}},
			body: `{"access_token":"a","code":0,"error":"none"}`, want: oauth.Token{Access: "a"}},
		"byte order mark": {body: "\ufeff \n{\"access_token\":\"a\"}\n", want: oauth.Token{Access: "a"}},
		"escaped names":   {body: `{"\u0061ccess_token":"a"}`, want: oauth.Token{Access: "a"}},
		"metadata": {spec: oauth.TokenSpec{Metadata: map[string]string{"text": "t", "number": "n", "flag": "f", "object": "o",
			"long": "l", "control": "c", "empty": "e"}},
			body: `{"access_token":"a","t":"https://eu.acme.test","n":12345678901234567890,"f":true,"o":{},"c":"a\u0000b",
				"e":"","l":"` + strings.Repeat("x", 1025) + `"}`,
			want: oauth.Token{Access: "a", Metadata: map[string]string{"text": "https://eu.acme.test",
				"number": "12345678901234567890", "flag": "true"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.want.Metadata == nil {
				c.want.Metadata = none
			}
			for _, contentType := range []string{"application/json", "text/html", "", "application/x-www-form-urlencoded"} {
				got, err := oauth.ParseToken(c.spec, http.StatusOK, http.Header{"Content-Type": {contentType}}, []byte(c.body), now)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
			}
		})
	}
}

// An expiry is believed only where it makes sense. Otherwise the definition's default applies.
func TestExpiry(t *testing.T) {
	t.Parallel()
	fallback := now.Add(24 * time.Hour)
	for _, c := range []struct {
		value string
		unit  oauth.Unit
		want  time.Time
	}{
		{`3600`, "", now.Add(time.Hour)}, {`"3600"`, "s", now.Add(time.Hour)}, {`3599.5`, "",
			now.Add(3599500 * time.Millisecond)},
		{`3.6e3`, "", now.Add(time.Hour)}, {`" 3600 "`, "", now.Add(time.Hour)}, {`3600000`, "ms", now.Add(time.Hour)},
		{`"2026-03-04T06:06:07Z"`, "", now.Add(time.Hour)}, {`"2026-03-04T07:06:07+01:00"`, "ms", now.Add(time.Hour)},
		{`"2026-03-04T06:06:07.000+0000"`, "", now.Add(time.Hour)}, {`"2026-03-04 06:06:07Z"`, "", now.Add(time.Hour)},
		{fmt.Sprint(now.Unix() + 60), "epoch_s", now.Add(time.Minute)},
		{fmt.Sprintf("%q", fmt.Sprint(now.UnixMilli()+1500)), "epoch_ms", now.Add(1500 * time.Millisecond)},
		{`0`, "", fallback}, {`-1`, "", fallback}, {`"-1e400"`, "", fallback}, {`"NaN"`, "", fallback}, {`"soon"`, "",
			fallback},
		{`null`, "", fallback}, {`true`, "", fallback}, {`{}`, "", fallback}, {`[]`, "", fallback}, {`""`, "", fallback},
		{`"2020-01-01T00:00:00Z"`, "", fallback}, {`60`, "epoch_s", fallback},
		{`315360001`, "", time.Time{}}, {`1e300`, "", time.Time{}}, {`1e999`, "", time.Time{}},
		{`9223372036854775807`, "ms", time.Time{}}, {`"9999-12-31T23:59:59Z"`, "", time.Time{}}, {`"inf"`, "", time.Time{}},
	} {
		spec := oauth.TokenSpec{Unit: c.unit, DefaultTTL: 24 * time.Hour}
		got, err := oauth.ParseToken(spec, 200, nil, []byte(`{"access_token":"a","expires_in":`+c.value+`}`), now)
		require.NoError(t, err)
		require.WithinDuration(t, c.want, got.ExpiresAt, time.Millisecond, c.value)
		require.Equal(t, c.want.IsZero(), got.ExpiresAt.IsZero(), c.value)
	}
	got, err := oauth.ParseToken(oauth.TokenSpec{}, 200, nil, []byte(`{"access_token":"a","expires_in":0}`), now)
	require.NoError(t, err)
	require.Zero(t, got.ExpiresAt, "without a default there is no known end")
}

// A response that cannot be read, or that is not sure to mean one thing, gives no token, and condemns nothing.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	for name, body := range map[string]string{
		"empty": "", "spaces": " \n", "page": "<!DOCTYPE html><html><body>" + secret + "</body></html>",
		"text":  "Bad Gateway",
		"array": `[{"access_token":"` + secret + `"}]`, "string": `"` + secret + `"`, "null": "null", "number": "1",
		"cut": `{"access_token":"` + secret, "two": `{"access_token":"a"}{"access_token":"b"}`,
		"after":      `{"access_token":"a"} x`,
		"twice":      `{"access_token":"a","access_token":"` + secret + `"}`,
		"twice in":   `{"access_token":"a","b":{"c":1,"c":2}}`,
		"form twice": "access_token=a&access_token=" + secret, "malformed form": "access_token=%zz",
		"semicolon": "access_token=a;b=c",
		"deep":      `{"access_token":"a","b":` + strings.Repeat("[", 33) + strings.Repeat("]", 33) + `}`,
		"very deep": strings.Repeat(`{"a":`, 100_000),
		"large":     `{"access_token":"a","b":"` + strings.Repeat("x", 1<<20) + `"}`,
		"not UTF-8": "{\"access_token\":\"a\xff\"}", "comma": `{"access_token":"a",}`,
		"no token": `{"token_type":"bearer"}`, "number token": `{"access_token":1}`, "object": `{"access_token":{}}`,
		"null token": `{"access_token":null}`, "empty token": `{"access_token":""}`,
		"token with newline": `{"access_token":"a\r\nb: c"}`, "token not ASCII": `{"access_token":"ä"}`,
		"long token":      `{"access_token":"` + strings.Repeat("x", 32<<10+1) + `"}`,
		"refresh newline": `{"access_token":"a","refresh_token":"\n"}`,
		"refresh number":  `{"access_token":"a","refresh_token":1}`,
		"form without":    "token_type=bearer",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := oauth.ParseToken(oauth.TokenSpec{}, http.StatusOK, nil, []byte(body), now)
			e := asTokenError(t, err)
			require.Equal(t, oauth.Temporary, e.Kind)
			require.Empty(t, got)
			require.NotEmpty(t, e.Description)
			require.NotContains(t, e.Error(), secret)
		})
	}
}

// What an error means for a connection. Only the grant's own errors condemn it.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	slack := oauth.TokenSpec{SuccessWhen: &oauth.Condition{Path: "ok", Equals: "true"},
		DeadWhen: []oauth.Rule{{Path: "error", In: []string{"token_revoked", "invalid_refresh_token"}}}}
	github := oauth.TokenSpec{DeadWhen: []oauth.Rule{{Path: "error", In: []string{"bad_refresh_token"}}}}
	for _, c := range []struct {
		spec   oauth.TokenSpec
		status int
		body   string
		kind   oauth.Kind
		code   string
	}{
		{status: 400, body: `{"error":"invalid_grant"}`, kind: oauth.GrantDead, code: "invalid_grant"},
		{status: 401, body: `{"error":"invalid_client"}`, kind: oauth.ClientRefused, code: "invalid_client"},
		{status: 400, body: `{"error":"unauthorized_client"}`, kind: oauth.ClientRefused, code: "unauthorized_client"},
		{status: 400, body: `{"error":"invalid_scope"}`, kind: oauth.Misconfigured, code: "invalid_scope"},
		{status: 400, body: `{"error":"unsupported_grant_type"}`, kind: oauth.Misconfigured, code: "unsupported_grant_type"},
		{status: 400, body: `{"error":"redirect_uri_mismatch"}`, kind: oauth.Misconfigured, code: "redirect_uri_mismatch"},
		{status: 400, body: `{"error":"invalid_request"}`, kind: oauth.Refused, code: "invalid_request"},
		{status: 400, body: `{"error":"temporarily_unavailable"}`, kind: oauth.Temporary, code: "temporarily_unavailable"},
		{status: 400, body: `error=invalid_grant&error_description=gone`, kind: oauth.GrantDead, code: "invalid_grant"},
		{status: 403, body: `{"error":{"code":190,"type":"OAuthException","message":"no"}}`, kind: oauth.Refused,
			code: "OAuthException"},
		{status: 403, body: `<html>`, kind: oauth.Refused},
		{status: 404, body: ``, kind: oauth.Refused},
		{status: 400, body: `{"access_token":"a"}`, kind: oauth.Refused},
		// GitHub: 200 with an error.
		{spec: github, status: 200, body: `{"error":"bad_verification_code","error_description":"x"}`, kind: oauth.Refused,
			code: "bad_verification_code"},
		{spec: github, status: 200, body: `error=bad_refresh_token`, kind: oauth.GrantDead, code: "bad_refresh_token"},
		{spec: github, status: 200, body: `{"error":"incorrect_client_credentials"}`, kind: oauth.ClientRefused,
			code: "incorrect_client_credentials"},
		{status: 200, body: `{"error":"invalid_grant","access_token":"a"}`, kind: oauth.GrantDead, code: "invalid_grant"},
		// Slack: ok is false.
		{spec: slack, status: 200, body: `{"ok":false,"error":"token_revoked"}`, kind: oauth.GrantDead,
			code: "token_revoked"},
		{spec: slack, status: 200, body: `{"ok":false,"error":"ratelimited"}`, kind: oauth.Temporary, code: "ratelimited"},
		{spec: slack, status: 200, body: `{"ok":false,"access_token":"a"}`, kind: oauth.Refused},
		{spec: slack, status: 200, body: `{"access_token":"a"}`, kind: oauth.Refused},
		// A provider that is down condemns nothing, whatever it sends.
		{spec: slack, status: 500, body: `{"error":"invalid_grant"}`, kind: oauth.Temporary, code: "invalid_grant"},
		{spec: slack, status: 503, body: `{"error":"token_revoked"}`, kind: oauth.Temporary, code: "token_revoked"},
		{status: 429, body: `{"error":"invalid_grant"}`, kind: oauth.Temporary, code: "invalid_grant"},
		{status: 408, body: ``, kind: oauth.Temporary}, {status: 425, body: `{}`, kind: oauth.Temporary},
		{status: 502, body: `<html>`, kind: oauth.Temporary},
		{spec: slack, status: 400, body: `{"error":"temporarily_unavailable"}`, kind: oauth.Temporary,
			code: "temporarily_unavailable"},
		{status: 302, body: `{"access_token":"a"}`, kind: oauth.Temporary}, {status: 304, kind: oauth.Temporary},
		{status: 100, body: `{"access_token":"a"}`, kind: oauth.Temporary}, {status: 0, kind: oauth.Temporary},
	} {
		got, err := oauth.ParseToken(c.spec, c.status, nil, []byte(c.body), now)
		e := asTokenError(t, err)
		require.Empty(t, got)
		require.Equal(t, [3]any{c.kind, c.code, c.status}, [3]any{e.Kind, e.Code, e.Status}, "%d %s", c.status, c.body)
	}
}

// A provider's wait is taken in both of its forms, and is bounded.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"": 0, "30": 30 * time.Second, " 5 ": 5 * time.Second, "-1": 0,
		"x":        0,
		"99999999": 24 * time.Hour, "99999999999999999999": 0, "1.5": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Hour).Format(http.TimeFormat): 0,
		now.Add(90 * 24 * time.Hour).Format(http.TimeFormat): 24 * time.Hour} {
		for _, body := range []string{`{"error":"slow_down"}`, ""} {
			_, err := oauth.ParseToken(oauth.TokenSpec{}, 429, http.Header{"Retry-After": {value}}, []byte(body), now)
			require.Equal(t, want, asTokenError(t, err).RetryAfter, value)
		}
	}
}

// An error can be logged and shown: what was sent is not in it, nor anything that looks like a token.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	spec := oauth.TokenSpec{Sent: []secretbox.Secret{"hunter2", "p@ss word/&"}}
	for description, want := range map[string]string{
		"The refresh token is expired.": "The refresh token is expired.",
		"token hunter2 is bad":          "token [redacted] is bad",
		"p%40ss+word%2F%26":             "[redacted]", "p@ss%20word%2F&": "[redacted]", "p@ss word/&": "[redacted]",
		"code 4/0AX4XfWh1234567890abcdef is bad":       "code [redacted] is bad",
		"id 123e4567-e89b-12d3-a456-426614174000":      "id [redacted]",
		"see https://docs.example.test/authentication": "see https://docs.example.test/authentication",
		"a\x00b\nc\u202ed":                             "a b c d",
		"AADSTS70008: expired":                         "AADSTS70008: expired",
		strings.Repeat("word ", 100):                   strings.Repeat("word ", 59) + "word…",
		strings.Repeat("a1", 200_000):                  "[redacted]",
		"":                                             "",
	} {
		_, err := oauth.ParseToken(spec, 400, nil, jsonOf(t, map[string]any{"error": "invalid_grant",
			"error_description": description}), now)
		e := asTokenError(t, err)
		require.Equal(t, want, e.Description)
		require.Equal(t, strings.TrimSuffix("the endpoint responded with 400 (invalid_grant): "+want, ": "), e.Error())
	}
	for _, code := range []string{"hunter2", "a b", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "1", strings.Repeat("x",
		65),
		"<script>", "a\nb"} {
		_, err := oauth.ParseToken(spec, 400, nil, jsonOf(t, map[string]any{"error": code}), now)
		e := asTokenError(t, err)
		require.Empty(t, e.Code)
		require.Equal(t, "the endpoint responded with 400", e.Error())
	}
}

// Nothing that a provider sends makes the parsers panic, exceed their bounds, or pass on what does not fit in a header.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"access_token":"a","expires_in":"1e9","scope":"a b","error":{"code":1}}`,
		"access_token=a&scope=b", `{"ok":false,"error":"x"}`,
		`{"a":[{"b":{"access_token":"c","refresh_token":"d"}}],"m":"x"}`,
		"\xef\xbb\xbf{\"access_token\":\"a\"}", strings.Repeat(`{"a":`, 40), "oauth_token=a&oauth_token_secret=b",
		`{"error":"invalid_grant","error_description":"\u0000 hunter2"}`} {
		for _, status := range []int{200, 302, 400, 503} {
			f.Add(status, "30", []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		const secret = "hunter2"
		header := http.Header{"Retry-After": {after}}
		spec := oauth.TokenSpec{Alternate: "a.0.b.access_token", Metadata: map[string]string{"m": "m"},
			SuccessWhen: &oauth.Condition{Path: "ok", Equals: "true"}, Sent: []secretbox.Secret{secret},
			DeadWhen: []oauth.Rule{{Path: "error", In: []string{"x"}}}}
		check := func(err error) {
			if err == nil {
				return
			}
			e := asTokenError(t, err)
			require.NotContains(t, e.Error(), secret)
			require.LessOrEqual(t, len([]rune(e.Error())), 300+64+60)
			require.NotRegexp(t, `[\x00-\x1f\x7f]`, e.Error())
			require.GreaterOrEqual(t, e.RetryAfter, time.Duration(0))
			if status >= 500 || status == 429 {
				require.Equal(t, oauth.Temporary, e.Kind)
			}
		}
		fits := func(secrets ...secretbox.Secret) {
			for _, s := range secrets {
				require.Regexp(t, `^[ -~]*$`, s.Reveal())
			}
		}
		for _, one := range []oauth.TokenSpec{spec, {Sent: spec.Sent}} {
			token, err := oauth.ParseToken(one, status, header, body, now)
			check(err)
			require.Equal(t, err == nil, token.Access != "")
			if err == nil {
				require.True(t, status >= 200 && status < 300)
				fits(token.Access, token.Refresh)
				require.True(t, token.ExpiresAt.IsZero() || token.ExpiresAt.After(now))
				require.LessOrEqual(t, len(token.Scopes), 500)
				require.NotRegexp(t, `[\x00-\x1f\x7f]`, token.Metadata["m"]+token.Type)
			}
		}
		check(oauth.ParseRevocation(oauth.RevocationSpec{SuccessWhen: spec.SuccessWhen, Sent: spec.Sent}, status, header,
			body,
			now))
		token, err := oauth.ParseOAuth1Token(oauth.OAuth1Spec{Sent: spec.Sent}, status, header, body, now)
		check(err)
		fits(token.Token, token.Secret)
	})
}
