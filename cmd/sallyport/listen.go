package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sallyport/internal/listen"
	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/sse"
	"sallyport/internal/platform/terminal"
)

// secretVariable contains the secret that listen signs with.
const secretVariable = "SALLYPORT_SIGNING_SECRET"

type listenCommand struct {
	Forward           string        `required:"" placeholder:"URL" help:"The URL that events are posted to, one by one, such as http://localhost:3000/webhooks."`
	AllowRemote       bool          `help:"Accept a URL on another machine."`
	Provider          []string      `placeholder:"SLUG" help:"Only events of these providers."`
	ProviderConfigKey []string      `placeholder:"KEY" help:"Only events of these provider configurations."`
	ConnectionID      []string      `name:"connection-id" placeholder:"ID" aliases:"connection" help:"Only events of the connections with these ids. --connection is the same flag."`
	EventType         []string      `placeholder:"PATTERN" help:"Only events of these types; issues.* matches all that begin with \"issues.\". The gateway's own events need a pattern that begins with sallyport."`
	SecretFile        string        `name:"secret-file" placeholder:"PATH" help:"File that contains only the signing secret; - reads it from standard input. Default: the variable SALLYPORT_SIGNING_SECRET, else a new secret, which is shown."`
	ForwardTimeout    time.Duration `name:"forward-timeout" default:"30s" placeholder:"DURATION" help:"Timeout of the receiver for one event."`
	Replay            []string      `placeholder:"EVENT_UUID" help:"Forward these stored events once, instead of those that arrive; exit with 1 if one is not accepted."`
	Rejections        bool          `default:"true" negatable:"" help:"Show rejected webhooks too, unless --event-type is given."`
	apiFlags          `embed:""`
}

// Run forwards events until it is interrupted.
func (c *listenCommand) Run(ctx context.Context, e *env) error {
	if c.ForwardTimeout <= 0 {
		return usageError("--forward-timeout must be above 0")
	}
	secret, made, err := e.signingSecret(c.SecretFile)
	if err != nil {
		return err
	}
	filter := url.Values{}
	for name, values := range map[string][]string{"provider": c.Provider, "provider_config_key": c.ProviderConfigKey,
		"connection_id": c.ConnectionID, "event_type": c.EventType} {
		for _, v := range values {
			filter.Add(name, v)
		}
	}
	if len(c.Replay) > 0 && len(filter) > 0 {
		return usageError("--replay names the events, so that no filter can be given")
	}
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		if len(c.Replay) > 0 {
			return c.replay(ctx, e, api, secret, made)
		}
		e.warnNames(ctx, api, filterNames{providers: c.Provider, configs: c.ProviderConfigKey, connections: c.ConnectionID,
			types: c.EventType})
		o := &listenObserver{e: e, asJSON: c.JSON, server: api.Server(), forward: c.Forward,
			screen: terminal.ScreenOf(e.stdout, e.environ)}
		if made {
			o.secret = secret
		}
		ctx, end := context.WithCancelCause(ctx)
		var watching sync.WaitGroup
		defer watching.Wait()
		defer end(nil)
		if c.Rejections && len(c.EventType) > 0 {
			e.note("Rejected webhooks are not shown, because they have no type: leave --event-type out to see them.")
		}
		if c.Rejections && len(c.EventType) == 0 {
			o.watch = func() {
				e.watchRejections(ctx, api, filter, &watching, func(raw json.RawMessage, r *rejectionRow) error {
					return o.rejected(c.Provider, raw, r)
				}, end)
			}
		}
		left, err := listen.Run(ctx, listen.Options{API: api, Forward: c.Forward, AllowRemote: c.AllowRemote, Secret: secret,
			Filter: filter, Timeout: c.ForwardTimeout, Clock: e.clock, Observer: o})
		if o.begun {
			o.summarise(left)
		}
		if err := wrongOption(err); err != nil {
			return err
		}
		if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return err
	})
}

