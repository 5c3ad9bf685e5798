package reference_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/reference"
)

// document holds the parts of the OpenAPI document that the guards read.
type document struct {
	Paths      map[string]map[string]operation
	Components struct {
		Schemas         map[string]*schema
		SecuritySchemes map[string]any
	}
}

type operation struct {
	OperationID string
	Summary     string
	Description string
	Tags        []string
	// Security is nil where the document says nothing, and empty where it says that no credential is looked at.
	Security    []map[string][]string
	Parameters  []parameter
	RequestBody *body
	Responses   map[string]body
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                *schema
}

type body struct {
	Description string
	Content     map[string]struct{ Schema *schema }
}

type schema struct {
	Ref                 string `json:"$ref"`
	Type                any
	Description         string
	Enum                []any
	Required            []string
	Properties          map[string]*schema
	Items               *schema
	ReadOnly, WriteOnly bool
	OneOf, AnyOf, AllOf []*schema
}

// text reports whether the values are strings, null among them or not.
func (s *schema) text() bool {
	list, _ := s.Type.([]any)
	return s.Type == "string" || slices.Contains(list, any("string"))
}

// parts are the schemas right below.
func (s *schema) parts() []*schema {
	parts := slices.Concat(s.OneOf, s.AnyOf, s.AllOf, slices.Collect(maps.Values(s.Properties)))
	if s.Items != nil {
		parts = append(parts, s.Items)
	}
	return parts
}

func read(t *testing.T) document {
	t.Helper()
	text, err := reference.Document()
	require.NoError(t, err)
	var d document
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Paths)
	return d
}

// each calls f for every operation, in a stable order.
func (d document) each(f func(where string, op operation)) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			f(strings.ToUpper(method)+" "+path, d.Paths[path][method])
		}
	}
}

const refPrefix = "#/components/schemas/"

// reach adds to found the names of the component schemas that s leads to.
func (d document) reach(s *schema, found map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, refPrefix); ok && !found[name] {
		found[name] = true
		d.reach(d.Components.Schemas[name], found)
	}
	for _, p := range s.parts() {
		d.reach(p, found)
	}
}

func (d document) requestSchemas() map[string]bool {
	found := map[string]bool{}
	d.each(func(_ string, op operation) {
		if op.RequestBody != nil {
			for _, c := range op.RequestBody.Content {
				d.reach(c.Schema, found)
			}
		}
	})
	return found
}

func (d document) responseSchemas() map[string]bool {
	found := map[string]bool{}
	d.each(func(_ string, op operation) {
		for _, r := range op.Responses {
			for _, c := range r.Content {
				d.reach(c.Schema, found)
			}
		}
	})
	return found
}

// secret matches the names of properties that hold a credential, and not of those that describe one (has_secret,
// secret_hint).
var secret = regexp.MustCompile(`^(key|(\w+_)?(secret|password|token|api_key|private_key))$`)

func tellsAboutSecret(name string) bool { return strings.HasPrefix(name, "has_") }

// An operation says what it is called, what it does, who may call it and how it fails; generators and readers need all.
func TestOperationsAreComplete(t *testing.T) {
	t.Parallel()
	d := read(t)
	ids := map[string]string{}
	d.each(func(where string, op operation) {
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, op.OperationID, where)
		require.Empty(t, ids[op.OperationID], "%s has the id of %s", where, ids[op.OperationID])
		ids[op.OperationID] = where
		require.NotEmpty(t, op.Summary, where)
		require.False(t, strings.HasSuffix(op.Summary, "."), "%s: a summary is a title", where)
		require.NotEmpty(t, op.Description, where)
		require.NotEmpty(t, op.Tags, where)
		require.NotNil(t, op.Security, "%s says nothing about credentials", where)
		for _, alternative := range op.Security {
			for name := range alternative {
				require.Contains(t, d.Components.SecuritySchemes, name, where)
			}
		}
		for _, p := range op.Parameters {
			requireSentences(t, p.Description, where+": parameter "+p.Name)
			require.NotNil(t, p.Schema, "%s: parameter %s", where, p.Name)
		}
		var success, failures int
		for status, r := range op.Responses {
			require.NotEmpty(t, r.Description, "%s: %s", where, status)
			if status[0] < '4' { // a redirect is what a browser is to get from a sign-in elsewhere
				success++
			} else {
				failures++
			}
		}
		require.Positive(t, success, where)
		require.Positive(t, failures, where)
		require.Contains(t, op.Responses, "500", where)
	})
}

