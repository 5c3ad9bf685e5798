package registry_test

import (
	"time"

	"sallyport/internal/providers/outbound"
)

// modesOfSuites are those of Google, Microsoft and Notion.
func modesOfSuites() []modeCase {
	const (
		// https://learn.microsoft.com/graph/api/user-get and https://learn.microsoft.com/graph/api/organization-list
		user = `{"businessPhones":["+1 425 555 0109"],"displayName":"Adele Vance","userPrincipalName":"AdeleV@contoso.com",` +
			`"id":"87d349ed-44d7-43e1-9a83-5f2406dee5bd"}`
		organization = `{"value":[{"id":"84841066-274d-4ec0-a5c1-276be684bdd3","displayName":"Contoso"}]}`
		// https://developers.notion.com/reference/get-self
		bot = `{"object":"user","id":"16d84278-ab0e-484c-9bdd-b35da3bd8905","name":"pied piper","avatar_url":null,"type":"bot",` +
			`"bot":{"owner":{"type":"workspace","workspace":true},"workspace_name":"Pied Piper"}}`
		// The members of the type Schema$Userinfo in the npm package @googleapis/oauth2.
		userinfo = `{"id":"110248495921238986420","email":"user@example.com","verified_email":true}`
	)
	google := outbound.Account{ID: "110248495921238986420", Label: "user@example.com"}
	notion := outbound.Account{ID: "16d84278-ab0e-484c-9bdd-b35da3bd8905", Label: "Pied Piper"}
	version := map[string]string{"Notion-Version": "2026-03-11"}
	return []modeCase{
		{slug: "google", mode: "oauth2", credentials: map[string]string{"access_token": "ya29.a"},
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			revoke: "https://oauth2.googleapis.com/revoke", params: map[string]string{"access_type": "offline", "prompt": "consent"},
			hosts: []string{"oauth2.googleapis.com", "www.googleapis.com"}, probe: "https://www.googleapis.com/oauth2/v2/userinfo",
			header: map[string]string{"Authorization": "Bearer ya29.a"}, response: userinfo, account: google},
		{slug: "google", mode: "service_account", credentials: map[string]string{"key": "{}", "subject": "user@example.com",
			"access_token": "ya29.a"}, token: "https://oauth2.googleapis.com/token",
			hosts: []string{"oauth2.googleapis.com", "www.googleapis.com"}, probe: "https://www.googleapis.com/oauth2/v2/userinfo",
			header: map[string]string{"Authorization": "Bearer ya29.a"}, response: userinfo, account: google},
		{slug: "microsoft", mode: "oauth2", credentials: map[string]string{"access_token": "eyJ0"},
			authorize: "https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
			token:     "https://login.microsoftonline.com/common/oauth2/v2.0/token", params: map[string]string{"response_mode": "query"},
			hosts: []string{"graph.microsoft.com", "login.microsoftonline.com"}, probe: "https://graph.microsoft.com/v1.0/me",
			header: map[string]string{"Authorization": "Bearer eyJ0"}, response: user,
			account: outbound.Account{ID: "87d349ed-44d7-43e1-9a83-5f2406dee5bd", Label: "AdeleV@contoso.com"}},
		{slug: "microsoft", mode: "oauth2_client_credentials", config: map[string]string{"tenant": "contoso.com"},
			credentials: map[string]string{"client_id": "00001111-aaaa-2222-bbbb-3333cccc4444", "client_secret": "s",
				"access_token": "eyJ0"}, token: "https://login.microsoftonline.com/contoso.com/oauth2/v2.0/token",
			hosts: []string{"graph.microsoft.com", "login.microsoftonline.com"}, probe: "https://graph.microsoft.com/v1.0/organization",
			header: map[string]string{"Authorization": "Bearer eyJ0"}, response: organization,
			account: outbound.Account{ID: "84841066-274d-4ec0-a5c1-276be684bdd3", Label: "Contoso"}},
		{slug: "notion", mode: "oauth2", credentials: map[string]string{"access_token": "ntn_a"},
			authorize: "https://api.notion.com/v1/oauth/authorize", token: "https://api.notion.com/v1/oauth/token",
			params: map[string]string{"owner": "user"}, hosts: []string{"api.notion.com"}, probe: "https://api.notion.com/v1/users/me",
			header: version, response: bot, account: notion},
		{slug: "notion", mode: "token", credentials: map[string]string{"token": "ntn_00000000000sample0000000000000"},
			hosts: []string{"api.notion.com"}, probe: "https://api.notion.com/v1/users/me",
			header: map[string]string{"Authorization": "Bearer ntn_00000000000sample0000000000000"}, response: bot, account: notion},
	}
}

