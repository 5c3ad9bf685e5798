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

// keyBodyTimeout is how long the body of a request with a key may take: as long as Huma gives any other.
const keyBodyTimeout = 5 * time.Second

// keptHeaders are the headers that an answer is given again with. The others belong to one exchange.
func keptHeaders() []string { return []string{"Cache-Control", "Content-Type", "Location"} }

// TakesIdempotencyKey reports whether the operation honours Idempotency-Key: every POST that has a principal, unless it
// opts out or its answer is a stream.
func (op Operation) TakesIdempotencyKey() bool {
	return op.Method == http.MethodPost && !op.Public && !op.NoIdempotencyKey && len(op.Stream) == 0 &&
		len(op.Download) == 0
}

// idempotencyKey returns the key of a request, empty where it has none, and adds to the faults what is wrong with it.
func (op Operation) idempotencyKey(r *http.Request, c *call) string {
	values := r.Header.Values(keyHeader)
	if len(values) == 0 || !op.TakesIdempotencyKey() {
		return ""
	}
	fault := func(rule, message string) string {
		c.faults = append(c.faults, apperr.Detail{Location: "header." + keyHeader, Rule: rule, Message: message})
		return ""
	}
	switch key := values[0]; {
	case len(values) > 1:
		return fault("single", "send the header once")
	case !idempotency.ValidKey(key):
		return fault("pattern", "must be 1 to "+strconv.Itoa(idempotency.MaxKeyLength)+" printable ASCII characters")
	default:
		return key
	}
}

// once carries a request with a key out, or gives its answer again. The answer is stored before it is sent, so that
// whoever has seen it gets the same one again.
func (a *API) once(w http.ResponseWriter, r *http.Request, op Operation, key string, serve http.HandlerFunc) {
	body, whole := readWhole(w, r, op.MaxBodyBytes)
	if !whole {
		serve(w, r) // which refuses it
		return
	}
	ctx := r.Context()
	run, answer, err := a.cfg.Idempotency.Begin(ctx, idempotency.Request{Principal: access.From(ctx), Method: r.Method,
		Path: r.URL.EscapedPath(), Key: key, Query: r.URL.RawQuery, Body: body})
	switch {
	case err != nil:
		WriteError(w, r, err)
		return
	case answer != nil:
		obs.EventFrom(ctx).Add(slog.Bool("idempotent_replayed", true))
		w.Header().Set(replayedHeader, "true")
		send(w, *answer)
		return
	}
	held := &heldAnswer{ResponseWriter: w, header: http.Header{}}
	defer func() {
		if v := recover(); v != nil {
			a.keep(ctx, run, idempotency.Answer{Status: http.StatusInternalServerError})
			panic(v)
		}
	}()
	serve(held, r.WithContext(run.Context(ctx)))
	answer = held.answer()
	a.keep(ctx, run, *answer)
	for name, values := range held.header {
		w.Header()[name] = values
	}
	send(w, *answer)
}

// keep stores what a request did. What cannot be stored is sent all the same: the request took effect, and a repeat is
// told that its outcome is not known.
func (a *API) keep(ctx context.Context, run *idempotency.Run, answer idempotency.Answer) {
	var err error
	switch {
	case answer.Status >= http.StatusInternalServerError:
		err = run.Fail(ctx)
	case answer.Status >= http.StatusMultipleChoices:
		err = run.Release(ctx)
	default:
		kept := http.Header{}
		for _, name := range keptHeaders() {
			if values := answer.Header.Values(name); len(values) > 0 {
				kept[name] = values
			}
		}
		err = run.Finish(ctx, idempotency.Answer{Status: answer.Status, Header: kept, Body: answer.Body})
	}
	if err != nil {
		a.cfg.Logger.ErrorContext(ctx, "the answer to a request with an idempotency key could not be stored",
			slog.String("error", err.Error()))
	}
}

func send(w http.ResponseWriter, answer idempotency.Answer) {
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Status)
	if len(answer.Body) > 0 {
		_, _ = w.Write(answer.Body) // the client is gone when this fails
	}
}

// readWhole reads the body of a request and puts it back. It is not whole where it is too large or broke off; then
// reading it again shows the same.
func readWhole(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, whole bool) {
	// Where the connection takes no deadline, the server's own bounds the reading.
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

// heldAnswer is an answer that is held back until it is stored.
type heldAnswer struct {
	http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the headers of the answer that is held.
func (h *heldAnswer) Header() http.Header { return h.header }

// WriteHeader sets the status.
func (h *heldAnswer) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write adds to the body.
func (h *heldAnswer) Write(b []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *heldAnswer) answer() *idempotency.Answer {
	h.WriteHeader(http.StatusOK)
	return &idempotency.Answer{Status: h.status, Header: h.header, Body: h.body.Bytes()}
}

// keyParameter documents the header of a request.
func keyParameter() *huma.Param {
	longest := idempotency.MaxKeyLength
	return &huma.Param{Name: keyHeader, In: "header",
		Description: "Makes the request safe to retry for 24 hours. Requests with the same key, path, query and body " +
			"take effect once; later ones get the first response again, with `" + replayedHeader + ": true`. Only successful " +
			"responses are kept: you can correct a rejected request and send it with the same key. Printable ASCII.",
		Schema:  &huma.Schema{Type: huma.TypeString, MaxLength: &longest, Pattern: "^[ -~]+$"},
		Example: "6f1c1b3e-7a53-4c0e-9b7e-5d2a0c7b1e11"}
}

// replayedDoc documents the header of an answer that is given again.
func replayedDoc() *huma.Param {
	return &huma.Param{Description: "`true` if this is the response to an earlier request with the same `" + keyHeader +
		"`; otherwise absent.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}}
}
