package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type subscriptionsCommand struct {
	List    subscriptionsList    `cmd:"" help:"List webhook subscriptions."`
	Show    subscriptionsShow    `cmd:"" help:"Show a subscription."`
	Create  subscriptionsCreate  `cmd:"" help:"Forward events of these types to a URL. The signing secret is shown only once."`
	Update  subscriptionsUpdate  `cmd:"" help:"Change a subscription."`
	Enable  subscriptionsEnable  `cmd:"" help:"Enable subscriptions, which releases their held deliveries."`
	Disable subscriptionsDisable `cmd:"" help:"Disable subscriptions: their deliveries are held until they are enabled."`
	Rotate  subscriptionsRotate  `cmd:"" name:"rotate-secret" help:"Give a subscription a new signing secret, which is shown only once. The old one keeps signing alongside it for a while."`
	Delete  subscriptionsDelete  `cmd:"" help:"Delete subscriptions; their open deliveries are cancelled."`
	Test    subscriptionsTest    `cmd:"" help:"Send one signed test request to a subscription's URL; exit with 1 if it is not accepted."`
	Trigger subscriptionsTrigger `cmd:"" help:"Send a signed sample of a provider's webhook through a connection: verified, stored, matched and forwarded like a real one."`
	Stats   subscriptionsStats   `cmd:"" help:"Show statistics of a subscription's deliveries over time."`
}

const subscriptionsPath = "/webhook-subscriptions"

// subscriptionRow holds the properties of a subscription that commands show.
type subscriptionRow struct {
	ID                string             `json:"id"`
	ProviderConfigKey *string            `json:"provider_config_key"`
	ConnectionID      *string            `json:"connection_id"`
	EventTypes        []string           `json:"event_types"`
	ForwardURL        string             `json:"forward_url"`
	SigningSecretHint string             `json:"signing_secret_hint"`
	SigningSecret     string             `json:"signing_secret"`
	RetiringSecrets   []retiringRow      `json:"retiring_signing_secrets"`
	Filter            *string            `json:"filter"`
	Description       string             `json:"description"`
	Enabled           bool               `json:"enabled"`
	DisabledReason    *string            `json:"disabled_reason"`
	Health            subscriptionHealth `json:"health"`
	PayloadMode       string             `json:"payload_mode"`
	RetrySchedule     []float64          `json:"retry_schedule_seconds"`
	TimeoutMs         int64              `json:"timeout_ms"`
	Headers           map[string]string  `json:"headers"`
	Warnings          []warningRow       `json:"warnings"`
	CreatedAt         time.Time          `json:"created_at"`
	UpdatedAt         time.Time          `json:"updated_at"`
}

// retiringRow is a replaced signing secret that still signs.
type retiringRow struct {
	Hint       string    `json:"hint"`
	SignsUntil time.Time `json:"signs_until"`
}

// warningRow is a warning of a response.
type warningRow struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// warn prints the warnings of a response to standard error, also with --json.
func (e *env) warn(list []warningRow) {
	for _, w := range list {
		e.note("warning: %s: %s", w.Location, w.Message)
	}
}

// warnings returns the warnings in a response.
func warnings(body json.RawMessage) []warningRow {
	r, err := into[subscriptionRow](body)
	if err != nil {
		return nil // it was printed, or that failed
	}
	return r.Warnings
}

// scope names the connections that the subscription matches.
func (r *subscriptionRow) scope() string {
	key, connection := "any", "any"
	if r.ProviderConfigKey != nil {
		key = *r.ProviderConfigKey
	}
	if r.ConnectionID != nil {
		connection = *r.ConnectionID
	}
	if key == "any" && connection == "any" {
		return "any"
	}
	return key + "/" + connection
}

// subscriptionHealth holds the properties of a subscription's health that commands show.
type subscriptionHealth struct {
	State        string     `json:"state"`
	FailingSince *time.Time `json:"failing_since"`
}

