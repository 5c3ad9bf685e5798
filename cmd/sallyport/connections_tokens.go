package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type connectionsRevoke struct {
	connectionName `embed:""`
	Yes            bool `help:"Confirm that the credentials are to be revoked and removed, which cannot be undone."`
	apiFlags       `embed:""`
}

// Validate requires the confirmation.
func (c *connectionsRevoke) Validate() error {
	if !c.Yes {
		return errors.New("revoked credentials cannot be restored; --yes confirms that they are to be revoked and removed")
	}
	return nil
}

// Run revokes the credentials.
func (c *connectionsRevoke) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path(),
			Body: map[string]any{"operation": "revoke"}})
		if err != nil {
			return err
		}
		var out struct {
			Reason *string `json:"reason"`
		}
		if err := json.Unmarshal(a.Body, &out); err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		name := c.Provider + "/" + c.ConnectionID
		if out.Reason != nil {
			e.note("The credentials are removed here. The provider has not revoked them: %s", terminal.Inline(*out.Reason))
		}
		return e.reportDone(c.JSON, "the credentials of %s are removed", name)
	})
}
