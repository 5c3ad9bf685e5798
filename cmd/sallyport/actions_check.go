package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

type actionsCheck struct {
	Action       string `arg:"" name:"action" help:"The action, as PROVIDER/ACTION."`
	ConnectionID string `required:"" name:"connection-id" placeholder:"ID" aliases:"connection" help:"The connection whose credentials would be used. --connection is the same flag."`
	actionInput  `embed:""`
	apiFlags     `embed:""`
}

// checkRow holds the properties of a check that the command shows.
type checkRow struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	Policies []struct {
		Name string `json:"name"`
	} `json:"matched_policies"`
	Risk   riskRow `json:"risk"`
	Scopes struct {
		Missing []string `json:"missing"`
	} `json:"scopes"`
	Connection struct {
		Status string `json:"status"`
		Ready  bool   `json:"ready"`
		Reason string `json:"reason"`
	} `json:"connection"`
	InputValid *bool `json:"input_valid"`
	Details    []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"details"`
}

// Run shows what would come of the action.
func (c *actionsCheck) Run(ctx context.Context, e *env) error {
	provider, action, err := splitAction(c.Action)
	if err != nil {
		return err
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		body := map[string]any{"connection_id": c.ConnectionID}
		if len(c.Set) > 0 || c.InputJSON != "" || c.InputFile != "" {
			if body["input"], err = c.input(ctx, e, api, provider, action, false); err != nil {
				return err
			}
		}
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost,
			Path: "/actions" + apiclient.Path(provider, action) + "/policy-check", Body: body})
		if err != nil {
			return err
		}
		r, err := into[checkRow](a.Body)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printRaw(e.stdout, a.Body)
		} else {
			err = r.print(e)
		}
		if err == nil && !r.runs() {
			err = exitError(exitFailed)
		}
		return err
	})
}

// runs reports whether the action would be run.
func (r *checkRow) runs() bool {
	return (r.Decision == "allow" || r.Decision == "transform") && r.Connection.Ready &&
		(r.InputValid == nil || *r.InputValid)
}

func (r *checkRow) print(e *env) error {
	names := make([]string, len(r.Policies))
	for i := range r.Policies {
		names[i] = r.Policies[i].Name
	}
	input := "not given"
	if r.InputValid != nil {
		if input = "valid"; !*r.InputValid {
			input = "not valid"
		}
	}
	connection := r.Connection.Status
	if !r.Connection.Ready {
		connection += ": " + r.Connection.Reason
	}
	err := e.printFields([][2]string{{"Decision", r.Decision}, {"Reason", r.Reason},
		{"Policies", strings.Join(names, ", ")}, {"Risk", r.Risk.Level + " (" + r.Risk.Operation + ")"},
		{"Connection", connection}, {"Missing scopes", strings.Join(r.Scopes.Missing, ", ")}, {"Input", input}})
	for _, d := range r.Details {
		if err == nil {
			_, err = fmt.Fprintln(e.stdout, "  "+terminal.Inline(d.Location+": "+d.Message))
		}
	}
	return err
}
