package registry_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// Requests to AWS are signed for the service and region of the connection, and only to their host.
func TestAWSRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "aws", "aws_sigv4", []string{"region", "eu-central-1"}, []string{"access_key_id", "AKIAIOSFODNN7EXAMPLE",
		"secret_access_key", "s", "session_token", "temporary"})
	req := r.send(t, outbound.Outgoing{Method: "GET", Path: "/bucket/a%20b//c"})
	require.Equal(t, "GET https://s3.eu-central-1.amazonaws.com/bucket/a%20b//c", target(req))
	require.Contains(t, req.Header.Get("Authorization"), "Credential=AKIAIOSFODNN7EXAMPLE/20260304/eu-central-1/s3/aws4_request")
	require.Equal(t, "temporary", req.Header.Get("X-Amz-Security-Token"))
	require.NotEmpty(t, req.Header.Get("X-Amz-Content-Sha256"))
	req = r.send(t, outbound.Outgoing{Method: "PUT", Path: "/bucket/b", Header: http.Header{"X-Amz-Copy-Source": {"bucket/a"}}})
	require.Contains(t, req.Header.Get("Authorization"), ";x-amz-copy-source;", "S3 requires that the source is signed")
	require.Equal(t, []string{"s3.eu-central-1.amazonaws.com", "sts.eu-central-1.amazonaws.com"}, r.hosts(t))
	req, v, account := r.probe(t, 200, `{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"123456789012",`+
		`"Arn":"arn:aws:iam::123456789012:user/gateway","UserId":"AIDAJ"},"ResponseMetadata":{"RequestId":"r"}}}`)
	require.Equal(t, "GET https://sts.eu-central-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15", target(req))
	require.Equal(t, "application/json", req.Header.Get("Accept"))
	require.Contains(t, req.Header.Get("Authorization"), "/20260304/eu-central-1/sts/aws4_request")
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "123456789012", Label: "arn:aws:iam::123456789012:user/gateway"}, account)

	r = requests(t, "aws", "aws_sigv4", []string{"service", "sts"}, []string{"access_key_id", "AKIAIOSFODNN7EXAMPLE",
		"secret_access_key", "s"})
	req = r.send(t, outbound.Outgoing{Method: "GET", Path: "/", Query: map[string][]string{"Action": {"GetCallerIdentity"},
		"Version": {"2011-06-15"}}})
	require.Equal(t, "GET https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15", target(req))
	require.Contains(t, req.Header.Get("Authorization"), "/us-east-1/sts/aws4_request")
	for field, value := range map[string]string{"service": "evil", "region": "us-east-1.evil"} {
		_, problems := r.engine.ResolveConfig("aws_sigv4", map[string]string{field: value})
		require.Len(t, problems, 1, field)
	}
}

// The name of an error of AWS is understood in a header, in JSON with and without a namespace, and in XML.
func TestAWSErrors(t *testing.T) {
	t.Parallel()
	r := requests(t, "aws", "aws_sigv4", nil, []string{"access_key_id", "AKIAIOSFODNN7EXAMPLE", "secret_access_key", "s"})
	for _, v := range []outbound.Verdict{
		r.judge(403, `{"message":"The security token included in the request is invalid."}`, "x-amzn-ErrorType",
			"UnrecognizedClientException:http://internal.amazon.com/coral/com.amazon.coral.service/"),
		r.judge(400, `{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"M"}`),
		r.judge(403, `<Error><Code>InvalidAccessKeyId</Code><Message>M</Message></Error>`),
		r.judge(403, `<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code></Error></ErrorResponse>`),
		r.judge(403, `{"Error":{"Code":"InvalidClientTokenId","Message":"M","Type":"Sender"}}`),
	} {
		require.True(t, v.AuthFailed && !v.ScopeMissing && !v.Limited)
	}
	v := r.judge(400, `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","Message":"M"}`, "x-amzn-RequestId", "r1")
	require.Equal(t, outbound.Verdict{ScopeMissing: true, Message: "M", RequestID: "r1"}, v)
	v = r.judge(400, `{"__type":"ThrottlingException","message":"Rate exceeded"}`)
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: time.Second, Message: "Rate exceeded"}, v)
	require.Equal(t, outbound.Verdict{}, r.judge(404, `<Error><Code>NoSuchKey</Code></Error>`))
}

