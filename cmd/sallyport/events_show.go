package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/terminal"
)

type eventsShow struct {
	Event    string `arg:"" name:"event_uuid" help:"The event."`
	Headers  bool   `help:"Also print the headers of the provider's request."`
	Body     bool   `help:"Also print the body."`
	Explain  bool   `help:"Show for each subscription why the event matched or did not."`
	apiFlags `embed:""`
}

// deliveryRow holds the properties of a delivery that commands show.
type deliveryRow struct {
	SubscriptionID string      `json:"subscription_id"`
	Status         string      `json:"status"`
	Generation     int64       `json:"generation"`
	AttemptCount   int64       `json:"attempt_count"`
	NextAttemptAt  *time.Time  `json:"next_attempt_at"`
	LastHTTPStatus *int        `json:"last_http_status"`
	LastError      *failureRow `json:"last_error"`
}

// deliveryColumns are the columns of cells, with others before them.
func deliveryColumns(before ...string) []terminal.Column {
	var columns []terminal.Column
	for _, title := range before {
		columns = append(columns, terminal.Column{Title: title, Fixed: true})
	}
	return append(columns, terminal.Column{Title: "SUBSCRIPTION", Fixed: true}, terminal.Column{Title: "STATUS",
		Fixed: true, Tone: statusTone}, terminal.Column{Title: "GENERATION"}, terminal.Column{Title: "ATTEMPTS"},
		terminal.Column{Title: "NEXT ATTEMPT (UTC)", Fixed: true}, terminal.Column{Title: "LAST RESPONSE"},
		terminal.Column{Title: "LAST ERROR"})
}

func (d *deliveryRow) cells() []string {
	next := ""
	if d.NextAttemptAt != nil {
		next = second(*d.NextAttemptAt)
	}
	return []string{d.SubscriptionID, d.Status, strconv.FormatInt(d.Generation, 10), strconv.FormatInt(d.AttemptCount, 10),
		next, number(d.LastHTTPStatus), d.LastError.text()}
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// attemptRow holds the properties of an attempt that commands show.
type attemptRow struct {
	SubscriptionID string      `json:"subscription_id"`
	Generation     int64       `json:"generation"`
	Number         int64       `json:"number"`
	Outcome        string      `json:"outcome"`
	StartedAt      time.Time   `json:"started_at"`
	HTTPStatus     *int        `json:"http_status"`
	Error          *failureRow `json:"error"`
	Response       *struct {
		Body         string `json:"body"`
		BodyEncoding string `json:"body_encoding"`
	} `json:"response"`
	Timings struct {
		Total float64 `json:"total_ms"`
	} `json:"timings"`
}

// explanationRow is the reason why an event matched a subscription or did not.
type explanationRow struct {
	SubscriptionID  string  `json:"subscription_id"`
	Matches         bool    `json:"matches"`
	FailedCondition *string `json:"failed_condition"`
	Pattern         *string `json:"pattern"`
	Filter          *struct {
		Error *failureRow `json:"error"`
	} `json:"filter"`
	Enabled        bool    `json:"enabled"`
	DeliveryStatus *string `json:"delivery_status"`
	CreatedAfter   bool    `json:"created_after_event"`
	ChangedAfter   bool    `json:"changed_after_event"`
}

// payload is the part of an event's details that --headers and --body print.
type payload struct {
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body"`
	BodyEncoding *string           `json:"body_encoding"`
	Deliveries   []deliveryRow     `json:"deliveries"`
}

// Run shows the event. As JSON it is the event as the API returns it, with its attempts and, on request, its
// explanations as additional members.
func (c *eventsShow) Run(ctx context.Context, e *env) error {
	return e.withAPI(c.apiFlags, func(api *apiclient.Client) error {
		path := "/webhook-events" + apiclient.Path(c.Event)
		event, err := api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: path})
		if err != nil {
			return err
		}
		attempts, err := collect(ctx, api, path+"/attempts", url.Values{"order": {"asc"}})
		if err != nil {
			return err
		}
		var explanations []json.RawMessage
		if c.Explain {
			if explanations, err = collect(ctx, api, path+"/explain", nil); err != nil {
				return err
			}
		}
		if c.JSON {
			return c.printJSON(e, event.Body, attempts, explanations)
		}
		return c.print(e, event.Body, attempts, explanations)
	})
}

