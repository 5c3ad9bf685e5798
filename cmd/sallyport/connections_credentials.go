package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

// credentialFlags are the flags of what requests to the provider are made from.
type credentialFlags struct {
	AuthMode   string            `placeholder:"MODE" help:"The mode of the provider's definition that the credentials are for, as shown by providers show. Default: the first that they fit."`
	Credential map[string]string `name:"credentials" mapsep:"none" placeholder:"NAME=PATH" help:"A credential for requests to the provider, such as token=token.txt: its name, as shown by providers show, and the file that contains only its value; - reads it from standard input. May be given several times. Credentials replace all that are stored."`
	Config     map[string]string `name:"connection-config" mapsep:"none" placeholder:"NAME=VALUE" help:"A value that the provider's definition needs from each connection, such as a subdomain; may be given several times."`
	Test       *bool             `negatable:"" help:"Whether credentials are tested at the provider before they are stored. Default: yes."`
}

// add adds what the flags say to a body.
func (f *credentialFlags) add(e *env, body map[string]any) error {
	if f.AuthMode != "" {
		body["auth_mode"] = f.AuthMode
	}
	if f.Test != nil {
		body["test"] = *f.Test
	}
	if len(f.Config) > 0 {
		body["connection_config"] = f.Config
	}
	if len(f.Credential) == 0 {
		return nil
	}
	values, piped := map[string]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(f.Credential)) {
		if f.Credential[name] == "-" {
			if piped++; piped > 1 {
				return usageError("only one credential can be read from standard input")
			}
		}
		value, err := e.readSecret(f.Credential[name])
		if err != nil {
			return err
		}
		values[name] = value
	}
	body["credentials"] = values
	return nil
}

// reads reports whether a flag reads standard input.
func (f *credentialFlags) reads() bool {
	return slices.Contains(slices.Collect(maps.Values(f.Credential)), "-")
}

// authRow holds the properties of a connection that are about requests to the provider.
type authRow struct {
	AuthMode         string            `json:"auth_mode"`
	ConnectionConfig map[string]string `json:"connection_config"`
	Credentials      *struct {
		Fields      []string   `json:"fields"`
		Fingerprint string     `json:"fingerprint"`
		Hosts       []string   `json:"hosts"`
		ExpiresAt   *time.Time `json:"expires_at"`
		StoredAt    time.Time  `json:"stored_at"`
		RefreshedAt *time.Time `json:"last_refreshed_at"`
		RefreshAt   *time.Time `json:"next_refresh_at"`
		Failures    int64      `json:"refresh_failures"`
		LastError   *string    `json:"last_refresh_error"`
	} `json:"credentials"`
	Scopes *struct {
		Requested []string `json:"requested"`
		Granted   []string `json:"granted"`
		Missing   []string `json:"missing"`
	} `json:"scopes"`
	Account *struct {
		ID    string  `json:"id"`
		Label *string `json:"label"`
	} `json:"account"`
	Health *struct {
		Status    string    `json:"status"`
		Code      string    `json:"code"`
		CheckedAt time.Time `json:"checked_at"`
	} `json:"health"`
	RateLimit *struct {
		State     string     `json:"state"`
		Limit     *int64     `json:"limit"`
		Remaining *int64     `json:"remaining"`
		ResetAt   *time.Time `json:"reset_at"`
	} `json:"rate_limit"`
}

// fields returns the lines that show the row.
func (r *authRow) fields() [][2]string {
	out := [][2]string{{"Auth mode", r.AuthMode}, {"Configuration", pairs(r.ConnectionConfig)}}
	if c := r.Credentials; c != nil {
		out = append(out, [2]string{"Credentials", strings.Join(c.Fields, ", ") + " (fingerprint " + c.Fingerprint + ")"},
			[2]string{"Sent to", strings.Join(c.Hosts, ", ")}, [2]string{"Expires", r.expires()},
			[2]string{"Refreshed", timeOf(c.RefreshedAt)}, [2]string{"Next refresh", timeOf(c.RefreshAt)})
		if c.Failures > 0 {
			out = append(out, [2]string{"Failures", fmt.Sprintf("%d %s since the last that succeeded", c.Failures,
				numbered(int(c.Failures), "refresh", "refreshes"))})
		}
		if c.LastError != nil {
			out = append(out, [2]string{"Last failure", *c.LastError})
		}
	}
	out = append(out, r.scopes()...)
	if a := r.Account; a != nil {
		name := a.ID
		if a.Label != nil {
			name = *a.Label + " (" + a.ID + ")"
		}
		out = append(out, [2]string{"Account", name})
	}
	if h := r.Health; h != nil {
		out = append(out, [2]string{"Health", h.Status + " (" + h.Code + "), tested " + clock.Wire(h.CheckedAt)})
	}
	if l := r.RateLimit; l != nil {
		text := l.State
		if l.Remaining != nil && l.Limit != nil {
			text += fmt.Sprintf(", %d of %d left", *l.Remaining, *l.Limit)
		}
		if l.ResetAt != nil {
			text += ", until " + clock.Wire(*l.ResetAt)
		}
		out = append(out, [2]string{"Provider's limit", text})
	}
	return out
}