// modesOfTrackers are those of GitLab, Linear and Jira.
func modesOfTrackers() []modeCase {
	const (
		// https://docs.gitlab.com/api/users/
		gitlabUser = `{"id":1,"username":"john_smith","email":"john@example.com","name":"John Smith","state":"active"}`
		viewer     = `{"data":{"viewer":{"id":"aacdca22-6266-4c0a-ab3c-8fa70a26765c","name":"Sample User"}}}`
		query      = `{"query":"{ viewer { id name } }"}`
		// https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-myself/
		myself = `{"accountId":"5b10a2844c20165700ede21g","accountType":"atlassian","active":true,"displayName":"Mia Krystof"}`
		cloud  = "11223344-a1b2-3b33-c444-def123456789"
	)
	gitlab := outbound.Account{ID: "1", Label: "john_smith"}
	linear := outbound.Account{ID: "aacdca22-6266-4c0a-ab3c-8fa70a26765c", Label: "Sample User"}
	jira := outbound.Account{ID: "5b10a2844c20165700ede21g", Label: "Mia Krystof"}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	json := func(authorization string) map[string]string {
		return map[string]string{"Authorization": authorization, "Content-Type": "application/json"}
	}
	const linearAuthorize, linearToken = "https://linear.app/oauth/authorize", "https://api.linear.app/oauth/token"
	return []modeCase{
		{slug: "gitlab", mode: "oauth2", credentials: map[string]string{"access_token": "de67"},
			authorize: "https://gitlab.com/oauth/authorize", token: "https://gitlab.com/oauth/token",
			revoke: "https://gitlab.com/oauth/revoke", hosts: []string{"gitlab.com"}, probe: "https://gitlab.com/api/v4/user",
			header: bearer("de67"), response: gitlabUser, account: gitlab},
		{slug: "gitlab", mode: "token", credentials: map[string]string{"token": "glpat-00000000000000000000"},
			hosts: []string{"gitlab.com"}, probe: "https://gitlab.com/api/v4/user",
			header: bearer("glpat-00000000000000000000"), response: gitlabUser, account: gitlab},
		{slug: "linear", mode: "oauth2", credentials: map[string]string{"access_token": "lin_oauth_a"}, authorize: linearAuthorize,
			token: linearToken, revoke: "https://api.linear.app/oauth/revoke", params: map[string]string{"prompt": "consent"},
			hosts: []string{"api.linear.app"}, probe: "https://api.linear.app/graphql", body: query,
			header: json("Bearer lin_oauth_a"), response: viewer, account: linear},
		{slug: "linear", mode: "oauth2_app", credentials: map[string]string{"access_token": "lin_oauth_a"},
			authorize: linearAuthorize, token: linearToken, revoke: "https://api.linear.app/oauth/revoke",
			params: map[string]string{"prompt": "consent", "actor": "app"}, hosts: []string{"api.linear.app"},
			probe: "https://api.linear.app/graphql", body: query, header: json("Bearer lin_oauth_a"), response: viewer, account: linear},
		{slug: "linear", mode: "api_key", credentials: map[string]string{"api_key": "lin_api_000000000000sample0000"},
			hosts: []string{"api.linear.app"}, probe: "https://api.linear.app/graphql", body: query,
			header: json("lin_api_000000000000sample0000"), response: viewer, account: linear},
		{slug: "linear", mode: "oauth2_client_credentials", credentials: map[string]string{"client_id": "c", "client_secret": "s",
			"access_token": "lin_oauth_a"}, token: linearToken, hosts: []string{"api.linear.app"},
			probe: "https://api.linear.app/graphql", body: query, header: json("Bearer lin_oauth_a"), response: viewer, account: linear},
		{slug: "jira", mode: "oauth2", config: map[string]string{"cloud_id": cloud},
			credentials: map[string]string{"access_token": "aBCxYz654123"}, authorize: "https://auth.atlassian.com/authorize",
			token:  "https://auth.atlassian.com/oauth/token",
			params: map[string]string{"audience": "api.atlassian.com", "prompt": "consent"},
			hosts:  []string{"api.atlassian.com", "auth.atlassian.com"},
			probe:  "https://api.atlassian.com/ex/jira/" + cloud + "/rest/api/3/myself", header: bearer("aBCxYz654123"),
			response: myself, account: jira},
		{slug: "jira", mode: "api_token", config: map[string]string{"site": "your-site.atlassian.net"},
			credentials: map[string]string{"username": "me@example.com", "password": "my-api-token"},
			hosts:       []string{"your-site.atlassian.net"}, probe: "https://your-site.atlassian.net/rest/api/3/myself",
			header:   map[string]string{"Authorization": "Basic bWVAZXhhbXBsZS5jb206bXktYXBpLXRva2Vu", "Accept": "application/json"},
			response: myself, account: jira},
		{slug: "jira", mode: "scoped_api_token", config: map[string]string{"cloud_id": cloud},
			credentials: map[string]string{"username": "me@example.com", "password": "my-api-token"},
			hosts:       []string{"api.atlassian.com"}, probe: "https://api.atlassian.com/ex/jira/" + cloud + "/rest/api/3/myself",
			header:   map[string]string{"Authorization": "Basic bWVAZXhhbXBsZS5jb206bXktYXBpLXRva2Vu", "Accept": "application/json"},
			response: myself, account: jira},
	}
}

