package main

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type rejectionsCommand struct {
	List rejectionsList `cmd:"" help:"List the last requests that connections rejected, and the reasons."`
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
		Message string `json:"message"`
	} `json:"diagnosis"`
}

type rejectionsList struct {
	ConnectionID      []string `name:"connection-id" placeholder:"ID" help:"Only requests to the connections with these ids."`
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
		t := e.table(terminal.Column{Title: "RECEIVED (UTC)", Fixed: true}, terminal.Column{Title: "CONNECTION"},
			terminal.Column{Title: "FROM"}, terminal.Column{Title: "REASON", Fixed: true},
			terminal.Column{Title: "DIAGNOSIS"})
		n, err := e.rows(ctx, api, apiclient.Request{Path: rejectionsPath, Query: q}, c.paging, c.JSON,
			"rejected requests", t, func(t *terminal.Table, row json.RawMessage) error {
				r, err := into[rejectionRow](row)
				message := r.Message
				if r.Diagnosis != nil {
					message = r.Diagnosis.Message
				}
				t.Row(second(r.ReceivedAt), r.ProviderConfigKey+"/"+r.ConnectionID, r.ClientIP, r.Reason, message)
				return err
			})
		if err == nil && n == 0 {
			e.warnNames(ctx, api, filterNames{configs: c.ProviderConfigKey, connections: c.ConnectionID})
		}
		return err
	})
}
