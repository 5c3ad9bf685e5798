package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sallyport/internal/operator"
	"sallyport/internal/platform/rawhttp"
)

type webhooksCommand struct {
	Verify webhooksVerify `cmd:"" help:"Verify a saved request with a connection's secrets: exit with 0 if it is accepted, 1 if it is rejected, 2 if it cannot be checked."`
}

type webhooksVerify struct {
	Connection  string     `required:"" placeholder:"NAME" help:"The connection: <provider_config_key>/<connection_id>, its webhook URL, or that URL's last segment."`
	Environment string     `placeholder:"ID|NAME" help:"The environment of the connection, if several have a connection of that name."`
	Request     string     `placeholder:"PATH" help:"File with the request: request line, headers, empty line, body; - reads standard input."`
	Headers     string     `placeholder:"PATH" help:"File with only the headers, instead of --request."`
	Body        string     `placeholder:"PATH" help:"File with only the body, to use with --headers."`
	At          instant    `placeholder:"TIME" help:"Time of receipt, as RFC 3339 or Unix seconds. Default: now."`
	RemoteIP    netip.Addr `name:"remote-ip" placeholder:"ADDRESS" help:"The sender's address, for connections and providers that restrict networks."`
	JSON        bool       `name:"json" help:"Print JSON."`
}

// Validate checks the flags that depend on each other.
func (c *webhooksVerify) Validate() error {
	if (c.Request == "") == (c.Headers == "") || (c.Body != "" && c.Headers == "") {
		return errors.New("give --request, or --headers with --body")
	}
	return nil
}

// instant is a time as people and providers write it.
type instant struct{ time.Time }

// UnmarshalText reads RFC 3339, or Unix seconds of ten digits.
func (i *instant) UnmarshalText(text []byte) (err error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && len(text) == 10 {
		i.Time = time.Unix(n, 0)
		return nil
	}
	if i.Time, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return errors.New("must be a time such as 2026-03-04T05:06:07Z, or Unix seconds of ten digits")
	}
	return nil
}

// Run verifies the request. It changes nothing, also while a server runs.
func (c *webhooksVerify) Run(ctx context.Context, e *env) error {
	v, err := c.verify(ctx, e)
	if err != nil {
		_ = e.fail(err) // fail reports the error; its exit code would mean a rejection here
		return exitError(exitUsage)
	}
	if c.JSON {
		err = printJSON(e.stdout, v)
	} else {
		_, err = io.WriteString(e.stdout, visible(verdictText(&v)))
	}
	if err == nil && !v.Accepted {
		err = exitError(exitFailed)
	}
	return err
}

func (c *webhooksVerify) verify(ctx context.Context, e *env) (v operator.WebhookVerdict, err error) {
	r := operator.WebhookRequest{Connection: c.Connection, Environment: c.Environment, ReceivedAt: c.At.Time,
		RemoteIP: c.RemoteIP}
	if r.ReceivedAt.IsZero() {
		r.ReceivedAt = e.clock.Now()
	}
	if c.Request != "" {
		data, err := e.read(c.Request)
		if err != nil {
			return v, err
		}
		if r.Request, err = rawhttp.Parse(data); err != nil {
			return v, fmt.Errorf("%s: %w", c.Request, err)
		}
	} else {
		headers, err := e.read(c.Headers)
		if err != nil {
			return v, err
		}
		var body []byte
		if c.Body != "" {
			if body, err = e.read(c.Body); err != nil {
				return v, err
			}
		}
		if r.Request, err = rawhttp.ParseParts(headers, body); err != nil {
			return v, fmt.Errorf("%s: %w", c.Headers, err)
		}
	}
	return operator.VerifyWebhook(ctx, e.cfg, e.clock, r)
}

// maxSaved bounds a saved request: the largest body and the largest head.
const maxSaved = 27 << 20

// read reads a file, or standard input for "-".
func (e *env) read(path string) (data []byte, err error) {
	from := e.stdin
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, unread(err)
		}
		defer func() { _ = f.Close() }() // only read from
		from = f
	}
	if data, err = io.ReadAll(io.LimitReader(from, maxSaved+1)); err != nil {
		return nil, unread(err)
	}
	if len(data) > maxSaved {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxSaved)
	}
	return data, nil
}

// unread keeps only the text, because an operating system's error would be taken for an error of the database.
func unread(err error) error { return errors.New("read the request: " + err.Error()) }

// verdictText formats a verdict as lines.
func verdictText(v *operator.WebhookVerdict) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			// A line break in a value could fake a line of the verdict.
			fmt.Fprintf(&b, "%-11s %s\n", name, strings.ReplaceAll(text, "\n", string(unicode.ReplacementChar)))
		}
	}
	switch {
	case v.Refusal != nil:
		line("rejected", v.Refusal.Reason)
		line("", v.Refusal.Message)
		line("diagnosis", v.Refusal.Cause)
		line("", v.Refusal.Diagnosis)
	case v.Handshake != nil:
		line("handshake", fmt.Sprintf("a server responds with status %d and stores nothing", v.Handshake.Status))
	case v.Verified:
		line("verified", v.Scheme)
	default:
		line("accepted", "unverified: nothing proves who sent this")
	}
	c := &v.Connection
	line("connection", fmt.Sprintf("%s/%s, of the environment %s", c.ProviderConfigKey, c.ConnectionID, c.Environment))
	line("", c.UUID)
	line("provider", fmt.Sprintf("%s, definition: %s", c.Provider, c.Source))
	line("received", time.Time(v.ReceivedAt).UTC().Format(time.RFC3339))
	if s := v.Secret; s != nil {
		text := s.ID
		if s.Hint != "" {
			text += ", ends in " + s.Hint
		}
		if s.Label != "" {
			text += ", " + s.Label
		}
		line("secret", text)
	}
	if ev := v.Event; ev != nil {
		line("type", strings.Join(ev.Types, ", ")+signed(ev.TypeSigned))
		switch {
		case ev.ID == "" && ev.BodyWindowSeconds > 0:
			line("id", fmt.Sprintf("none: the same body within %s is a duplicate",
				time.Duration(ev.BodyWindowSeconds)*time.Second))
		case ev.ID == "":
			line("id", "none: every request is a new event, also with an equal body")
		default:
			line("id", ev.ID+" from "+ev.IDSource+signed(ev.IDSigned))
		}
		if ev.Control {
			line("control", "yes: acknowledged and stored, but not forwarded")
		}
		if ev.OccurredAt != nil {
			line("occurred", time.Time(*ev.OccurredAt).UTC().Format(time.RFC3339))
		}
	}
	for _, note := range v.Notes {
		line("note", note)
	}
	return b.String()
}

func signed(yes bool) string {
	if yes {
		return " (signed)"
	}
	return " (not signed)"
}