// A request to Sumsub is signed as its documentation says: time, method, path with query, and body. The signatures are
// those of Python's hmac.
func TestSumsubRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "sumsub", "hmac", nil, []string{"key_id", "sbx:token", "secret", "S3cr3t"})
	for want, out := range map[string]outbound.Outgoing{
		"ce4600a5f74f317ed7ad356a1f4def3d2f438ef920c084ba161564bce83e0af7": {Method: "GET", Path: "/resources/status/api"},
		"e35f3b03544dae2b8bff7aa25bf88df85908d94aa6109db6e62b64302c9d9f22": {Method: "POST", Path: "/resources/applicants",
			Query: url.Values{"levelName": {"basic-kyc-level"}}, Body: []byte(`{"externalUserId":"u1"}`)},
	} {
		req := r.send(t, out)
		require.Equal(t, want, req.Header.Get("X-App-Access-Sig"), out.Path)
		require.Equal(t, "1772600767", req.Header.Get("X-App-Access-Ts"))
		require.Equal(t, "sbx:token", req.Header.Get("X-App-Token"))
	}
	require.Equal(t, []string{"api.sumsub.com"}, r.hosts(t))
	req, v, _ := r.probe(t, 200, `{}`)
	require.Equal(t, "GET https://api.sumsub.com/resources/status/api", target(req))
	require.True(t, v.OK)
	require.Equal(t, "Invalid signature", r.judge(401, `{"description":"Invalid signature","code":401,"correlationId":"req-1"}`).Message)
}

// DigitalOcean's documented account and responses with 429 are understood; other tokens than its own are refused.
func TestDigitalOceanRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "digitalocean", "bearer", nil, []string{"token", "dop_v1_abc"})
	req, v, account := r.probe(t, 200, `{"account":{"droplet_limit":25,"email":"sammy@digitalocean.com",
		"uuid":"b6fr89dbf6d9156cace5f3c78dc9851d957381ef","status":"active"}}`)
	require.Equal(t, "GET https://api.digitalocean.com/v2/account", target(req))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "b6fr89dbf6d9156cace5f3c78dc9851d957381ef", Label: "sammy@digitalocean.com"}, account)
	const tooMany = `{"id":"too_many_requests","message":"API Rate limit exceeded."}`
	v = r.judge(429, tooMany, "ratelimit-remaining", "0", "ratelimit-reset", "1772604367", "retry-after", "29")
	require.Equal(t, 29*time.Second, v.Wait, "the time of the burst limit comes first")
	v = r.judge(429, tooMany, "ratelimit-remaining", "0", "ratelimit-reset", "1772604367")
	require.Equal(t, time.Hour, v.Wait)
	require.Equal(t, "API Rate limit exceeded.", v.Message)
	require.True(t, r.judge(401, `{"id":"unauthorized","message":"Unable to authenticate you."}`).AuthFailed)
	require.Equal(t, []outbound.Learned{{Limit: 5000, Remaining: 4816, Reset: time.Minute}}, r.engine.Limits().Learn(
		returned(200, `{}`, "ratelimit-limit", "5000", "ratelimit-remaining", "4816", "ratelimit-reset", "1772600827"),
		r.values.Now))
	r.values.Credentials["token"] = "ghp_abc"
	require.Len(t, r.mode.CheckCredentials(r.values.Credentials), 1)
}

// DigitalOcean's endpoint revokes the access token that also authenticates the request.
func TestDigitalOceanRevocation(t *testing.T) {
	t.Parallel()
	r := requests(t, "digitalocean", "oauth2", nil, []string{"access_token", "doo_v1_abc", "refresh_token", "dor_v1_abc"})
	req, err := r.engine.Revocation(t.Context(), r.values)
	require.NoError(t, err)
	require.Equal(t, "POST https://cloud.digitalocean.com/v1/oauth/revoke", target(req))
	require.Equal(t, "Bearer doo_v1_abc", req.Header.Get("Authorization"))
	require.Equal(t, "token=doo_v1_abc", content(t, req))
	require.True(t, r.mode.JudgeRevocation(returned(200, `{}`)))
	require.False(t, r.mode.JudgeRevocation(returned(401, `{}`)))
}

// A person's login at Metabase becomes a session, which requests carry and which a revocation ends.
func TestMetabaseRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "metabase", "session_token", []string{"site_url", "https://bi.example.com/metabase"},
		[]string{"username", "cam@metabase.com", "password", "p"})
	req, err := r.engine.Login(t.Context(), r.values)
	require.NoError(t, err)
	require.Equal(t, "POST https://bi.example.com/metabase/api/session", target(req))
	require.JSONEq(t, `{"username":"cam@metabase.com","password":"p"}`, content(t, req))
	const session = "38f4939c-ad7f-4cbe-ae54-30946daf8593"
	require.Equal(t, session, r.token(t, `{"id":"`+session+`"}`)[0])
	require.Equal(t, 14*24*time.Hour, r.mode.Token.DefaultTTL)

	r.values.Credentials["access_token"] = session
	req, v, account := r.probe(t, 200, `{"email":"cam@metabase.com","first_name":"Cam","id":7}`)
	require.Equal(t, "GET https://bi.example.com/metabase/api/user/current", target(req))
	require.Equal(t, session, req.Header.Get("X-Metabase-Session"))
	require.Empty(t, req.Header.Get("Authorization"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "7", Label: "cam@metabase.com"}, account)
	req, err = r.engine.Revocation(t.Context(), r.values)
	require.NoError(t, err)
	require.Equal(t, "DELETE https://bi.example.com/metabase/api/session", target(req))
	require.Equal(t, session, req.Header.Get("X-Metabase-Session"))
	require.Equal(t, []string{"bi.example.com"}, r.hosts(t))
	require.True(t, r.judge(401, "Unauthenticated").AuthFailed)
}