func (r *subscriptionRow) state() string {
	switch {
	case r.Enabled && r.Health.FailingSince != nil:
		return "failing: its deliveries are held since " + clock.Wire(*r.Health.FailingSince)
	case r.Enabled:
		return "enabled"
	case r.DisabledReason != nil:
		return "disabled: " + *r.DisabledReason
	default:
		return "disabled"
	}
}

func stateTone(state string) terminal.Tone {
	if strings.HasPrefix(state, "disabled") || strings.HasPrefix(state, "failing") {
		return terminal.Busy
	}
	return terminal.Plain
}

// print writes the subscription's properties.
func (r *subscriptionRow) print(e *env) error {
	schedule := make([]string, len(r.RetrySchedule))
	for i, s := range r.RetrySchedule {
		schedule[i] = span(time.Duration(s * float64(time.Second)))
	}
	retries := strings.Join(schedule, " ")
	if len(schedule) == 0 {
		retries = "none"
	}
	fields := [][2]string{
		{"Subscription", r.ID}, {"State", r.state()}, {"Event types", strings.Join(r.EventTypes, " ")},
		{"Connections", r.scope()}, {"Filter", value(r.Filter)},
		{"Forward URL", r.ForwardURL}, {"Payload mode", r.PayloadMode},
		{"Timeout", span(time.Duration(r.TimeoutMs) * time.Millisecond)}, {"Retries after", retries},
		{"Description", r.Description}, {"Created", clock.Wire(r.CreatedAt)}, {"Updated", clock.Wire(r.UpdatedAt)},
	}
	if r.SigningSecret == "" && r.SigningSecretHint != "" {
		fields = append(fields, [2]string{"Signing secret", "…" + r.SigningSecretHint})
	}
	fields = append(fields, [2]string{"Signing secret", r.SigningSecret})
	for _, old := range r.RetiringSecrets {
		fields = append(fields, [2]string{"Old secret", "…" + old.Hint + " signs until " + clock.Wire(old.SignsUntil)})
	}
	if err := e.printFields(fields); err != nil || len(r.Headers) == 0 {
		return err
	}
	return e.printHeaders(r.Headers)
}

// span writes a duration without the units that are zero at its end: 2m for 2m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

type subscriptionsList struct {
	ProviderConfigKey []string `placeholder:"KEY" aliases:"provider" help:"Only subscriptions to these provider configurations. --provider is the same flag."`
	ConnectionID      []string `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only subscriptions to these connections. --connection is the same flag."`
	Enabled           *bool    `negatable:"" help:"Only enabled subscriptions, or only disabled ones."`
	paging            `embed:""`
	apiFlags          `embed:""`
}

// Run lists the subscriptions.
func (c *subscriptionsList) Run(ctx context.Context, e *env) error {
	q := url.Values{"provider_config_key": c.ProviderConfigKey, "connection_id": c.ConnectionID, "order": {c.Order}}
	if c.Enabled != nil {
		q.Set("enabled", strconv.FormatBool(*c.Enabled))
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "SUBSCRIPTION", Fixed: true}, terminal.Column{Title: "EVENT TYPES"},
			terminal.Column{Title: "CONNECTIONS"}, terminal.Column{Title: "FORWARD URL"}, terminal.Column{Title: "STATE",
				Tone: stateTone})
		return e.list(ctx, api, apiclient.Request{Path: subscriptionsPath, Query: q}, c.paging, c.JSON, "subscriptions", t,
			func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[subscriptionRow](row)
				t.Row(r.ID, strings.Join(r.EventTypes, " "), r.scope(), r.ForwardURL, r.state())
				return err
			})
	})
}

type subscriptionsShow struct {
	ID       string `arg:"" name:"subscription_id" help:"The subscription."`
	apiFlags `embed:""`
}

// Run shows the subscription.
func (c *subscriptionsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: subscriptionsPath + apiclient.Path(c.ID)})
		if err != nil {
			return err
		}
		return c.show(e, a.Body)
	})
}

// show prints the subscription in a response.
func (f apiFlags) show(e *env, body json.RawMessage) error {
	if f.JSON {
		return printRaw(e.stdout, body)
	}
	r, err := into[subscriptionRow](body)
	if err != nil {
		return err
	}
	return r.print(e)
}

