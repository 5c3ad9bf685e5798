package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sallyport/internal/identity/team"

	"sallyport/internal/app"
	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/rawhttp"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/ingest"
)

// WebhookRequest is a saved request that is to be verified.
type WebhookRequest struct {
	// Connection is provider_config_key/connection_id, or the last segment of the webhook URL, or that URL.
	Connection string
	// Environment is an environment's id or name; empty for any that has such a connection.
	Environment string
	Request     *rawhttp.Request
	// ReceivedAt is when the request arrived.
	ReceivedAt time.Time
	// RemoteIP is the sender's address; invalid if it is not known.
	RemoteIP netip.Addr
}

// WebhookVerdict says how a server would handle a request, and why. It holds no secret and no signature.
type WebhookVerdict struct {
	// Accepted reports whether the request would be stored or, if it is a handshake, completed. Verified reports whether
	// its sender is proved.
	Accepted   bool              `json:"accepted"`
	Verified   bool              `json:"verified"`
	Connection WebhookConnection `json:"connection"`
	ReceivedAt httpapi.Time      `json:"received_at"`
	// Scheme names the proof that passed; empty for a refusal and for a handshake.
	Scheme string `json:"scheme,omitempty"`
	// Secret is the one that matched; nil where none did.
	Secret    *WebhookSecret    `json:"secret"`
	Event     *WebhookEvent     `json:"event"`
	Handshake *WebhookHandshake `json:"handshake"`
	Refusal   *WebhookRefusal   `json:"refusal"`
	// Notes are sentences about the file and about what was not checked.
	Notes []string `json:"notes"`
}

// WebhookConnection names a connection and the definition that its deliveries are verified by.
type WebhookConnection struct {
	UUID              string          `json:"uuid"`
	EnvironmentID     string          `json:"environment_id"`
	Environment       string          `json:"environment"`
	ProviderConfigKey string          `json:"provider_config_key"`
	ConnectionID      string          `json:"connection_id"`
	Provider          string          `json:"provider"`
	Source            registry.Source `json:"definition_source"`
}

// WebhookSecret names a secret without its value.
type WebhookSecret struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Hint  string `json:"hint"`
}

// WebhookEvent describes the event of a delivery.
type WebhookEvent struct {
	Types      []string `json:"types"`
	TypeSigned bool     `json:"type_signed"`
	ID         string   `json:"id"`
	IDSource   string   `json:"id_source"`
	IDSigned   bool     `json:"id_signed"`
	// BodyWindowSeconds is how long the same body counts as a duplicate if there is no ID. It is 0 if equal bodies are
	// different events, and if there is an ID.
	BodyWindowSeconds int64         `json:"body_window_seconds"`
	Control           bool          `json:"control"`
	OccurredAt        *httpapi.Time `json:"occurred_at"`
}

// WebhookHandshake is the response to a handshake. Its body is left out: it may be a signature.
type WebhookHandshake struct {
	Status   int  `json:"status"`
	Captures bool `json:"captures_secret"`
}

// WebhookRefusal is why a request would be refused.
type WebhookRefusal struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Cause and Diagnosis are the likely causes of the refusal; empty if none was found.
	Cause     string `json:"cause,omitempty"`
	Diagnosis string `json:"diagnosis,omitempty"`
}

// VerifyWebhook returns what a server with this configuration would do with a saved request. It stores nothing, and
// works next to a running server. Errors in the request itself, such as a connection that does not exist, are
// *apperr.Error.
func VerifyWebhook(ctx context.Context, cfg *config.Config, clk clock.Clock,
	r WebhookRequest) (v WebhookVerdict, err error) {
	log := slog.New(slog.DiscardHandler) // what a server would log stands in the verdict
	s, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	live, err := app.LoadProviders(cfg, log)
	if err != nil {
		return v, err
	}
	client := app.NewEgress(cfg, clk)
	svc, err := connections.New(connections.Config{DB: s.DB, Clock: clk, Box: s.Box, Providers: live,
		Vault:        credentials.NewVault(credentials.Config{DB: s.DB, Clock: clk, Box: s.Box}), // only described here
		Environments: s.Identity.Team, Keyring: verification.NewKeyring(verification.NewKeyFetcher(client)), Logger: log})
	if err != nil {
		return v, err
	}
	c, env, err := findConnection(ctx, s.Identity, svc, r)
	if err != nil {
		return v, err
	}
	in, err := svc.Lookup(ctx, c.PathToken)
	if err != nil {
		return v, err
	}
	request := asReceived(r, in, cfg.PublicURL)
	trial := ingest.DryRun(ctx, in, request, cfg.WebhookMaxBodyBytes, cfg.WebhookDedupeWindow)
	v = verdict(trial)
	v.ReceivedAt = httpapi.Time(r.ReceivedAt)
	v.Connection = WebhookConnection{
		UUID: c.UUID, EnvironmentID: string(env.ID), Environment: env.Name, ProviderConfigKey: c.ProviderConfigKey,
		ConnectionID: c.ConnectionID, Provider: c.Provider, Source: in.Provider.Source,
	}
	v.Notes = append(append([]string{}, r.Request.Notes...), doubts(in, r, trial)...)
	if trial.Result.KeyID != "" {
		v.Secret, err = nameSecret(ctx, svc, c, trial.Result.KeyID)
	}
	return v, err
}

