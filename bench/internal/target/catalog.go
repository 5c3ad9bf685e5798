package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sallyport/internal/platform/clock"
)

// importPoll is how often the progress of an import is read.
const importPoll = 100 * time.Millisecond

// ErrImport reports a document that could not be imported.
var ErrImport = errors.New("the import came to nothing")

// imported is an import of a description of an API.
type imported struct {
	ID, Status string
	Outcome    struct{ Actions int }
	Preview    struct{ Digest string }
}

// Import imports a document and activates it, as a user of the environment, and returns how many actions it has.
func (a *API) Import(ctx context.Context, clk clock.Clock, slug string, document io.Reader) (actions int, err error) {
	status, response, err := a.send(ctx, http.MethodPost, "/catalog/imports?"+url.Values{"provider": {slug},
		"base_url": {"https://" + slug + ".example"}}.Encode(), "application/octet-stream", document)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("%w: import: status %d: %.300s", ErrServer, status, response)
	}
	var m imported
	if err == nil {
		err = json.Unmarshal(response, &m)
	}
	for err == nil && (m.Status == "" || m.Status == "queued" || m.Status == "running") {
		timer := clk.NewTimer(importPoll)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return 0, ctx.Err()
		}
		if status, response, err = a.Do(ctx, http.MethodGet, "/catalog/imports/"+m.ID, nil); err == nil {
			err = json.Unmarshal(response, &m)
		}
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%w: import: status %d: %.300s", ErrServer, status, response)
		}
	}
	if err == nil && m.Status != "ready" {
		err = fmt.Errorf("%w: %s: %.300s", ErrImport, m.Status, response)
	}
	if err != nil {
		return 0, err
	}
	status, response, err = a.Do(ctx, http.MethodPost, "/catalog/imports/"+m.ID+"/activate",
		map[string]any{"digest": m.Preview.Digest})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%w: activate an import: status %d: %.300s", ErrServer, status, response)
	}
	return m.Outcome.Actions, err
}