// subscriptionFields are the properties that create and update have flags for. --from-file takes every property.
type subscriptionFields struct {
	EventTypes        []string          `placeholder:"PATTERN" help:"The types to forward: issues.* matches those that begin with \"issues.\", and * matches every type."`
	ForwardURL        string            `name:"forward-url" placeholder:"URL" help:"The URL that events are posted to."`
	ProviderConfigKey string            `placeholder:"KEY" aliases:"provider" help:"Only events of this provider configuration. --provider is the same flag."`
	ConnectionID      string            `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only events of connections with this id. --connection is the same flag."`
	Filter            string            `placeholder:"CEL" help:"A condition on the event beyond its type, such as event.body.action == \"opened\"."`
	Description       string            `placeholder:"TEXT" help:"A description for people."`
	PayloadMode       string            `enum:",envelope,raw" default:"" placeholder:"MODE" help:"envelope: a JSON object with the event's type, time, id, origin, headers and data. raw: the provider's bytes and headers."`
	TimeoutMs         int64             `name:"timeout-ms" placeholder:"N" help:"Timeout of an attempt, in milliseconds."`
	RetrySchedule     []float64         `name:"retry-schedule-seconds" placeholder:"N" xor:"retries" help:"The seconds to wait before each retry."`
	NoRetries         bool              `name:"no-retries" xor:"retries" help:"Make a single attempt."`
	HeaderFile        map[string]string `placeholder:"NAME=PATH" mapsep:"none" help:"A header of every request, such as Authorization, whose value is in a file; - reads standard input."`
	SigningSecretFile string            `placeholder:"PATH" help:"File that contains only the signing secret; - reads it from standard input."`
	FromFile          string            `placeholder:"PATH" help:"JSON file with the subscription's properties, as in the API; - reads standard input. Flags take precedence."`
}

// body returns the request's body.
func (f *subscriptionFields) body(e *env) (map[string]any, error) {
	inputs := 0
	for _, path := range append(slices.Collect(maps.Values(f.HeaderFile)), f.FromFile, f.SigningSecretFile) {
		if path == "-" {
			inputs++
		}
	}
	if inputs > 1 {
		return nil, usageError("only one of --from-file, --header-file and --signing-secret-file can read standard input")
	}
	body, err := e.readProperties(f.FromFile)
	if err != nil {
		return nil, err
	}
	if len(f.EventTypes) > 0 {
		body["event_types"] = f.EventTypes
	}
	switch {
	case f.NoRetries:
		body["retry_schedule_seconds"] = []float64{}
	case len(f.RetrySchedule) > 0:
		body["retry_schedule_seconds"] = f.RetrySchedule
	}
	if len(f.HeaderFile) > 0 {
		headers := map[string]any{}
		for name, path := range f.HeaderFile {
			if headers[name], err = e.readSecret(path); err != nil {
				return nil, err
			}
		}
		body["headers"] = headers
	}
	if f.TimeoutMs != 0 {
		body["timeout_ms"] = f.TimeoutMs
	}
	for name, v := range map[string]string{"forward_url": f.ForwardURL, "provider_config_key": f.ProviderConfigKey,
		"connection_id": f.ConnectionID, "filter": f.Filter, "description": f.Description, "payload_mode": f.PayloadMode} {
		if v != "" {
			body[name] = v
		}
	}
	if f.SigningSecretFile != "" {
		if body["signing_secret"], err = e.readSecret(f.SigningSecretFile); err != nil {
			return nil, err
		}
	}
	return body, nil
}

type subscriptionsCreate struct {
	subscriptionFields `embed:""`
	Disabled           bool `help:"Create it disabled: its deliveries are held until it is enabled."`
	apiFlags           `embed:""`
}