// modesOfSales are those of HubSpot, Salesforce and Zendesk.
func modesOfSales() []modeCase {
	const (
		// https://developers.hubspot.com/docs/api-reference/latest/account/account-information/guide
		details = `{"portalId":123456,"accountType":"STANDARD","timeZone":"US/Eastern"}`
		// Members that the package @salesforce/core 8.32.6 reads.
		userinfo = `{"user_id":"0055f000000xxxx","organization_id":"00D5f000000xxxx","preferred_username":"admin@example.com"}`
		// https://developer.zendesk.com/api-reference/ticketing/users/users/#show-self
		self     = `{"user":{"id":35436,"name":"Robert Smith","email":"robert@example.com"}}`
		instance = "https://acme.my.salesforce.com"
	)
	hubspot := outbound.Account{ID: "123456", Label: "123456"}
	salesforce := outbound.Account{ID: "0055f000000xxxx", Label: "admin@example.com"}
	zendesk := outbound.Account{ID: "35436", Label: "robert@example.com"}
	const login, tokens = "https://login.salesforce.com/services/oauth2/", "https://acme.zendesk.com/oauth/tokens"
	acme := map[string]string{"subdomain": "acme"}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	return []modeCase{
		{slug: "hubspot", mode: "oauth2", credentials: map[string]string{"access_token": "CIrT"},
			authorize: "https://app.hubspot.com/oauth/authorize", token: "https://api.hubapi.com/oauth/2026-03/token",
			revoke: "https://api.hubapi.com/oauth/2026-03/token/revoke", hosts: []string{"api.hubapi.com"},
			probe: "https://api.hubapi.com/account-info/2026-03/details", header: bearer("CIrT"), response: details, account: hubspot},
		{slug: "hubspot", mode: "token", credentials: map[string]string{"token": "pat-na1-00000000-0000-0000-0000-000000000000"},
			hosts: []string{"api.hubapi.com"}, probe: "https://api.hubapi.com/account-info/2026-03/details",
			header: bearer("pat-na1-00000000-0000-0000-0000-000000000000"), response: details, account: hubspot},
		{slug: "salesforce", mode: "oauth2", config: map[string]string{"instance_url": instance},
			credentials: map[string]string{"access_token": "00D!a"}, authorize: login + "authorize", token: login + "token",
			revoke: login + "revoke", hosts: []string{"acme.my.salesforce.com", "login.salesforce.com"},
			probe: instance + "/services/oauth2/userinfo", header: bearer("00D!a"), response: userinfo, account: salesforce},
		{slug: "salesforce", mode: "oauth2_client_credentials", config: map[string]string{"instance_url": instance,
			"login_host": "acme.my.salesforce.com"}, credentials: map[string]string{"client_id": "c", "client_secret": "s",
			"access_token": "00D!a"}, token: instance + "/services/oauth2/token", hosts: []string{"acme.my.salesforce.com"},
			probe: instance + "/services/oauth2/userinfo", header: bearer("00D!a"), response: userinfo, account: salesforce},
		{slug: "salesforce", mode: "jwt_bearer", config: map[string]string{"instance_url": instance,
			"consumer_key": "3MVG9000000000000000000sample"}, credentials: map[string]string{"key": "k", "subject": "admin@example.com",
			"access_token": "00D!a"}, token: login + "token", hosts: []string{"acme.my.salesforce.com", "login.salesforce.com"},
			probe: instance + "/services/oauth2/userinfo", header: bearer("00D!a"), response: userinfo, account: salesforce},
		{slug: "zendesk", mode: "oauth2", config: acme, credentials: map[string]string{"access_token": "gEr"},
			authorize: "https://acme.zendesk.com/oauth/authorizations/new", token: tokens, hosts: []string{"acme.zendesk.com"},
			probe: "https://acme.zendesk.com/api/v2/users/me.json", header: bearer("gEr"), response: self, account: zendesk},
		{slug: "zendesk", mode: "oauth2_client_credentials", config: acme, credentials: map[string]string{"client_id": "c",
			"client_secret": "s", "access_token": "gEr"}, token: tokens, hosts: []string{"acme.zendesk.com"},
			probe: "https://acme.zendesk.com/api/v2/users/me.json", header: bearer("gEr"), response: self, account: zendesk},
		// The user name of Zendesk's basic authentication is the address with /token.
		{slug: "zendesk", mode: "api_token", config: acme, credentials: map[string]string{"username": "robert@example.com",
			"password": "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv"}, hosts: []string{"acme.zendesk.com"},
			probe: "https://acme.zendesk.com/api/v2/users/me.json", header: map[string]string{"Authorization": "Basic " +
				"cm9iZXJ0QGV4YW1wbGUuY29tL3Rva2VuOjZ3aUlCV2JHa0JNbzFtUkRNdVZ3a3cxRVBzTmtlVWo5NVBJejJha3Y="},
			response: self, account: zendesk},
	}
}