// Every failure is the one envelope, and its description names registered codes of that status.
func TestFailuresAreTheEnvelope(t *testing.T) {
	t.Parallel()
	codes := map[string]int{}
	for _, c := range apperr.Codes() {
		codes[string(c.Code)] = c.Status
	}
	d := read(t)
	d.each(func(where string, op operation) {
		for status, r := range op.Responses {
			if status[0] < '4' {
				continue
			}
			at := where + " " + status
			require.Equal(t, []string{"application/json"}, slices.Collect(maps.Keys(r.Content)), at)
			require.Equal(t, refPrefix+"WireError", r.Content["application/json"].Schema.Ref, at)
			var named int
			for _, quoted := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(r.Description, -1) {
				require.Contains(t, codes, quoted[1], at)
				if codes[quoted[1]] != 0 && !strings.HasSuffix(status, "XX") { // a code without a status of its own goes with any
					require.Equal(t, status, fmt.Sprint(codes[quoted[1]]), "%s: %s", at, quoted[1])
				}
				named++
			}
			require.Positive(t, named, "%s names no code", at)
		}
	})
	envelope := d.Components.Schemas["WireError"]
	require.Equal(t, []string{"error"}, slices.Collect(maps.Keys(envelope.Properties)))
	inner := d.Components.Schemas[strings.TrimPrefix(envelope.Properties["error"].Ref, refPrefix)]
	ofCalls := []string{"attempts", "effect", "execution_id", "policy", "retry_after_ms", "retryable",
		"source", "upstream"}
	require.ElementsMatch(t, append(ofCalls, "code", "details", "message"), slices.Collect(maps.Keys(inner.Properties)))
	for _, name := range ofCalls {
		require.NotContains(t, inner.Required, name, "only errors of calls have it")
	}
	require.Len(t, inner.Properties["code"].Enum, len(codes))
}

// requireSentences fails where a description is missing, or begins in the middle of a sentence or ends in one.
func requireSentences(t *testing.T, description, at string) {
	t.Helper()
	require.NotEmpty(t, description, "%s: give the field a comment and run .ci/drift --write", at)
	require.Regexp(t, "(?s)^[A-Z0-9`].*[.]$", description, "%s: a description is one or more sentences", at)
}

// A reader of a schema learns what each property means.
func TestPropertiesAreDescribed(t *testing.T) {
	t.Parallel()
	var walk func(at string, s *schema)
	walk = func(at string, s *schema) {
		for property, p := range s.Properties {
			requireSentences(t, p.Description, at+"."+property)
		}
		for _, p := range s.parts() {
			walk(at, p)
		}
	}
	for name, s := range read(t).Components.Schemas {
		walk(name, s)
	}
}

// A response never contains a secret that was sent. A returned secret is generated by the service, and only the
// response to its creation shows it.
func TestSecretsGoOneWay(t *testing.T) {
	t.Parallel()
	d := read(t)
	requests, responses := d.requestSchemas(), d.responseSchemas()
	var sent, shown []string
	for name, s := range d.Components.Schemas {
		for property, p := range s.Properties {
			at := name + "." + property
			require.False(t, p.WriteOnly && responses[name], "%s is write-only and in an answer", at)
			require.False(t, p.ReadOnly && requests[name], "%s is read-only and in a request", at)
			if p.ReadOnly {
				require.True(t, strings.HasPrefix(p.Description, "Generated"), "%s: how did the value come about?", at)
			}
			if !secret.MatchString(property) || tellsAboutSecret(property) {
				continue
			}
			if requests[name] {
				require.True(t, p.WriteOnly, "%s must be write-only", at)
				sent = append(sent, at)
			}
			if responses[name] {
				require.True(t, p.ReadOnly, "%s must be read-only", at)
				require.True(t, strings.HasSuffix(name, "Created") || at == "identity.SignIn.access_token",
					"%s is shown more than once", at)
				shown = append(shown, at)
			}
		}
		if strings.HasSuffix(name, "Created") {
			require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(s.Properties)), func(p *schema) bool {
				return p.ReadOnly
			}),
				"%s shows nothing once", name)
		}
	}
	// The rules have something to hold.
	require.Contains(t, sent, "identity.LoginRequest.password")
	require.Contains(t, sent, "connections.Creation.webhook_secret")
	require.Contains(t, sent, "subscriptions.Creation.signing_secret")
	require.Contains(t, shown, "identity.APIKeyCreated.key")
	require.Contains(t, shown, "subscriptions.SubscriptionCreated.signing_secret")
}

// A closed set of values is an enum, so that generated clients know it.
func TestClosedSetsAreEnums(t *testing.T) {
	t.Parallel()
	closed := regexp.MustCompile(`^(status|state|effect|order|operation|outcome|result|body_encoding|token_type|` +
		`(\w+_)?mode|on_\w+)$`)
	d := read(t)
	found := 0
	check := func(at, name string, s *schema) {
		// The modes of auth are those of the definitions.
		if !s.text() || !closed.MatchString(name) || name == "auth_mode" {
			return
		}
		found++
		require.NotEmpty(t, s.Enum, at)
	}
	for name, s := range d.Components.Schemas {
		for property, p := range s.Properties {
			check(name+"."+property, property, p)
		}
	}
	d.each(func(where string, op operation) {
		for _, p := range op.Parameters {
			if op.OperationID == "finish-sso" {
				continue // OAuth's state is a random text
			}
			s := p.Schema
			if s.Items != nil {
				s = s.Items
			}
			check(where+" "+p.Name, p.Name, s)
		}
	})
	require.Positive(t, found)
}

