package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/terminal"
)

const (
	// rejectionInterval is the time between two looks for rejected requests. The stream does not carry them: it follows
	// the log of events, and what was rejected is no event.
	rejectionInterval = time.Second
	// rejectionPage is how many rejected requests one look reads.
	rejectionPage = 100
	// rejectionDelay is by how much a rejection may be stored later than another that arrived after it.
	rejectionDelay = 10 * time.Second
	// messageRejected names a rejected request among the messages of a stream in JSON.
	messageRejected = "webhook_rejection.recorded"
)

// rejectionWatch shows rejected requests as they are recorded.
type rejectionWatch struct {
	api   *apiclient.Client
	query url.Values
	// show is called with each rejected request, oldest first.
	show func(raw json.RawMessage, r *rejectionRow) error

	seen   map[string]bool
	newest time.Time
}

// watchRejections shows the rejected requests that are recorded from now on, in the background, until ctx ends. An
// error of show goes to failed. If the key may not read rejected requests, it reports that and shows none.
func (e *env) watchRejections(ctx context.Context, api *apiclient.Client, filter url.Values, background *sync.WaitGroup,
	show func(raw json.RawMessage, r *rejectionRow) error, failed func(error)) {
	w := &rejectionWatch{api: api, show: show, query: url.Values{"limit": {strconv.Itoa(rejectionPage)}}}
	for _, name := range []string{"connection_id", "provider_config_key"} {
		w.query[name] = filter[name]
	}
	rows, err := w.read(ctx)
	if err != nil {
		e.note("Rejected webhooks are not shown: %s", terminal.Inline(sentence(err.Error())))
		return
	}
	w.remember(rows)
	background.Go(func() {
		if err := w.run(ctx, e); err != nil {
			failed(err)
		}
	})
}

// rejectionMessage is a rejected request as the API returned it, and what is read of it.
type rejectionMessage struct {
	raw json.RawMessage
	row rejectionRow
}

// read returns the last rejected requests, newest first.
func (w *rejectionWatch) read(ctx context.Context) ([]rejectionMessage, error) {
	a, err := w.api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: rejectionsPath, Query: w.query})
	if err != nil {
		return nil, err
	}
	list, err := into[[]json.RawMessage](a.Body)
	if err != nil {
		return nil, err
	}
	rows := make([]rejectionMessage, len(list))
	for i, raw := range list {
		rows[i].raw = raw
		if rows[i].row, err = into[rejectionRow](raw); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// remember takes down which requests have been seen.
func (w *rejectionWatch) remember(rows []rejectionMessage) {
	w.seen = make(map[string]bool, len(rows))
	for i := range rows {
		w.seen[rows[i].row.ID] = true
		if rows[i].row.ReceivedAt.After(w.newest) {
			w.newest = rows[i].row.ReceivedAt
		}
	}
}

// run shows rejected requests until ctx ends or show fails. A look that fails is made up for by the next: the stream
// reports that the server is away.
func (w *rejectionWatch) run(ctx context.Context, e *env) error {
	for {
		t := e.clock.NewTimer(rejectionInterval)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		rows, err := w.read(ctx)
		if err != nil {
			continue
		}
		oldest := w.newest.Add(-rejectionDelay)
		for i := len(rows) - 1; i >= 0; i-- {
			r := &rows[i].row
			if w.seen[r.ID] || r.ReceivedAt.Before(oldest) {
				continue
			}
			if err := w.show(rows[i].raw, r); err != nil {
				return err
			}
		}
		w.remember(rows)
	}
}

// line is the rejected request on one line, for people.
func (r *rejectionRow) line(screen terminal.Screen) string {
	message := r.Message
	if r.Diagnosis != nil {
		message = r.Diagnosis.Message
	}
	return fmt.Sprintf("%s  rejected  %s  %s  from %s: %s", r.ReceivedAt.UTC().Format(time.TimeOnly),
		terminal.Inline(r.ProviderConfigKey+"/"+r.ConnectionID), screen.Paint(terminal.Bad, terminal.Inline(r.Reason)),
		terminal.Inline(r.ClientIP), terminal.Inline(message))
}

// printMessage prints a message of a stream as one line of JSON; id is empty if no stream can start after it.
func (e *env) printMessage(id, event string, data json.RawMessage) error {
	line, err := json.Marshal(struct {
		ID    string          `json:"id,omitempty"`
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}{id, event, data})
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", terminal.JSON(line))
	return err
}
