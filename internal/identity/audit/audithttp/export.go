package audithttp

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/obs"
)

// The media types of an export.
const (
	mediaJSONL = "application/jsonl"
	mediaCSV   = "text/csv"
)

// exportChunk is the number of events that one query reads. It keeps queries short in a long export.
const exportChunk = 250

// exportWrite limits the time in which the client reads one chunk, and exportTime the time of the whole export.
const (
	exportWrite = 30 * time.Second
	exportTime  = 30 * time.Minute
)

type exportInput struct {
	Filters
	// `jsonl` (default): one event as JSON per line. `csv`: a table with a header.
	Format string `query:"format" enum:"jsonl,csv" default:"jsonl"`
	// Only events with a greater number. Default 0: all events.
	AfterSeq int64 `query:"after_seq" minimum:"0" maximum:"9007199254740991" default:"0"`
}

func (h *handlers) export(ctx context.Context, in *exportInput) (httpapi.Responder, error) {
	trail, filter, err := h.readFilter(ctx, &in.Filters, access.AuditExport)
	if err != nil {
		return nil, err
	}
	if err := h.store.Seal(ctx); err != nil {
		return nil, err
	}
	// An error before the first byte gets a response of its own.
	first, err := h.store.ReadAfter(ctx, trail, filter, in.AfterSeq, exportChunk)
	if err != nil {
		return nil, err
	}
	allowed := h.checkExport(access.From(ctx), trail)
	return func(ctx context.Context, w http.ResponseWriter) {
		ctx, cancel := context.WithTimeout(ctx, exportTime)
		defer cancel()
		media, encode := mediaJSONL, encodeLines
		if in.Format == "csv" {
			media, encode = mediaCSV+"; charset=utf-8; header=present", encodeTable
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("Content-Disposition", `attachment; filename="audit-events.`+in.Format+`"`)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := h.writeExport(ctx, w, trail, filter, first, encode, allowed); err != nil {
			obs.LineFrom(ctx).Add(slog.String("export_error", err.Error()))
			// This ends the connection without the last chunk, so that the client recognises the export as incomplete.
			panic(http.ErrAbortHandler)
		}
	}, nil
}

// checkExport returns a function that returns an error when the caller of an export loses the permission. A slow reader
// must not continue for half an hour after their rights or their session have ended.
func (h *handlers) checkExport(p access.Principal, trail audit.Trail) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := h.principals.Current(ctx, p)
		if err != nil {
			return err
		}
		return now.RequireIn(trail.Environment, access.AuditExport)
	}
}

func (h *handlers) writeExport(ctx context.Context, w http.ResponseWriter, trail audit.Trail, filter audit.Filter,
	rows []audit.Entry, encode func(rows []audit.Entry, first bool) ([]byte, error), allowed func(context.Context) error,
) error {
	control := http.NewResponseController(w)
	for begin := true; ; begin = false {
		text, err := encode(rows, begin)
		if err != nil {
			return fmt.Errorf("encode audit events: %w", err)
		}
		if err := control.SetWriteDeadline(clock.System().Now().Add(exportWrite)); err != nil {
			return fmt.Errorf("set a deadline: %w", err)
		}
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("send audit events: %w", err)
		}
		if err := control.Flush(); err != nil {
			return fmt.Errorf("send audit events: %w", err)
		}
		if len(rows) < exportChunk {
			return nil
		}
		if err := allowed(ctx); err != nil {
			return err
		}
		if rows, err = h.store.ReadAfter(ctx, trail, filter, rows[len(rows)-1].Seq, exportChunk); err != nil {
			return err
		}
	}
}

func encodeLines(rows []audit.Entry, _ bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range rows {
		if err := e.Encode(viewEvent(&rows[i])); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func encodeTable(rows []audit.Entry, first bool) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true // RFC 4180
	if first {
		if err := w.Write(csvColumns()); err != nil {
			return nil, err
		}
	}
	for i := range rows {
		if err := w.Write(csvRecord(&rows[i])); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
