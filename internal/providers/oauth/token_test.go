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
			want: oauth.Token{Access: "a", Refresh: "r", Type: "bearer", ExpiresAt: in(8 * time.Hour)}},
		"Slack's bot": {spec: oauth.TokenSpec{SuccessWhen: oauth.BodyIs("ok", "true"),
			Alternate: "authed_user.access_token", Metadata: map[string]string{"team": "team.id", "none": "team.none"}},
			body: `{"ok":true,"access_token":"xoxb-1","scope":"chat:write,users:read","token_type":"bot","team":{"id":"T1"},
				"authed_user":{"id":"U1","access_token":"xoxp-1"}}`,
			want: oauth.Token{Access: "xoxb-1", Type: "bot", Scopes: []string{"chat:write", "users:read"},
				Metadata: map[string]string{"team": "T1"}}},
		"Slack's user": {spec: oauth.TokenSpec{SuccessWhen: oauth.BodyIs("/ok", "true"),
			Alternate: "authed_user.access_token"},
			body: `{"ok":true,"refresh_token":"of another","authed_user":{"id":"U1","access_token":"xoxp-1","scope":"chat:write",
				"token_type":"user","refresh_token":"xoxe-1","expires_in":43200}}`,
			want: oauth.Token{Access: "xoxp-1", Refresh: "xoxe-1", Type: "user", ExpiresAt: in(12 * time.Hour),
				Scopes: []string{"chat:write"}}},
		"alternate by pointer": {spec: oauth.TokenSpec{Alternate: "/data/0/t"},
			body: `{"data":[{"t":"a","refresh_token":"r"}],"refresh_token":"x"}`, want: oauth.Token{Access: "a", Refresh: "r"}},
		"session": {spec: oauth.TokenSpec{Access: "credentials.token", DefaultTTL: 2 * time.Hour},
			body: `{"credentials":{"token":"s"}}`, want: oauth.Token{Access: "s", ExpiresAt: in(2 * time.Hour)}},
		"many scopes": {body: `{"access_token":"a","scope":"` + strings.Join(numbered(501), ",") + `"}`,
			want: oauth.Token{Access: "a", Scopes: numbered(500)}},
		"array of scopes": {body: `{"access_token":"a","scope":["b","a","b",1,"c d",""]}`,
			want: oauth.Token{Access: "a", Scopes: []string{"a", "b"}}},
		"no error": {body: `{"access_token":"a","error":null,"refresh_token":null}`, want: oauth.Token{Access: "a"}},
		"no error but false": {body: `{"access_token":"a","error":false,"code":"x","refresh_token":""}`,
			want: oauth.Token{Access: "a"}},
		"empty error": {body: `{"access_token":"a","error":""}`, want: oauth.Token{Access: "a"}},
		"error that counts not": {spec: oauth.TokenSpec{SuccessWhen: oauth.BodyIs("code", "0")},
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

// numbered returns scopes in their order.
func numbered(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("s%03d", i))
	}
	return out
}

