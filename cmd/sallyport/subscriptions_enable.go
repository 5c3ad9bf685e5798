package main

import (
	"context"
	"net/http"

	"sallyport/internal/platform/apiclient"
)

type subscriptionsEnable struct {
	IDs      []string `arg:"" name:"subscription_id" help:"The subscriptions."`
	apiFlags `embed:""`
}

// Run enables them.
func (c *subscriptionsEnable) Run(ctx context.Context, e *env) error {
	return e.setEnabled(ctx, c.apiFlags, c.IDs, true)
}

type subscriptionsDisable struct {
	IDs      []string `arg:"" name:"subscription_id" help:"The subscriptions."`
	apiFlags `embed:""`
}

// Run disables them.
func (c *subscriptionsDisable) Run(ctx context.Context, e *env) error {
	return e.setEnabled(ctx, c.apiFlags, c.IDs, false)
}

// setEnabled enables or disables subscriptions. One that cannot be changed does not stop the others.
func (e *env) setEnabled(ctx context.Context, flags apiFlags, ids []string, enabled bool) error {
	result := "%s is disabled"
	if enabled {
		result = "%s is enabled"
	}
	return e.withAPI(flags, func(api *apiclient.Client) error {
		failed, err := e.each(ctx, ids, func(id string) error {
			if _, err := api.Call(ctx, apiclient.Request{Method: http.MethodPatch, Path: subscriptionsPath +
				apiclient.Path(id), Body: map[string]any{"enabled": enabled}}); err != nil {
				return err
			}
			return e.reportDone(flags.JSON, result, id)
		})
		if err == nil && failed > 0 {
			return exitError(exitFailed)
		}
		return err
	})
}
