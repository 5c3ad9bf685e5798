package httpapi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/ratelimit"
)

// documentErrors adds to each error response of the operation an example of each code, with a message that the
// operation returns.
func (a *API) documentErrors(ho *huma.Operation, op Operation) {
	for _, code := range op.codes() {
		r := ho.Responses[strconv.Itoa(code.Info().Status)]
		if r == nil || r.Content["application/json"] == nil {
			continue
		}
		for i, message := range op.messages(code) {
			a.addErrorExample(r.Content["application/json"], code, message, i, a.violations(ho, code))
		}
	}
}

// addErrorExample adds an example to an error response. Messages that many operations share are in the document once.
func (a *API) addErrorExample(m *huma.MediaType, code apperr.Code, message string, nth int, details []apperr.Detail) {
	name := string(code)
	if nth > 0 {
		name += "-" + strconv.Itoa(nth+1)
	}
	if m.Examples == nil {
		m.Examples = map[string]*huma.Example{}
	}
	example := &huma.Example{Summary: string(code),
		Value: wireError{Err: wireErrorBody{Code: wireCode(code), Message: message, Details: details}}}
	shared := sharedExample(code, message)
	if shared == "" || len(details) > 0 {
		m.Examples[name] = example
		return
	}
	components := a.huma.OpenAPI().Components
	if components.Examples == nil {
		components.Examples = map[string]*huma.Example{}
	}
	components.Examples[shared] = example
	m.Examples[name] = &huma.Example{Ref: "#/components/examples/" + shared}
}

// sharedExample returns the name of an example that many operations have, or nothing.
func sharedExample(code apperr.Code, message string) string {
	for suffix, shared := range map[string]string{
		"":             code.Example(),
		".api_key":     tooManyMessage(ratelimit.APIKey),
		".user":        tooManyMessage(ratelimit.User),
		".address":     tooManyMessage(ratelimit.Address),
		".users_only":  messageNeedsUser,
		".permissions": idempotency.MessageLostPermissions,
		".grants":      idempotency.MessageLostGrants,
	} {
		if message == shared {
			return string(code) + suffix
		}
	}
	return ""
}

// messages returns the messages that the operation returns with a code: its own, and those that follow from its
// declaration. Codes that only its capability returns have its own messages only.
func (op Operation) messages(code apperr.Code) []string {
	own := op.Messages[code]
	switch code {
	case apperr.CodeValidation:
		return []string{"Invalid request"}
	case apperr.CodeForbidden:
		if op.TakesIdempotencyKey() {
			own = append([]string{idempotency.MessageLostPermissions}, own...)
		}
		if op.Permission == "" {
			return own
		}
		return append([]string{missingPermission(op.Permission)}, own...)
	case apperr.CodeGrantDenied:
		own = append([]string{missingGrant(op.Route)}, own...)
		if op.TakesIdempotencyKey() {
			own = append(own, idempotency.MessageLostGrants)
		}
		return own
	case apperr.CodeRateLimited:
		return append(own, op.tooMany()...)
	case apperr.CodeUnavailable, apperr.CodeAmbiguousCredentials:
		return append(own, code.Example())
	case apperr.CodeNotFound:
		var messages []string
		for _, kind := range op.missingKinds() {
			messages = append(messages, apperr.NotFound(kind).Message)
		}
		return messages
	case apperr.CodeUnauthorized:
		if len(own) == 0 && !op.Public {
			return append([]string{code.Example()}, op.misplacedMessages()...)
		}
	default:
	}
	if len(own) > 0 {
		return own
	}
	return []string{code.Example()}
}

// tooMany returns the messages of the limits that apply to the operation.
func (op Operation) tooMany() []string {
	var messages []string
	if op.Route != "" {
		messages = append(messages, tooManyMessage(ratelimit.APIKey))
	}
	if !op.Public {
		messages = append(messages, tooManyMessage(ratelimit.User))
	}
	return append(messages, tooManyMessage(ratelimit.Address))
}

// missingKinds returns the kinds of resources that a 404 of the operation may name: those in its path, the last one
// first, and the environment.
func (op Operation) missingKinds() []string {
	kinds := append(kindsInPath(op.Path), op.Missing...)
	if op.Environment {
		kinds = append(kinds, "environment")
	}
	return kinds
}

// kindsInPath returns the kinds of the resources that a path names, the last one first.
func kindsInPath(path string) []string {
	names := map[string]string{"api-keys": "API key", "grants": "grant", "connections": "connection",
		"webhook-secrets": "webhook secret", "webhook-enrolment": "webhook enrolment", "bindings": "role binding",
		"roles": "role", "environments": "environment", "invitations": "invitation", "members": "member",
		"sessions": "session", "sso": "identity provider", "webhook-events": "webhook event", "webhook-replays": "replay",
		"webhook-subscriptions": "webhook subscription", "webhook-rejections": "webhook rejection", "webhook": "connection",
		"provider-configs": "provider configuration", "executions": "execution", "decisions": "decision"}
	var kinds []string
	collection := ""
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "webhook-enrolment":
			kinds = append([]string{names[segment]}, kinds...)
		case names[segment] != "":
			collection = segment
		case strings.HasPrefix(segment, "{") && collection != "":
			kinds = append([]string{names[collection]}, kinds...)
			collection = ""
		}
	}
	return kinds
}

// violations returns the validation error of the operation's example: a missing required field, or an unknown
// parameter.
func (a *API) violations(ho *huma.Operation, code apperr.Code) []apperr.Detail {
	if code != apperr.CodeValidation {
		return nil
	}
	if schema := bodySchema(ho); schema != nil {
		s := resolved(a.huma.OpenAPI().Components.Schemas, schema)
		if len(s.Required) > 0 {
			return []apperr.Detail{{Location: "body." + s.Required[0], Rule: "required", Message: "the field is required"}}
		}
	}
	return []apperr.Detail{unknownParameter("verbose")}
}

func unknownParameter(name string) apperr.Detail {
	return apperr.Detail{Location: "query." + name, Rule: "unknown_parameter", Message: "the parameter is unknown"}
}

func missingPermission(p access.Permission) string {
	return "The user does not have the permission " + string(p)
}

func missingGrant(r access.Route) string {
	return "The API key has no grant for the route " + string(r)
}

// documentErrors adds examples of the codes that the descriptions of a route's error responses name.
func (r Route) documentErrors(a *API, op *huma.Operation) {
	for status, response := range r.Responses {
		if !response.Error {
			continue
		}
		for _, m := range codeInText().FindAllStringSubmatch(response.Description, -1) {
			code := apperr.Code(m[1])
			messages := response.Messages[code]
			switch {
			case len(messages) > 0:
			case code == apperr.CodeNotFound:
				messages = []string{apperr.NotFound(kindsInPath(r.Path)[0]).Message}
			case code == apperr.CodeRateLimited:
				messages = []string{tooManyMessage(ratelimit.Address)}
			case code.Example() == "":
				panic(fmt.Sprintf("%s %s: no message for %s", r.ID, status, code))
			default:
				messages = []string{code.Example()}
			}
			for i, message := range messages {
				a.addErrorExample(op.Responses[status].Content["application/json"], code, message, i, nil)
			}
		}
	}
}

func codeInText() *regexp.Regexp { return regexp.MustCompile("`([a-z_]+)`(?:,|:|;|\\.|$)") }