// Run creates the subscription.
func (c *subscriptionsCreate) Run(ctx context.Context, e *env) error {
	body, err := c.body(e)
	if err != nil {
		return err
	}
	if c.Disabled {
		body["enabled"] = false
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: subscriptionsPath, Body: body})
		if err != nil {
			return err
		}
		if err := c.show(e, a.Body); err != nil {
			return err
		}
		e.warn(warnings(a.Body))
		if r, err := into[subscriptionRow](a.Body); err == nil && r.SigningSecret != "" {
			e.note("The signing secret is shown only once. Give it to the receiver, which verifies every request with it.")
		}
		return nil
	})
}

type subscriptionsUpdate struct {
	ID                 string `arg:"" name:"subscription_id" help:"The subscription."`
	subscriptionFields `embed:""`
	Enabled            *bool    `negatable:"" help:"Enable it, which releases held deliveries, or disable it."`
	SecretGrace        *int64   `name:"secret-grace-seconds" placeholder:"N" help:"Time that a replaced secret keeps signing alongside the new one, 86400 (a day) by default; 0 ends it immediately."`
	Clear              []string `placeholder:"NAME" enum:"provider_config_key,connection_id,filter,description,headers,metadata" help:"Clear these properties: provider_config_key, connection_id, filter, description, headers, metadata."`
	apiFlags           `embed:""`
}

// Run changes the subscription.
func (c *subscriptionsUpdate) Run(ctx context.Context, e *env) error {
	body, err := c.body(e)
	if err != nil {
		return err
	}
	if c.Enabled != nil {
		body["enabled"] = *c.Enabled
	}
	if c.SecretGrace != nil {
		body["secret_grace_seconds"] = *c.SecretGrace
	}
	for _, name := range c.Clear {
		if _, ok := body[name]; ok {
			return usageError(name + " cannot be set and cleared at the same time")
		}
		body[name] = nil
	}
	if len(body) == 0 {
		return usageError("nothing to change: give a property by its flag or by --from-file")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPatch, Path: subscriptionsPath + apiclient.Path(c.ID),
			Body: body})
		if err != nil {
			return err
		}
		if err := c.show(e, a.Body); err != nil {
			return err
		}
		e.warn(warnings(a.Body))
		return nil
	})
}

type subscriptionsRotate struct {
	ID          string `arg:"" name:"subscription_id" help:"The subscription."`
	SecretGrace *int64 `name:"secret-grace-seconds" placeholder:"N" help:"Time that the old secret keeps signing alongside the new one, 86400 (a day) by default; 0 ends it immediately."`
	apiFlags    `embed:""`
}

// Run replaces the signing secret with one that the server generates.
func (c *subscriptionsRotate) Run(ctx context.Context, e *env) error {
	body := map[string]any{"signing_secret": nil}
	if c.SecretGrace != nil {
		body["secret_grace_seconds"] = *c.SecretGrace
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPatch, Path: subscriptionsPath + apiclient.Path(c.ID),
			Body: body})
		if err != nil {
			return err
		}
		if err := c.show(e, a.Body); err != nil {
			return err
		}
		e.note("The signing secret is shown only once. Give it to the receiver, which verifies every request with it.")
		return nil
	})
}

type subscriptionsDelete struct {
	IDs      []string `arg:"" name:"subscription_id" help:"The subscriptions."`
	apiFlags `embed:""`
}

// Run deletes them. A subscription that cannot be deleted does not stop the others.
func (c *subscriptionsDelete) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		failed, err := e.each(ctx, c.IDs, func(id string) error {
			if _, err := api.Call(ctx, apiclient.Request{Method: http.MethodDelete, Path: subscriptionsPath +
				apiclient.Path(id)}); err != nil {
				return err
			}
			return e.reportDone(c.JSON, "%s is deleted", id)
		})
		if err == nil && failed > 0 {
			return exitError(exitFailed)
		}
		return err
	})
}

// reportDone reports the result, unless --json is given: these commands have no JSON.
func (e *env) reportDone(asJSON bool, format, name string) error {
	if asJSON {
		return nil
	}
	_, err := fmt.Fprintf(e.stdout, format+"\n", terminal.Inline(name))
	return err
}
