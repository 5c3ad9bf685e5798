package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/obs"
)

const (
	keyHeader      = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
)

// keyBodyTimeout is the time limit for reading the body of a request with a key. It is Huma's limit for other bodies.
const keyBodyTimeout = 5 * time.Second

// keptHeaders returns the headers that are stored with a response. The others belong to a single exchange.
func keptHeaders() []string { return []string{"Cache-Control", "Content-Type", "ETag", "Location"} }

// TakesIdempotencyKey reports whether the operation accepts an Idempotency-Key: every POST with a principal does,
// unless it opts out or its response is a stream.
func (op Operation) TakesIdempotencyKey() bool {
	return op.Method == http.MethodPost && !op.Public && !op.NoIdempotencyKey && len(op.Stream) == 0 &&
		len(op.Download) == 0
}

// idempotencyKey returns the key of a request, or an empty string if it has none. It adds validation errors to c.
func (op Operation) idempotencyKey(r *http.Request, c *call) string {
	values := r.Header.Values(keyHeader)
	if len(values) == 0 || !op.TakesIdempotencyKey() {
		return ""
	}
	violation := func(rule, message string) string {
		c.violations = append(c.violations, apperr.Detail{Location: "header." + keyHeader, Rule: rule, Message: message})
		return ""
	}
	switch key := values[0]; {
	case len(values) > 1:
		return violation("single", "send the header once")
	case !idempotency.ValidKey(key):
		return violation("pattern", "must be 1 to "+strconv.Itoa(idempotency.MaxKeyLength)+" printable ASCII characters")
	default:
		return key
	}
}

// serveOnce executes a request with a key, or sends the stored response. The response is stored before it is sent, so
// that a client that has seen it gets the same response for a retry.
func (a *API) serveOnce(w http.ResponseWriter, r *http.Request, op Operation, key string, serve http.HandlerFunc) {
	body, whole := readWhole(w, r, op.MaxBodyBytes)
	if !whole {
		serve(w, r) // which rejects it
		return
	}
	ctx := r.Context()
	run, stored, err := a.cfg.Idempotency.Begin(ctx, idempotency.Request{Principal: access.From(ctx), Method: r.Method,
		Path: r.URL.EscapedPath(), Key: key, Query: r.URL.RawQuery, Body: body})
	switch {
	case err != nil:
		WriteError(w, r, err)
		return
	case stored != nil:
		obs.LineFrom(ctx).Add(slog.Bool("idempotent_replayed", true))
		w.Header().Set(replayedHeader, "true")
		writeResponse(w, *stored)
		return
	}
	held := &heldResponse{ResponseWriter: w, header: http.Header{}}
	defer func() {
		if v := recover(); v != nil {
			a.finishRun(ctx, run, idempotency.Response{Status: http.StatusInternalServerError})
			panic(v)
		}
	}()
	serve(held, r.WithContext(run.Context(ctx)))
	response := held.response()
	a.finishRun(ctx, run, response)
	for name, values := range held.header {
		w.Header()[name] = values
	}
	writeResponse(w, response)
}

// finishRun ends the run with the response of its request. A response that cannot be stored is sent anyway: the request
// took effect, and a retry gets idempotency_outcome_unknown.
func (a *API) finishRun(ctx context.Context, run *idempotency.Run, response idempotency.Response) {
	var err error
	switch {
	case response.Status >= http.StatusInternalServerError:
		err = run.Fail(ctx)
	case response.Status >= http.StatusMultipleChoices:
		err = run.Release(ctx)
	default:
		kept := http.Header{}
		for _, name := range keptHeaders() {
			if values := response.Header.Values(name); len(values) > 0 {
				kept[name] = values
			}
		}
		err = run.Finish(ctx, idempotency.Response{Status: response.Status, Header: kept, Body: response.Body})
	}
	if err != nil {
		a.cfg.Logger.ErrorContext(ctx, "cannot store the response to a request with an idempotency key",
			slog.String("error", err.Error()), obs.Outage("idempotency"))
	}
}

func writeResponse(w http.ResponseWriter, response idempotency.Response) {
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.Status)
	if len(response.Body) > 0 {
		_, _ = w.Write(response.Body) // the client is gone when this fails
	}
}

// readWhole reads the body of a request and puts it back. whole is false if the body is too large or ended early; then
// reading it again has the same result.
func readWhole(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, whole bool) {
	// If the connection supports no deadline, the server's own timeout limits the reading.
	_ = http.NewResponseController(w).SetReadDeadline(clock.System().Now().Add(keyBodyTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failing{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return body, err == nil && int64(len(body)) <= limit
}

// failing is a reader that fails.
type failing struct{ err error }

// Read fails.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// heldResponse is a response that is held back until it is stored.
type heldResponse struct {
	http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the headers of the held response.
func (h *heldResponse) Header() http.Header { return h.header }

// WriteHeader sets the status.
func (h *heldResponse) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write adds to the body.
func (h *heldResponse) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (h *heldResponse) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *heldResponse) response() idempotency.Response {
	h.WriteHeader(http.StatusOK)
	return idempotency.Response{Status: h.status, Header: h.header, Body: h.body.Bytes()}
}

// keyParameter documents the request header.
func keyParameter() *huma.Param {
	longest := idempotency.MaxKeyLength
	return &huma.Param{Name: keyHeader, In: "header",
		Description: "Makes the request safe to retry for 24 hours. Requests with the same key, path, query and body " +
			"take effect once; later ones get the first response again, with `" + replayedHeader + ": true`. Only successful " +
			"responses are kept: you can correct a rejected request and send it with the same key. Printable ASCII.",
		Schema:  &huma.Schema{Type: huma.TypeString, MaxLength: &longest, Pattern: "^[ -~]+$"},
		Example: "6f1c1b3e-7a53-4c0e-9b7e-5d2a0c7b1e11"}
}

// replayedDoc documents the header of a stored response.
func replayedDoc() *huma.Param {
	return &huma.Param{Description: "`true` if this is the response to an earlier request with the same `" + keyHeader +
		"`; otherwise absent.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}}
}