// tokenCases are the responses on the pages that the modes name.
func tokenCases() []tokenCase {
	return []tokenCase{
		{slug: "gitlab", mode: "oauth2", response: `{"access_token":"de6780bc506a0446309bd9362820ba8aed28aa506c71eedbe1c5c4f9dd350e54",` +
			`"token_type":"bearer","expires_in":7200,"refresh_token":"8257e65c97202ed1726cf9571600918f3bffb2544b26e00a61df9897668c33a1",` +
			`"created_at":1607635748}`, access: "de6780bc506a0446309bd9362820ba8aed28aa506c71eedbe1c5c4f9dd350e54",
			refresh: "8257e65c97202ed1726cf9571600918f3bffb2544b26e00a61df9897668c33a1", lives: 2 * time.Hour},
		{slug: "google", mode: "oauth2", response: `{"access_token":"1/fFAGRNJru1FTz70BzhT3Zg","expires_in":3920,"token_type":"Bearer",` +
			`"scope":"https://www.googleapis.com/auth/drive.metadata.readonly","refresh_token":"1//xEoDL4iW3cxlI7yDbSRFYNG01kVKM2C-259HOF2aQbI"}`,
			access: "1/fFAGRNJru1FTz70BzhT3Zg", refresh: "1//xEoDL4iW3cxlI7yDbSRFYNG01kVKM2C-259HOF2aQbI", lives: 3920 * time.Second},
		{slug: "microsoft", mode: "oauth2", response: `{"access_token":"eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsIng1dCI6Ik5HVEZ2ZEstZnl0aEV1Q",` +
			`"token_type":"Bearer","expires_in":3599,"scope":"https%3A%2F%2Fgraph.microsoft.com%2Fmail.read",` +
			`"refresh_token":"AwABAAAAvPM1KaPlrEqdFSBzjqfTGAMxZGUTdM0t4B4"}`, access: "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsIng1dCI6Ik5HVEZ2ZEstZnl0aEV1Q",
			refresh: "AwABAAAAvPM1KaPlrEqdFSBzjqfTGAMxZGUTdM0t4B4", lives: 3599 * time.Second},
		// The page lists the members, without an example; there is no lifetime.
		{slug: "notion", mode: "oauth2", response: `{"access_token":"ntn_a","token_type":"bearer",` +
			`"refresh_token":"nrt_4991090011501Ejc6Xn4sHguI7jZIN449mKe9PRhpMfNK","bot_id":"b","workspace_id":"w","workspace_name":null,` +
			`"owner":{"type":"workspace","workspace":true},"duplicated_template_id":null}`, access: "ntn_a",
			refresh: "nrt_4991090011501Ejc6Xn4sHguI7jZIN449mKe9PRhpMfNK"},
		{slug: "linear", mode: "oauth2", response: `{"access_token":"EXAMPLE_TOKEN","token_type":"Bearer","expires_in":86399,` +
			`"scope":"read write","refresh_token":"EXAMPLE_TOKEN"}`, access: "EXAMPLE_TOKEN", refresh: "EXAMPLE_TOKEN",
			lives: 86399 * time.Second},
		{slug: "linear", mode: "oauth2_client_credentials", response: `{"access_token":"EXAMPLE_TOKEN","token_type":"Bearer",` +
			`"expires_in":2591999,"scope":"read write"}`, access: "EXAMPLE_TOKEN", lives: 2591999 * time.Second},
		{slug: "jira", mode: "oauth2", response: `{"access_token":"a","refresh_token":"r","expires_in":3600,"scope":"read:jira-work"}`,
			access: "a", refresh: "r", lives: time.Hour},
		{slug: "hubspot", mode: "oauth2", response: `{"token_type":"bearer","refresh_token":"1e8fbfb1-8e96-4826-8b8d-c8af73715",` +
			`"access_token":"CIrToaiiMhIHAAEAQAAAARiO1ooBIOP0sgEokuLtAEaOaTFnToZ3VjUbtl46MAAAAEAAAAAgAAAAAAAAAAAACAAAAAAAOABAAAAAAAAAAAAAAAQAkIUVrptEzQ4hQHP89Eoahkq-p7dVIAWgBgAA",` +
			`"expires_in":1800}`, access: "CIrToaiiMhIHAAEAQAAAARiO1ooBIOP0sgEokuLtAEaOaTFnToZ3VjUbtl46MAAAAEAAAAAgAAAAAAAAAAAACAAAAAAAOABAAAAAAAAAAAAAAAQAkIUVrptEzQ4hQHP89Eoahkq-p7dVIAWgBgAA",
			refresh: "1e8fbfb1-8e96-4826-8b8d-c8af73715", lives: 30 * time.Minute},
		// The page has a comma too few.
		{slug: "salesforce", mode: "oauth2_client_credentials", response: `{"access_token":"00DS7000000oxzo!AR8AQPXA",` +
			`"signature":"nUFHwtfIGLKDTHcLWmDBG8frv0t+HQGl/iCZFIQUarE=","token_format":"opaque",` +
			`"instance_url":"https://instance-name.my.salesforce.com","id":"https://login.salesforce.com/id/00Dd000000XXXXXXX/005d000000XXXXX",` +
			`"token_type":"Bearer"}`, access: "00DS7000000oxzo!AR8AQPXA", lives: 2 * time.Hour,
			config: map[string]string{"instance_url": "https://instance-name.my.salesforce.com"}},
		{slug: "zendesk", mode: "oauth2", response: `{"access_token":"gErypPlm4dOVgGRvA1ZzMH5MQ3nLo8bo","expires_in":86400,` +
			`"refresh_token":"af3t24tfj34h43s","refresh_token_expires_in":604800,"scope":"read","token_type":"bearer"}`,
			access: "gErypPlm4dOVgGRvA1ZzMH5MQ3nLo8bo", refresh: "af3t24tfj34h43s", lives: 24 * time.Hour},
		// Older clients have tokens that do not expire.
		{slug: "zendesk", mode: "oauth2_client_credentials", response: `{"access_token":"gErypPlm4dOVgGRvA1ZzMH5MQ3nLo8bo","expires_in":null,` +
			`"scope":"organizations:write read","token_type":"bearer"}`, access: "gErypPlm4dOVgGRvA1ZzMH5MQ3nLo8bo"},
	}
}