// Requests to Bybit are signed over the parts that its documentation names. The signatures are those of Python's hmac.
func TestBybitRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "bybit", "hmac", nil, []string{"key_id", "XXXXXXXXXX", "secret", "S3cr3t"})
	for want, out := range map[string]outbound.Outgoing{
		"2c18bba1a71c2d4c4706db37dd6284eda8f8572128f67d1e5ddaae76e78a9f92": {Method: "GET", Path: "/v5/user/query-api"},
		"87a6c4f3b83aeba32dec4ef2b3281d9fcf961ab34f5c8bfed82cb4cc906e6c53": {Method: "GET", Path: "/v5/order/realtime",
			Query: url.Values{"category": {"option"}, "symbol": {"BTC-29JUL22-25000-C"}}},
		"91982c7e8f761173fef9e70b8faa99174399ec1aac9ad27dfeb5c14caa230190": {Method: "POST", Path: "/v5/order/create",
			Body: []byte(`{"category": "option"}`)},
	} {
		req := r.send(t, out)
		require.Equal(t, want, req.Header.Get("X-BAPI-SIGN"), out.Path)
		require.Equal(t, "1772600767000", req.Header.Get("X-BAPI-TIMESTAMP"))
		require.Equal(t, "5000", req.Header.Get("X-BAPI-RECV-WINDOW"))
		require.Equal(t, "XXXXXXXXXX", req.Header.Get("X-BAPI-API-KEY"))
	}
	require.Equal(t, []string{"api.bybit.com"}, r.hosts(t))
	req, v, account := r.probe(t, 200, `{"retCode":0,"retMsg":"","result":{"id":"2208369","note":"testnet","userID":1448939}}`)
	require.Equal(t, "GET https://api.bybit.com/v5/user/query-api", target(req))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "1448939", Label: "testnet"}, account)
}

// Bybit says with 200 what went wrong.
func TestBybitErrors(t *testing.T) {
	t.Parallel()
	r := requests(t, "bybit", "hmac", nil, []string{"key_id", "k", "secret", "s"})
	v := r.judge(200, `{"retCode":10006,"retMsg":"Too many visits!"}`, "X-Bapi-Limit-Reset-Timestamp", "1772600770000")
	require.Equal(t, outbound.Verdict{Limited: true, Wait: 3 * time.Second, Retryable: true,
		Message: "Too many visits!"}, v)
	for _, code := range []string{"10003", "10004", "10007", "33004", "-2015"} {
		require.True(t, r.judge(200, `{"retCode":`+code+`,"retMsg":"M"}`).AuthFailed, code)
	}
	v = r.judge(200, `{"retCode":10005,"retMsg":"Permission denied"}`)
	require.True(t, v.ScopeMissing && !v.AuthFailed && !v.OK)
	require.False(t, r.judge(200, `{"retCode":10001,"retMsg":"Request parameter error"}`).OK)
}

