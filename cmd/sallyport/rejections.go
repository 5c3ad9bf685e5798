package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type rejectionsCommand struct {
	List rejectionsList `cmd:"" help:"List the last requests that connections rejected, and the reasons."`
	Show rejectionsShow `cmd:"" help:"Show a rejected request with its headers and the beginning of its body."`
}

const rejectionsPath = "/webhook-rejections"

// rejectionRow holds the properties of a rejected request that commands show.
type rejectionRow struct {
	ID                string    `json:"id"`
	Provider          string    `json:"provider"`
	ProviderConfigKey string    `json:"provider_config_key"`
	ConnectionID      string    `json:"connection_id"`
	ReceivedAt        time.Time `json:"received_at"`
	Reason            string    `json:"reason"`
	Message           string    `json:"message"`
	ClientIP          string    `json:"client_ip"`
	Diagnosis         *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"diagnosis"`
	Method       string            `json:"method"`
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body"`
	BodyEncoding *string           `json:"body_encoding"`
	BodySize     int64             `json:"body_size"`
	Truncated    bool              `json:"truncated"`
	Suppressed   int64             `json:"suppressed"`
}

type rejectionsList struct {
	ConnectionID      []string `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only requests to the connections with these ids. --connection is the same flag."`
	ProviderConfigKey []string `placeholder:"KEY" help:"Only requests to connections of these provider configurations."`
	Reason            []string `placeholder:"REASON" help:"Only requests rejected for these reasons, such as signature_mismatch."`
	paging            `embed:""`
	apiFlags          `embed:""`
}

// Run lists the rejected requests. It shows the likely cause if the server found one.
func (c *rejectionsList) Run(ctx context.Context, e *env) error {
	q := url.Values{"connection_id": c.ConnectionID, "provider_config_key": c.ProviderConfigKey, "reason": c.Reason,
		"order": {c.Order}}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		t := e.table(terminal.Column{Title: "REJECTION", Fixed: true}, terminal.Column{Title: "RECEIVED (UTC)", Fixed: true},
			terminal.Column{Title: "CONNECTION"}, terminal.Column{Title: "FROM"}, terminal.Column{Title: "REASON", Fixed: true},
			terminal.Column{Title: "DIAGNOSIS"})
		n, err := e.rows(ctx, api, apiclient.Request{Path: rejectionsPath, Query: q}, c.paging, c.JSON,
			"rejected requests", t, func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[rejectionRow](row)
				message := r.Message
				if r.Diagnosis != nil {
					message = r.Diagnosis.Message
				}
				t.Row(r.ID, second(r.ReceivedAt), r.ProviderConfigKey+"/"+r.ConnectionID, r.ClientIP, r.Reason, message)
				return err
			})
		if err == nil && n == 0 {
			e.warnNames(ctx, api, filterNames{configs: c.ProviderConfigKey, connections: c.ConnectionID})
		}
		return err
	})
}

type rejectionsShow struct {
	ID       string `arg:"" name:"rejection_id" help:"The rejected request, as rejections list names it."`
	apiFlags `embed:""`
}

// Run shows the rejected request.
func (c *rejectionsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: rejectionsPath + apiclient.Path(c.ID)})
		if err != nil {
			return err
		}
		if c.JSON {
			return printRaw(e.stdout, a.Body)
		}
		r, err := into[rejectionRow](a.Body)
		if err != nil {
			return err
		}
		if err := e.printFields(r.fields()); err != nil {
			return err
		}
		if err := e.printHeaders(r.Headers); err != nil || r.unread() {
			return err
		}
		return e.printBody(payload{Body: r.Body, BodyEncoding: r.BodyEncoding})
	})
}

// unread reports whether the request was rejected before its body was read.
func (r *rejectionRow) unread() bool { return string(r.Body) == `""` }

func (r *rejectionRow) fields() [][2]string {
	size := strconv.FormatInt(r.BodySize, 10) + " bytes"
	switch {
	case r.Truncated && r.unread():
		size += ", which were not read"
	case r.Truncated:
		size += ", of which the beginning is kept"
	}
	fields := [][2]string{{"Rejection", r.ID}, {"Received", clock.Wire(r.ReceivedAt)}, {"Connection", r.ProviderConfigKey +
		"/" + r.ConnectionID}, {"From", r.ClientIP}, {"Method", r.Method}, {"Reason", r.Reason}, {"Message", r.Message}}
	if r.Diagnosis != nil {
		fields = append(fields, [2]string{"Diagnosis", r.Diagnosis.Code + ": " + r.Diagnosis.Message})
	}
	if r.Suppressed > 0 {
		fields = append(fields, [2]string{"Not kept", strconv.FormatInt(r.Suppressed, 10) + " further rejections after it"})
	}
	return append(fields, [2]string{"Body", size})
}