// verdictCases are errors in the forms of the pages that the definitions name.
func verdictCases() []verdictCase {
	auth := func(message string) outbound.Verdict { return outbound.Verdict{AuthFailed: true, Message: message} }
	scope := func(message string) outbound.Verdict { return outbound.Verdict{ScopeMissing: true, Message: message} }
	limited := func(wait time.Duration, message string) outbound.Verdict {
		return outbound.Verdict{Limited: true, Retryable: true, Wait: wait, Message: message}
	}
	failed := func(message string) outbound.Verdict { return outbound.Verdict{Message: message} }
	soon := "1772600769" // two seconds after requestTime
	return []verdictCase{
		{"gitlab", 401, nil, `{"message":"401 Unauthorized"}`, auth("401 Unauthorized")},
		{"gitlab", 403, nil, `{"error":"insufficient_scope","error_description":"The request requires higher privileges than provided ` +
			`by the access token.","scope":"sudo"}`, scope("The request requires higher privileges than provided by the access token.")},
		{"gitlab", 403, nil, `{"message":"403 Forbidden - Must be admin to use sudo"}`, failed("403 Forbidden - Must be admin to use sudo")},
		{"gitlab", 429, map[string]string{"Retry-After": "30", "RateLimit-Remaining": "0", "RateLimit-Reset": soon}, "Retry later",
			limited(30*time.Second, "")},
		{"gitlab", 429, map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": soon}, "Retry later",
			limited(2*time.Second, "")},
		// A limit that the headers are not about.
		{"gitlab", 429, map[string]string{"RateLimit-Remaining": "33", "RateLimit-Reset": soon}, "Retry later", limited(0, "")},
		{"google", 401, nil, `{"error":{"errors":[{"domain":"global","reason":"authError","message":"Invalid Credentials"}],"code":401,` +
			`"message":"Invalid Credentials"}}`, auth("Invalid Credentials")},
		{"google", 403, nil, `{"error":{"errors":[{"domain":"usageLimits","reason":"userRateLimitExceeded","message":"User Rate Limit Exceeded"}],` +
			`"code":403,"message":"User Rate Limit Exceeded"}}`, limited(time.Second, "User Rate Limit Exceeded")},
		{"google", 403, nil, `{"error":{"code":403,"message":"Request had insufficient authentication scopes.","status":"PERMISSION_DENIED",` +
			`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}}`,
			scope("Request had insufficient authentication scopes.")},
		{"microsoft", 400, map[string]string{"request-id": "0f1e2d3c"}, `{"error":{"code":"invalidRange",` +
			`"message":"Uploaded fragment overlaps with existing data.","innerError":{"request-id":"request-id","date":"date-time"}}}`,
			outbound.Verdict{Message: "Uploaded fragment overlaps with existing data.", RequestID: "0f1e2d3c"}},
		{"microsoft", 403, nil, `{"error":{"code":"Authorization_RequestDenied","message":"Insufficient privileges to complete the operation."}}`,
			scope("Insufficient privileges to complete the operation.")},
		{"microsoft", 429, map[string]string{"Retry-After": "10"}, `{"error":{"code":"TooManyRequests"}}`, limited(10*time.Second, "")},
		{"microsoft", 509, nil, `{}`, limited(0, "")},
		{"notion", 401, map[string]string{"x-notion-request-id": "cb1f"}, `{"object":"error","status":401,"code":"unauthorized",` +
			`"message":"API token is invalid."}`, outbound.Verdict{AuthFailed: true, Message: "API token is invalid.", RequestID: "cb1f"}},
		{"notion", 403, nil, `{"code":"restricted_resource","message":"Insufficient permissions."}`, scope("Insufficient permissions.")},
		{"notion", 529, map[string]string{"Retry-After": "3"}, `{"code":"service_overload","message":"Overloaded."}`,
			limited(3*time.Second, "Overloaded.")},
		{"linear", 400, map[string]string{"x-ratelimit-requests-remaining": "0", "x-ratelimit-requests-reset": soon + "000"},
			`{"errors":[{"message":"Rate limit exceeded","extensions":{"code":"RATELIMITED","type":"ratelimited"}}]}`,
			limited(2*time.Second, "Rate limit exceeded")},
		{"linear", 200, nil, `{"errors":[{"message":"no","extensions":{"type":"authentication error","userPresentableMessage":"You need to ` +
			`authenticate to access this operation."}}]}`, auth("You need to authenticate to access this operation.")},
		{"linear", 200, nil, `{"data":{"viewer":null},"errors":[{"message":"Entity not found","extensions":{"type":"invalid input"}}]}`,
			failed("Entity not found")},
		{"linear", 200, nil, `{"data":{}}`, outbound.Verdict{OK: true}},
		{"jira", 401, nil, `{"code":401,"message":"Unauthorized; scope does not match"}`, scope("Unauthorized; scope does not match")},
		{"jira", 401, nil, `{"code":401,"message":"Unauthorized"}`, auth("Unauthorized")},
		{"jira", 404, nil, `{"errorMessages":["Issue does not exist or you do not have permission to see it."],"errors":{}}`,
			failed("Issue does not exist or you do not have permission to see it.")},
		{"jira", 429, map[string]string{"Retry-After": "5", "X-RateLimit-Reset": "2026-03-04T05:07Z"}, ``, limited(5*time.Second, "")},
		{"hubspot", 429, nil, `{"status":"error","message":"You have reached your ten_secondly_rolling limit.","policyName":"TEN_SECONDLY_ROLLING"}`,
			limited(10*time.Second, "You have reached your ten_secondly_rolling limit.")},
		{"hubspot", 403, nil, `{"status":"error","message":"This app hasn't been granted all required scopes"}`,
			scope("This app hasn't been granted all required scopes")},
		{"salesforce", 401, nil, `[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`, auth("Session expired or invalid")},
		{"salesforce", 403, nil, `[{"errorCode":"REQUEST_LIMIT_EXCEEDED","message":"TotalRequests Limit exceeded."}]`,
			limited(time.Minute, "TotalRequests Limit exceeded.")},
		{"salesforce", 403, nil, `[{"errorCode":"API_DISABLED_FOR_ORG","message":"The REST API is not enabled for this Organization."}]`,
			failed("The REST API is not enabled for this Organization.")},
		{"zendesk", 403, nil, `{"error":"Forbidden","description":"You are missing the following required scopes: write"}`,
			scope("You are missing the following required scopes: write")},
		{"zendesk", 401, nil, `{"error":"Couldn't authenticate you"}`, auth("Couldn't authenticate you")},
		{"zendesk", 429, map[string]string{"Retry-After": "93"}, `Number of allowed API requests per minute exceeded`, limited(93*time.Second, "")},
	}
}