// OpenAI's key goes with the organization and project of the connection, where there are any, and its own header for
// the time to wait comes first.
func TestOpenAIRequests(t *testing.T) {
	t.Parallel()
	plain := requests(t, "openai", "bearer", nil, []string{"token", "sk-1"})
	req, v, _ := plain.probe(t, 200, `{"object":"list","data":[]}`)
	require.Equal(t, "GET https://api.openai.com/v1/models", target(req))
	require.True(t, v.OK)
	require.Equal(t, http.Header{"Authorization": {"Bearer sk-1"}, "User-Agent": {"Sallyport"}}, req.Header)
	_, account, _ := plain.engine.JudgeProbe(plain.engine.Probes("bearer")[0], nil, returned(200, `{"object":"list"}`,
		"openai-organization", "acme-1"), plain.values.Now)
	require.Equal(t, outbound.Account{ID: "acme-1"}, account)
	of := requests(t, "openai", "bearer", []string{"organization", "org-1", "project", "proj_1"}, []string{"token", "sk-1"})
	req = of.send(t, outbound.Outgoing{Method: "GET", Path: "/models"})
	require.Equal(t, []string{"org-1", "proj_1"}, []string{req.Header.Get("OpenAI-Organization"), req.Header.Get("OpenAI-Project")})

	v = plain.judge(429, `{"error":{"message":"Rate limit reached","type":"requests"}}`, "Retry-After-Ms", "1500",
		"Retry-After", "2", "X-Request-Id", "req_1")
	require.Equal(t, 1500*time.Millisecond, v.Wait)
	require.Equal(t, "Rate limit reached", v.Message)
	require.Equal(t, "req_1", v.RequestID)
	v = plain.judge(429, `{}`, "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "6m0s",
		"x-ratelimit-remaining-tokens", "10", "x-ratelimit-reset-tokens", "1s")
	require.Equal(t, 6*time.Minute, v.Wait)
	require.True(t, plain.judge(401, `{"error":{"message":"Incorrect API key provided"}}`).AuthFailed)
}

// Anthropic's required version is there unless the caller has one, limits are learned, and an overload is no limit.
func TestAnthropicRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "anthropic", "api_key", nil, []string{"api_key", "sk-ant-1"})
	req, v, _ := r.probe(t, 200, `{"data":[],"has_more":false}`)
	require.Equal(t, "GET https://api.anthropic.com/v1/models?limit=1", target(req))
	require.True(t, v.OK)
	require.Equal(t, "sk-ant-1", req.Header.Get("X-Api-Key"))
	require.Equal(t, "2026-10-21", req.Header.Get("Anthropic-Version"))
	req = r.send(t, outbound.Outgoing{Method: "GET", Path: "/models", Header: http.Header{"Anthropic-Version": {"2023-06-01"},
		"X-Api-Key": {"other"}}})
	require.Equal(t, "2023-06-01", req.Header.Get("Anthropic-Version"))
	require.Equal(t, []string{"sk-ant-1"}, req.Header.Values("X-Api-Key"))
	admin := requests(t, "anthropic", "admin", nil, []string{"api_key", "sk-ant-admin01-1"})
	req, _, account := admin.probe(t, 200, `{"id":"12345678-1234","name":"Acme","type":"organization"}`)
	require.Equal(t, "GET https://api.anthropic.com/v1/organizations/me", target(req))
	require.Equal(t, outbound.Account{ID: "12345678-1234", Label: "Acme"}, account)

	learned := r.engine.Limits().Learn(returned(200, `{}`, "anthropic-ratelimit-requests-limit", "50",
		"anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset", "2026-03-04T05:07:07Z"),
		r.values.Now)
	require.Equal(t, []outbound.Learned{{Limit: 50, Remaining: 49, Reset: time.Minute}}, learned)
	body := func(kind string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"M"},"request_id":"req_1"}`
	}
	require.True(t, r.judge(401, body("authentication_error")).AuthFailed)
	require.True(t, r.judge(403, body("permission_error")).ScopeMissing)
	v = r.judge(429, body("rate_limit_error"), "retry-after", "12", "request-id", "req_1")
	require.Equal(t, []any{true, 12 * time.Second, "M", "req_1"}, []any{v.Limited, v.Wait, v.Message, v.RequestID})
	v = r.judge(529, body("overloaded_error"))
	require.True(t, v.Retryable && !v.Limited)
}

// Both of Datadog's keys go to the API of the organization's site, the application key only where there is one.
func TestDatadogRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "datadog", "api_key", []string{"site", "us5.datadoghq.com", "application_key", "app"}, []string{"api_key", "k"})
	req, v, _ := r.probe(t, 200, `{"valid":true}`)
	require.Equal(t, "GET https://api.us5.datadoghq.com/api/v1/validate", target(req))
	require.True(t, v.OK)
	require.Equal(t, []string{"k", "app"}, []string{req.Header.Get("DD-API-KEY"), req.Header.Get("DD-APPLICATION-KEY")})
	require.Equal(t, []string{"api.us5.datadoghq.com"}, r.hosts(t))
	_, v, _ = r.probe(t, 403, `{"errors":["Forbidden"]}`)
	require.False(t, v.OK)
	require.Equal(t, "Forbidden", v.Message)
	v = r.judge(429, `{"errors":["Too many requests"]}`, "X-RateLimit-Reset", "17")
	require.Equal(t, 17*time.Second, v.Wait)
	plain := requests(t, "datadog", "api_key", nil, []string{"api_key", "k"})
	require.Empty(t, plain.send(t, outbound.Outgoing{Method: "GET", Path: "/v1/validate"}).Header.Values("DD-APPLICATION-KEY"))
}
