package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
)

type enrolmentCommand struct {
	Open    enrolmentOpen    `cmd:"" help:"Wait 10 minutes for the provider's handshake and store the secret that it brings."`
	Show    enrolmentShow    `cmd:"" help:"Show the last enrolment, with a secret that awaits confirmation."`
	Confirm enrolmentConfirm `cmd:"" help:"Use the secret that awaits confirmation, after the provider has accepted it."`
	Close   enrolmentClose   `cmd:"" help:"End the enrolment and discard a secret that awaits confirmation."`
}

const enrolmentSegment = "webhook-enrolment"

// enrolment calls an operation on the enrolment and prints the enrolment of the response.
func (n connectionName) enrolment(ctx context.Context, e *env, flags apiFlags, method string) error {
	return e.withAPI(flags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: method, Path: n.path(enrolmentSegment)})
		if err != nil {
			return err
		}
		return flags.showEnrolment(e, a.Body)
	})
}

// showEnrolment prints the enrolment in a response.
func (f apiFlags) showEnrolment(e *env, body json.RawMessage) error {
	if f.JSON {
		return printRaw(e.stdout, body)
	}
	r, err := into[struct {
		Status     string     `json:"status"`
		OpenedAt   time.Time  `json:"opened_at"`
		ExpiresAt  time.Time  `json:"expires_at"`
		CapturedAt *time.Time `json:"captured_at"`
		SecretID   *string    `json:"webhook_secret_id"`
		Secret     *string    `json:"secret"`
	}](body)
	if err != nil {
		return err
	}
	captured := ""
	if r.CapturedAt != nil {
		captured = clock.Wire(*r.CapturedAt)
	}
	return e.printFields([][2]string{{"Enrolment", r.Status}, {"Opened", clock.Wire(r.OpenedAt)},
		{"Expires", clock.Wire(r.ExpiresAt)}, {"Captured", captured}, {"Webhook secret", value(r.SecretID)},
		{"Secret for the provider", value(r.Secret)}})
}

type enrolmentOpen struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run opens the enrolment.
func (c *enrolmentOpen) Run(ctx context.Context, e *env) error {
	return c.enrolment(ctx, e, c.apiFlags, http.MethodPost)
}

type enrolmentShow struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run shows the enrolment.
func (c *enrolmentShow) Run(ctx context.Context, e *env) error {
	return c.enrolment(ctx, e, c.apiFlags, http.MethodGet)
}

type enrolmentConfirm struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run confirms the enrolment.
func (c *enrolmentConfirm) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path(enrolmentSegment, "confirm")})
		if err != nil {
			return err
		}
		return c.secret(e, a.Body)
	})
}

type enrolmentClose struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// Run ends the enrolment.
func (c *enrolmentClose) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		_, err := api.Call(ctx, apiclient.Request{Method: http.MethodDelete, Path: c.path(enrolmentSegment)})
		if err != nil {
			return err
		}
		return e.reportDone(c.JSON, "the enrolment of %s is ended", c.Provider+"/"+c.ConnectionID)
	})
}