// An expiry is believed only where it makes sense. Otherwise the definition's default applies.
func TestExpiry(t *testing.T) {
	t.Parallel()
	fallback := now.Add(24 * time.Hour)
	const in, at = "expires_in", "expires_at"
	for _, c := range []struct {
		place, value string
		unit         time.Duration
		want         time.Time
	}{
		{in, `3600`, 0, now.Add(time.Hour)}, {in, `"3600"`, time.Second, now.Add(time.Hour)},
		{in, `3599.5`, 0, now.Add(3599500 * time.Millisecond)}, {in, `3.6e3`, 0, now.Add(time.Hour)},
		{in, `" 3600 "`, 0, now.Add(time.Hour)}, {in, `3600000`, time.Millisecond, now.Add(time.Hour)},
		{in, `"2026-03-04T06:06:07Z"`, 0, now.Add(time.Hour)},
		{at, `"2026-03-04T07:06:07+01:00"`, time.Millisecond, now.Add(time.Hour)},
		{at, `"2026-03-04T06:06:07.000+0000"`, 0, now.Add(time.Hour)},
		{at, `"2026-03-04 06:06:07Z"`, 0, now.Add(time.Hour)},
		{at, fmt.Sprint(now.Unix() + 60), 0, now.Add(time.Minute)},
		{at, fmt.Sprintf("%q", fmt.Sprint(now.UnixMilli()+1500)), 0, now.Add(1500 * time.Millisecond)},
		{in, `0`, 0, fallback}, {in, `-1`, 0, fallback}, {in, `"-1e400"`, 0, fallback}, {in, `"NaN"`, 0, fallback},
		{in, `"soon"`, 0, fallback}, {in, `null`, 0, fallback}, {in, `true`, 0, fallback}, {in, `{}`, 0, fallback},
		{in, `[]`, 0, fallback}, {in, `""`, 0, fallback}, {at, `"2020-01-01T00:00:00Z"`, 0, fallback},
		{at, `60`, 0, fallback}, {at, `{}`, 0, fallback}, {at, `-1`, 0, fallback},
		{in, `315360001`, 0, time.Time{}}, {in, `1e300`, 0, time.Time{}}, {in, `1e999`, 0, time.Time{}},
		{in, `9223372036854775807`, time.Millisecond, time.Time{}}, {at, `"9999-12-31T23:59:59Z"`, 0, time.Time{}},
		{in, `"inf"`, 0, time.Time{}}, {at, `9e18`, 0, time.Time{}},
	} {
		spec := oauth.TokenSpec{Unit: c.unit, ExpiresAt: at, DefaultTTL: 24 * time.Hour}
		got, err := oauth.ParseToken(spec, 200, nil, []byte(`{"access_token":"a","`+c.place+`":`+c.value+`}`), now)
		require.NoError(t, err)
		require.WithinDuration(t, c.want, got.ExpiresAt, time.Millisecond, c.value)
		require.Equal(t, c.want.IsZero(), got.ExpiresAt.IsZero(), c.value)
	}
	got, err := oauth.ParseToken(oauth.TokenSpec{}, 200, nil, []byte(`{"access_token":"a","expires_in":0}`), now)
	require.NoError(t, err)
	require.Zero(t, got.ExpiresAt, "without a default there is no known end")
	got, err = oauth.ParseToken(oauth.TokenSpec{ExpiresAt: at}, 200, nil, []byte(`{"access_token":"a","expires_in":60}`),
		now)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Minute), got.ExpiresAt, "the other place is read too")
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
		"mac token":       `{"access_token":"a","token_type":"MAC"}`,
		"dpop token":      `{"access_token":"a","token_type":"DPoP"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := oauth.ParseToken(oauth.TokenSpec{}, http.StatusOK, nil, []byte(body), now)
			e := asTokenError(t, err)
			require.Equal(t, oauth.Temporary, e.Kind)
			require.Empty(t, got)
			require.NotEmpty(t, e.Description)
			require.Equal(t, name == "large", strings.Contains(e.Description, "mebibyte"))
			require.NotContains(t, e.Error(), secret)
		})
	}
}

// Each error has one meaning for a connection. Only those of the grant itself condemn it.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	slack := oauth.TokenSpec{SuccessWhen: oauth.BodyIs("ok", "true"),
		DeadWhen: []oauth.Test{oauth.BodyIs("error", "token_revoked", "invalid_refresh_token")}}
	github := oauth.TokenSpec{DeadWhen: []oauth.Test{oauth.BodyIs("error", "bad_refresh_token")}}
	byStatus := oauth.TokenSpec{DeadWhen: []oauth.Test{func(status int, _ http.Header, _ []byte) bool {
		return status == http.StatusUnauthorized
	}}}
	statuses := oauth.TokenSpec{DeadStatuses: []int{404}, ClientStatuses: []int{401}}
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
		{spec: oauth.TokenSpec{DeadWhen: []oauth.Test{oauth.BodyIs("state", "gone")}}, status: 200,
			body: `{"state":"gone","access_token":"a"}`, kind: oauth.GrantDead},
		// A definition that looks at the status.
		{spec: byStatus, status: 401, body: `Unauthenticated`, kind: oauth.GrantDead},
		{spec: byStatus, status: 401, body: `{"error":"slow_down"}`, kind: oauth.Temporary, code: "slow_down"},
		{spec: statuses, status: 404, body: `x`, kind: oauth.GrantDead},
		{spec: statuses, status: 404, body: `{"error":"invalid_scope"}`, kind: oauth.Misconfigured, code: "invalid_scope"},
		{spec: statuses, status: 401, body: `{}`, kind: oauth.ClientRefused},
		// Slack: ok is false.
		{spec: slack, status: 200, body: `{"ok":false,"error":"token_revoked"}`, kind: oauth.GrantDead,
			code: "token_revoked"},
		{spec: slack, status: 200, body: `{"ok":false,"error":"ratelimited"}`, kind: oauth.Temporary, code: "ratelimited"},
		{spec: slack, status: 200, body: `{"ok":false,"access_token":"a"}`, kind: oauth.Refused},
		{spec: slack, status: 200, body: `{"access_token":"a"}`, kind: oauth.Refused},
		// A provider that is down condemns nothing, with any body.
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

// A definition's tests do not see a body over the limit, and a text that is not UTF-8 has no values.
func TestJudgedBodies(t *testing.T) {
	t.Parallel()
	always := func(int, http.Header, []byte) bool { return true }
	for _, size := range []int{1 << 20, 1<<20 + 1} {
		_, err := oauth.ParseToken(oauth.TokenSpec{DeadWhen: []oauth.Test{always}}, 400, nil, make([]byte, size), now)
		require.Equal(t, size == 1<<20, asTokenError(t, err).Kind == oauth.GrantDead)
	}
	require.True(t, oauth.BodyIs("/a~1b/0", "1", "true")(200, nil, []byte(`{"a/b":[true]}`)))
	require.False(t, oauth.BodyIs("a", "b")(200, nil, []byte("{\"a\":\"b\",\"c\":\"\xff\"}")))
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
			SuccessWhen: oauth.BodyIs("ok", "true"), Sent: []secretbox.Secret{secret},
			DeadWhen: []oauth.Test{oauth.BodyIs("error", "x")}}
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