// expires says when the access token expires, and what follows if nothing renews it.
func (r *authRow) expires() string {
	c := r.Credentials
	if c.ExpiresAt == nil || c.RefreshAt != nil || c.Failures > 0 || slices.Contains(c.Fields, "refresh_token") {
		return timeOf(c.ExpiresAt)
	}
	return timeOf(c.ExpiresAt) + "; the provider gave no refresh token, so the account has to be connected again then"
}

// account returns the name by which people know the account, or its id.
func (r *authRow) account() string {
	switch {
	case r.Account == nil:
		return ""
	case r.Account.Label != nil:
		return *r.Account.Label
	default:
		return r.Account.ID
	}
}

// scopes returns the lines about the OAuth scopes.
func (r *authRow) scopes() [][2]string {
	s := r.Scopes
	if s == nil {
		return nil
	}
	return [][2]string{{"Scopes", strings.Join(s.Requested, " ")}, {"Granted", strings.Join(s.Granted, " ")},
		{"Not granted", strings.Join(s.Missing, " ")}}
}

// timeOf writes a time, and nothing if there is none.
func timeOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock.Wire(*t)
}

type connectionsTest struct {
	connectionName `embed:""`
	apiFlags       `embed:""`
}

// testRow is the response of a test.
type testRow struct {
	Status           string    `json:"status"`
	Code             string    `json:"code"`
	ConnectionStatus string    `json:"connection_status"`
	Cached           bool      `json:"cached"`
	CheckedAt        time.Time `json:"checked_at"`
	Account          *struct {
		ID    string  `json:"id"`
		Label *string `json:"label"`
	} `json:"account"`
	Checks []struct {
		Probe      string  `json:"probe"`
		Status     string  `json:"status"`
		Code       string  `json:"code"`
		LatencyMS  int64   `json:"latency_ms"`
		HTTPStatus *int    `json:"http_status"`
		Message    *string `json:"message"`
	} `json:"checks"`
}

var errUnhealthy = errors.New("the credentials did not pass the test")

// Run tests the credentials. Its exit status is that of a failure unless they are healthy, or nothing can be tested.
func (c *connectionsTest) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		a, err := api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: c.path("test"), Body: map[string]any{}})
		if err != nil {
			return err
		}
		r, err := into[testRow](a.Body)
		if err != nil {
			return err
		}
		if err := c.print(e, &r, a.Body); err != nil {
			return err
		}
		if r.Status != "healthy" && r.Status != "unknown" {
			return errUnhealthy
		}
		return nil
	})
}

func (c *connectionsTest) print(e *env, r *testRow, body json.RawMessage) error {
	if c.JSON {
		return printRaw(e.stdout, body)
	}
	state := authRow{Account: r.Account}
	health := r.Status + " (" + r.Code + ")"
	if r.Cached {
		health += ", as tested " + clock.Wire(r.CheckedAt) + "; it is tested at most once in 5 seconds"
	}
	lines := [][2]string{{"Connection", c.Provider + "/" + c.ConnectionID}, {"Health", health},
		{"Connection status", r.ConnectionStatus}}
	lines = append(lines, state.fields()[2:]...)
	if err := e.printFields(lines); err != nil {
		return err
	}
	if len(r.Checks) == 0 {
		return nil
	}
	t := e.table(terminal.Column{Title: "REQUEST", Fixed: true}, terminal.Column{Title: "STATUS"},
		terminal.Column{Title: "CODE"}, terminal.Column{Title: "RESPONSE"}, terminal.Column{Title: "MS"},
		terminal.Column{Title: "MESSAGE"})
	for i := range r.Checks {
		k := &r.Checks[i]
		response := ""
		if k.HTTPStatus != nil {
			response = strconv.Itoa(*k.HTTPStatus)
		}
		t.Row(k.Probe, k.Status, k.Code, response, strconv.FormatInt(k.LatencyMS, 10), value(k.Message))
	}
	return t.Flush()
}