// The document says of every operation that it may be refused for its rate, and with which headers. It says of every
// successful response how the limit is reported, except for handshakes, which are not counted.
func TestOperationsDeclareTheirLimits(t *testing.T) {
	t.Parallel()
	rates := []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	text, err := reference.API().Document()
	require.NoError(t, err)
	type response struct {
		Headers map[string]any `json:"headers"`
	}
	has := func(r response, names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return r.Headers[name] == nil })
	}
	var doc struct {
		Paths map[string]map[string]struct {
			ID        string              `json:"operationId"`
			Responses map[string]response `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.NotEmpty(t, doc.Paths)
	for path, item := range doc.Paths {
		for method, op := range item {
			require.True(t, has(op.Responses["429"], append(rates, "Retry-After")...), "%s %s", method, path)
			told := slices.ContainsFunc(slices.Sorted(maps.Keys(op.Responses)), func(status string) bool {
				return status < "4" && has(op.Responses[status], rates...)
			})
			require.Equal(t, !strings.HasPrefix(op.ID, "answer-webhook-handshake-"), told, "%s %s", method, path)
		}
	}
}

// An operation declares who may call it, and only with rights that exist. The document describes what the server
// enforces.
func TestOperationsDeclareTheirRights(t *testing.T) {
	t.Parallel()
	declared := map[string]httpapi.Operation{}
	for _, op := range reference.API().Operations() {
		require.NotContains(t, declared, op.ID)
		declared[op.ID] = op
		if op.Public {
			require.Empty(t, op.Permission, op.ID)
			require.Empty(t, op.Route, op.ID)
			continue
		}
		require.Contains(t, access.Permissions(), op.Permission, op.ID)
		if op.Route != "" {
			require.Contains(t, access.Routes(), op.Route, op.ID)
			require.True(t, op.Environment, "%s takes keys, and a key works in one environment", op.ID)
		}
		// A ticket opens no more than its maker could read, and a key to verify must not stand in an address.
		if op.Method != http.MethodGet && op.ID != "create-webhook-event-stream-ticket" && op.ID != "verify-api-key" {
			require.NotContains(t, string(op.Permission), ":read", "%s changes something", op.ID)
		}
	}
	public := []string{"login", "refresh-token", "logout", "setup-team", "start-sso", "request-password-reset",
		"complete-password-reset", "accept-invitation"}
	byHand := []string{"receive-webhook", "answer-webhook-handshake-get", "answer-webhook-handshake-head",
		"answer-webhook-handshake-options", "finish-sso"}
	d := read(t)
	d.each(func(where string, op operation) {
		if slices.Contains(byHand, op.OperationID) {
			require.Empty(t, op.Security, where)
			return
		}
		rights, ok := declared[op.OperationID]
		require.True(t, ok, "%s is documented and not declared", where)
		require.Equal(t, slices.Contains(public, op.OperationID), rights.Public, where)
		require.Equal(t, rights.Public, len(op.Security) == 0, where)
		keys := slices.ContainsFunc(op.Security, func(a map[string][]string) bool { _, ok := a["api_key"]; return ok })
		require.Equal(t, rights.Route != "", keys, where)
	})
}

// The document leads nowhere else: every reference resolves.
func TestReferencesResolve(t *testing.T) {
	t.Parallel()
	d := read(t)
	reached := d.requestSchemas()
	maps.Copy(reached, d.responseSchemas())
	for name := range reached {
		require.Contains(t, d.Components.Schemas, name)
	}
	for name := range d.Components.Schemas {
		require.True(t, reached[name], "%s is used by nothing", name)
	}
}

// A request that creates something can be sent again without creating it twice: every creating POST takes the key, and
// the exceptions are listed here with their reasons.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"change-password": "its answer sets a cookie, which is never kept",
		"check-action":    "it changes nothing",
		"execute-action":  "it has a record of its own, which returns failures too",
	}
	d := read(t)
	for _, op := range reference.API().Operations() {
		takes := op.TakesIdempotencyKey()
		documented := slices.ContainsFunc(d.Paths[op.Path][strings.ToLower(op.Method)].Parameters, func(p parameter) bool {
			return p.In == "header" && p.Name == "Idempotency-Key"
		})
		require.Equal(t, takes || op.ID == "execute-action", documented, op.ID)
		if op.Method != http.MethodPost || op.Public { // a key belongs to a caller, and a public operation knows none
			require.False(t, takes, op.ID)
			continue
		}
		require.Equal(t, without[op.ID] == "", takes, op.ID)
		created := op.Status == http.StatusCreated || op.Status == http.StatusAccepted
		require.False(t, created && !takes, "%s creates something", op.ID)
		delete(without, op.ID)
	}
	require.Empty(t, without, "there is no such operation")
}