// asReceived is the request as verification would have seen it.
func asReceived(r WebhookRequest, in *connections.Inbound, publicURL string) *verification.Request {
	request := &verification.Request{
		Method: r.Request.Method, PublicURL: publicURL, Host: r.Request.Host, Path: r.Request.Path,
		RawQuery: r.Request.RawQuery, Header: r.Request.Header, Body: r.Request.Body, RemoteIP: r.RemoteIP, Now: r.ReceivedAt,
	}
	if request.Method == "" {
		request.Method, request.Path = http.MethodPost, webhookPath+in.Connection.PathToken
	}
	return request
}

// webhookPath is the prefix of a connection's segment in its webhook URL.
const webhookPath = httpapi.Prefix + "/webhook/"

// findConnection finds the connection that an operator names.
func findConnection(ctx context.Context, ids *identity.Services, svc *connections.Service,
	r WebhookRequest) (connections.Connection, team.Environment, error) {
	environments, err := ids.Team.Environments(ctx, commandLine())
	if err == nil && r.Environment != "" {
		var one team.Environment
		one, err = findEnvironment(ctx, ids.Team, commandLine(), r.Environment)
		environments = []team.Environment{one}
	}
	if err != nil {
		return connections.Connection{}, team.Environment{}, err
	}
	name := r.Connection
	if _, segment, isURL := strings.Cut(name, webhookPath); isURL {
		name = segment
	}
	if key, connectionID, named := strings.Cut(name, "/"); named {
		return findNamed(ctx, svc, environments, key, connectionID)
	}
	in, err := svc.Lookup(ctx, name)
	if err != nil {
		return connections.Connection{}, team.Environment{}, err
	}
	for _, env := range environments {
		if env.ID == in.Connection.Environment {
			return in.Connection, env, nil
		}
	}
	return connections.Connection{}, team.Environment{}, apperr.NotFound("connection")
}

func findNamed(ctx context.Context, svc *connections.Service, environments []team.Environment, key,
	connectionID string) (c connections.Connection, env team.Environment, err error) {
	var holders []string
	for _, e := range environments {
		found, err := svc.Get(ctx, access.Whole(e.ID), key, connectionID)
		if apperr.Is(err, apperr.CodeNotFound) {
			continue
		}
		if err != nil {
			return c, env, err
		}
		c, env = found, e
		holders = append(holders, e.Name)
	}
	switch len(holders) {
	case 0:
		return c, env, apperr.NotFound("connection")
	case 1:
		return c, env, nil
	default:
		return c, env, fmt.Errorf("several environments have such a connection (%s); choose one with --environment",
			strings.Join(holders, ", "))
	}
}

func verdict(t ingest.DryRunResult) WebhookVerdict {
	switch {
	case t.Refusal != nil:
		return WebhookVerdict{Refusal: &WebhookRefusal{
			Reason: string(t.Refusal.Reason), Message: t.Refusal.Message, Cause: string(t.Diagnosis.Cause),
			Diagnosis: t.Diagnosis.Message,
		}}
	case t.Handshake != 0:
		return WebhookVerdict{Accepted: true, Handshake: &WebhookHandshake{Status: t.Handshake, Captures: t.Captures}}
	}
	e := WebhookEvent{Types: t.Event.Types, TypeSigned: t.Event.TypeSigned, ID: t.Event.ID, IDSource: t.Event.IDSource,
		IDSigned: t.Event.IDSigned, Control: t.Event.Control, BodyWindowSeconds: int64(t.BodyWindow / time.Second)}
	if e.Types == nil {
		e.Types = []string{t.Event.Type}
	}
	if !t.Event.OccurredAt.IsZero() {
		at := httpapi.Time(t.Event.OccurredAt)
		e.OccurredAt = &at
	}
	return WebhookVerdict{Accepted: true, Verified: t.Result.Verified, Scheme: t.Result.Scheme, Event: &e}
}

// doubts says what a verdict does not rest on.
func doubts(in *connections.Inbound, r WebhookRequest, t ingest.DryRunResult) []string {
	var notes []string
	if in.Unusable {
		notes = append(notes, "The connection's settings or secrets do not fit the provider's definition, so that it "+
			"refuses everything: "+in.Misfit.Error())
	}
	if in.Connection.Status == connections.Disabled {
		notes = append(notes, "The connection is disabled: a server refuses its deliveries with 503 until it is enabled.")
	}
	if !r.RemoteIP.IsValid() && (len(in.Sources) > 0 || len(in.Verifier.Networks()) > 0) {
		notes = append(notes, "The sender's address was not compared with the networks that deliveries have to come from; "+
			"name it with --remote-ip.")
	}
	if t.Refusal != nil && t.Refusal.Reason == verification.ReasonTimestampOutOfRange {
		notes = append(notes, "The age was counted to "+r.ReceivedAt.UTC().Format(time.RFC3339)+
			". For a request that was saved earlier say with --at when it was received.")
	}
	if t.Captures {
		notes = append(notes, "The handshake hands a secret over. A server accepts it only while an enrolment of the "+
			"connection is open.")
	}
	return notes
}

func nameSecret(ctx context.Context, svc *connections.Service, c connections.Connection,
	secretID string) (*WebhookSecret, error) {
	list, err := svc.Secrets(ctx, access.Whole(c.Environment), c.ProviderConfigKey, c.ConnectionID)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.ID == secretID {
			return &WebhookSecret{ID: s.ID, Label: s.Label, Hint: s.Hint}, nil
		}
	}
	return nil, nil //nolint:nilnil // a key of the provider's matched, or the secret was deleted at this moment
}