// replay forwards stored events.
func (c *listenCommand) replay(ctx context.Context, e *env, api *apiclient.Client, secret secretbox.Secret,
	made bool) error {
	o := &listenObserver{e: e, asJSON: c.JSON, server: api.Server(), forward: c.Forward,
		screen: terminal.ScreenOf(e.stdout, e.environ)}
	if made {
		e.note("Forwarded events are signed with the secret %s", secret.Reveal())
	}
	failed, err := listen.Replay(ctx, listen.Options{API: api, Forward: c.Forward, AllowRemote: c.AllowRemote,
		Secret: secret, Timeout: c.ForwardTimeout, Clock: e.clock, Observer: o}, c.Replay)
	switch wrong := wrongOption(err); {
	case wrong != nil:
		return wrong
	case err == nil && failed > 0:
		return exitError(exitFailed)
	default:
		return err
	}
}

// wrongOption returns the error about an option of the command that is not usable; nil for other errors.
func wrongOption(err error) error {
	if errors.Is(err, listen.ErrForward) || errors.Is(err, listen.ErrRemote) || errors.Is(err, listen.ErrSecret) {
		return usageError(err.Error())
	}
	return nil
}

// signingSecret returns the secret that signs forwarded events; made reports that it is new.
func (e *env) signingSecret(file string) (secret secretbox.Secret, made bool, err error) {
	if file != "" {
		text, err := e.readSecret(file)
		return secretbox.Secret(text), false, err
	}
	if secret = secretbox.Secret(strings.TrimSpace(e.variable(secretVariable))); secret != "" {
		return secret, false, nil
	}
	return listen.NewSecret(), true, nil
}

// listenObserver prints events on standard output, and everything else on standard error.
type listenObserver struct {
	e               *env
	asJSON          bool
	server, forward string
	// secret is shown once. It is empty if the user gave it.
	secret secretbox.Secret
	screen terminal.Screen
	begun  bool
	// watch begins to show rejected webhooks; nil if they are not shown.
	watch func()
	// mu is held while a line is printed.
	mu sync.Mutex

	forwarded, failed int
}

// Opened reports that the stream is open, the first time with the information that a receiver needs.
func (o *listenObserver) Opened(again bool) {
	if again {
		o.e.back()
		return
	}
	o.begun = true
	if o.watch != nil {
		o.watch()
	}
	if o.secret != "" {
		o.e.note("Forwarded events are signed with the secret %s", o.secret.Reveal())
	}
	o.e.note("Listening to %s and forwarding to %s. Press Ctrl-C to stop.", o.server, terminal.Inline(o.forward))
}

// Lost reports that the stream broke off.
func (o *listenObserver) Lost(why error, wait time.Duration) { o.e.lost(why, wait) }

// Stream reports events that were missed.
func (o *listenObserver) Stream(m sse.Message) error { return o.e.reportStream(m) }

// Forwarded prints one event.
func (o *listenObserver) Forwarded(r listen.Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forwarded++
	if !r.Taken {
		o.failed++
	}
	if o.asJSON {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		_, err = fmt.Fprintf(o.e.stdout, "%s\n", terminal.JSON(line))
		return err
	}
	status, tone := "failed", terminal.Bad
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	detail := strconv.FormatFloat(r.DurationMS, 'f', 1, 64) + " ms"
	if r.Taken {
		tone = terminal.Good
	}
	if r.Error != "" {
		detail += ", " + r.Error
	}
	_, err := fmt.Fprintf(o.e.stdout, "%s  %s  %s  %s  %s  %s\n", r.ReceivedAt.UTC().Format(time.TimeOnly),
		terminal.Inline(r.EventUUID), terminal.Inline(r.EventType), terminal.Inline(r.ProviderConfigKey+"/"+r.ConnectionID),
		o.screen.Paint(tone, status), terminal.Inline(detail))
	return err
}

// rejected prints a rejected webhook of one of the providers, or of any if none is named.
func (o *listenObserver) rejected(providers []string, raw json.RawMessage, r *rejectionRow) error {
	if len(providers) > 0 && !slices.Contains(providers, r.Provider) {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asJSON {
		return o.e.printMessage("", messageRejected, raw)
	}
	_, err := fmt.Fprintln(o.e.stdout, r.line(o.screen))
	return err
}

// summarise prints the totals of all events.
func (o *listenObserver) summarise(left int) {
	text := fmt.Sprintf("%d %s arrived, %d failed", o.forwarded,
		numbered(o.forwarded, "event", "events"), o.failed)
	if left > 0 {
		text += fmt.Sprintf("; %d more arrived and %s not forwarded", left, numbered(left, "was", "were"))
	}
	o.e.note("%s.", text)
}

// numbered returns the word for one or for many.
func numbered(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