// collect reads a whole list.
func collect(ctx context.Context, api *apiclient.Client, path string, query url.Values) ([]json.RawMessage, error) {
	var rows []json.RawMessage
	_, err := api.Each(ctx, apiclient.Request{Path: path, Query: query}, 0, func(row json.RawMessage) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// printJSON adds members to the event's object, whose own members keep their order and text.
func (c *eventsShow) printJSON(e *env, event json.RawMessage, attempts, explanations []json.RawMessage) error {
	out := bytes.TrimSuffix(bytes.TrimSpace(event), []byte("}"))
	out = append(append(slices.Clone(out), `,"attempts":`...), array(attempts)...)
	if c.Explain {
		out = append(append(out, `,"explanations":`...), array(explanations)...)
	}
	return printRaw(e.stdout, append(out, '}'))
}

func array(list []json.RawMessage) []byte {
	out := []byte("[")
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

func (c *eventsShow) print(e *env, event json.RawMessage, attempts, explanations []json.RawMessage) error {
	r, err := into[eventRow](event)
	if err != nil {
		return err
	}
	p, err := into[payload](event)
	if err != nil {
		return err
	}
	if err := e.printFields(r.fields()); err != nil {
		return err
	}
	if c.Headers {
		if err := e.printHeaders(p.Headers); err != nil {
			return err
		}
	}
	if c.Body {
		if err := e.printBody(p); err != nil {
			return err
		}
	}
	deliveries := e.table(deliveryColumns()...)
	for i := range p.Deliveries {
		deliveries.Row(p.Deliveries[i].cells()...)
	}
	if err := e.section("Deliveries", len(p.Deliveries), deliveries); err != nil {
		return err
	}
	if err := e.printAttempts(attempts); err != nil || !c.Explain {
		return err
	}
	return e.printExplanations(explanations)
}

// section writes a heading, and under it the table or a note that it is empty.
func (e *env) section(heading string, rows int, t *terminal.Table) error {
	if rows == 0 {
		_, err := fmt.Fprintf(e.stdout, "\n%s: none\n", heading)
		return err
	}
	if _, err := fmt.Fprintf(e.stdout, "\n%s\n", heading); err != nil {
		return err
	}
	return t.Flush()
}

func (r *eventRow) fields() [][2]string {
	verification := r.Verification.Result + " (" + r.Verification.Scheme
	if r.Verification.KeyID != nil {
		verification += ", secret " + *r.Verification.KeyID
	}
	fields := [][2]string{
		{"Event", r.EventUUID}, {"Type", r.EventType}, {"Types", strings.Join(r.EventTypes, " ")}, {"Status", r.Status},
		{"Received", clock.Wire(r.ReceivedAt)}, {"Provider", r.Provider}, {"Connection", r.connection()},
		{"Verification", verification + ")"}, {"Idempotency key", r.IdempotencyKey + " (" + r.IdempotencySource + ")"},
		{"Body", strconv.FormatInt(r.BodySize, 10) + " bytes " + r.ContentType},
	}
	if r.DuplicateOf != nil {
		fields = append(fields, [2]string{"Duplicate of", *r.DuplicateOf})
	}
	note := ""
	switch {
	case r.DuplicateOf == nil:
		note = r.note()
	case r.Suspect != nil:
		note = *r.Suspect + ": the body is another than the original's, and was not forwarded"
	}
	fields = append(fields, [2]string{"Note", note})
	if r.LastError != nil {
		fields = append(fields, [2]string{"Last error", r.LastError.Message})
	}
	return fields
}

func (e *env) printHeaders(headers map[string]string) error {
	if _, err := fmt.Fprintln(e.stdout, "\nHeaders"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if _, err := fmt.Fprintf(e.stdout, "%s: %s\n", terminal.Inline(name), terminal.Inline(headers[name])); err != nil {
			return err
		}
	}
	return nil
}

// printBody writes the body by its encoding: formatted JSON, text line by line, other bytes as Base64.
func (e *env) printBody(p payload) error {
	if _, err := fmt.Fprintln(e.stdout, "\nBody"); err != nil {
		return err
	}
	if p.BodyEncoding == nil {
		_, err := fmt.Fprintln(e.stdout, "none")
		return err
	}
	if *p.BodyEncoding == "json" {
		return printRaw(e.stdout, p.Body)
	}
	text, err := into[string](p.Body)
	if err != nil {
		return err
	}
	if *p.BodyEncoding == "base64" {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("%w: %w", apiclient.ErrForeign, err)
		}
	}
	_, err = fmt.Fprintln(e.stdout, terminal.Text(text))
	return err
}

func (e *env) printAttempts(rows []json.RawMessage) error {
	t := e.table(terminal.Column{Title: "STARTED (UTC)", Fixed: true}, terminal.Column{Title: "SUBSCRIPTION", Fixed: true},
		terminal.Column{Title: "GENERATION"}, terminal.Column{Title: "ATTEMPT"}, terminal.Column{Title: "OUTCOME",
			Fixed: true, Tone: statusTone}, terminal.Column{Title: "RESPONSE"},
		terminal.Column{Title: "MS"}, terminal.Column{Title: "ERROR"})
	for _, row := range rows {
		a, err := into[attemptRow](row)
		if err != nil {
			return err
		}
		failure := ""
		if a.Error != nil {
			failure = a.Error.Code + ": " + a.Error.Message
			if text := a.excerpt(); text != "" {
				failure = strings.TrimSuffix(failure, ".") + ": " + text
			}
		}
		t.Row(second(a.StartedAt), a.SubscriptionID, strconv.FormatInt(a.Generation, 10), strconv.FormatInt(a.Number, 10),
			a.Outcome, number(a.HTTPStatus), strconv.FormatFloat(a.Timings.Total, 'f', 1, 64), failure)
	}
	return e.section("Attempts", len(rows), t)
}

// maxExcerpt is how many characters of a receiver's response the table of attempts shows.
const maxExcerpt = 120

// excerpt returns the beginning of the text that the receiver responded with; empty if there is none.
func (a *attemptRow) excerpt() string {
	if a.Response == nil || a.Response.BodyEncoding != "text" {
		return ""
	}
	text := strings.Join(strings.Fields(a.Response.Body), " ")
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > maxExcerpt {
		text = string(runes[:maxExcerpt]) + "…"
	}
	return text
}

func (e *env) printExplanations(rows []json.RawMessage) error {
	t := e.table(terminal.Column{Title: "SUBSCRIPTION", Fixed: true}, terminal.Column{Title: "MATCHES", Fixed: true},
		terminal.Column{Title: "REASON"}, terminal.Column{Title: "DELIVERY", Fixed: true, Tone: statusTone},
		terminal.Column{Title: "NOTE"})
	for _, row := range rows {
		x, err := into[explanationRow](row)
		if err != nil {
			return err
		}
		matches, reason := "no", x.FailedCondition
		if x.Matches {
			matches, reason = "yes", x.Pattern
		}
		t.Row(x.SubscriptionID, matches, value(reason), value(x.DeliveryStatus), x.note())
	}
	return e.section("Subscriptions", len(rows), t)
}

func (x *explanationRow) note() string {
	var parts []string
	if x.Filter != nil && x.Filter.Error != nil {
		parts = append(parts, x.Filter.Error.Message)
	}
	if !x.Enabled {
		parts = append(parts, "disabled")
	}
	if x.CreatedAfter {
		parts = append(parts, "created after the event")
	} else if x.ChangedAfter {
		parts = append(parts, "changed after the event")
	}
	return strings.Join(parts, ", ")
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
