package imports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"time"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/documents"
)

const (
	// maxListed is how many operations that were left out, and how many notes, an import names.
	maxListed = 500
	// unpacedOperations is how many operations are read without a rest, if none becomes an action.
	unpacedOperations = 64
	// maxWork is how long reading one document may take, without its rests: others wait for it.
	maxWork = 3 * time.Minute
	// largeDocument is the size from which on a document gets largeRoom more of the heap: the process reads one at a time.
	largeDocument = 8 << 20
	largeRoom     = 16 << 20
	// progressInterval is how often progress is stored.
	progressInterval = 500 * time.Millisecond
	// fetchTimeout bounds how long a document may take to come.
	fetchTimeout = 2 * time.Minute
	maxRedirects = 3
)

// reader reads the document of one import. It is for one goroutine.
type reader struct {
	*Service
	job   *jobs.Job
	m     *Import
	began time.Time

	progress Progress
	reported time.Time
	index    *actionindex.Builder
	// block are the actions that are not stored yet, and blocks counts those that are stored.
	block   bytes.Buffer
	inBlock int
	blocks  int64
	// waiting are parts that are not stored yet.
	waiting      []part
	waitingBytes int
	// room is how many bytes all parts may take.
	room     int64
	contents hash.Hash
	// probe is nil until it was found among the actions.
	probe *probe
	// rules are those of the provider that the import extends; nil if it defines one.
	rules *declared.Rules
	// worked is when the present piece of work began, and busy how long all before took.
	worked time.Time
	busy   time.Duration
}

// read reads the document and stores its actions. Errors are *documents.Problem, *refusal, or of the service.
func (r *reader) read(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	text, err := r.text(ctx)
	if err != nil {
		return err
	}
	if text.Len() >= largeDocument {
		r.cfg.Heap.Add(largeRoom)
		defer r.cfg.Heap.Add(-largeRoom)
	}
	r.worked = r.cfg.Clock.Now()
	r.progress.Phase = Reading
	document, err := documents.OpenAny(text)
	if err != nil {
		return err //nolint:wrapcheck // run reads it
	}
	if err := checkSource(r.m.Source, document.Format); err != nil {
		return err
	}
	r.m.Document.Format, r.m.Document.Title, r.m.Document.Version = document.Format, document.Title, document.Version
	r.contents = sha256.New()
	if r.m.Extends {
		p, ok := r.cfg.Definitions.live.Get(r.m.Slug)
		if !ok {
			return &refusal{FailedProvider, "the installation has no provider " + r.m.Slug + " any more"}
		}
		r.rules = p.Rules
	}
	r.index = actionindex.NewBuilder(r.m.Slug, r.m.name())
	if err := r.operations(ctx, document); err != nil {
		return err
	}
	if r.m.Outcome.Actions == 0 {
		return &refusal{FailedDocument, noActions(&r.m.Outcome)}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.describeProvider(document); err != nil {
		return err
	}
	return r.storeIndex(ctx)
}

func noActions(o *Outcome) string {
	switch {
	case o.Operations == 0:
		return "the document has no operations"
	case o.Excluded > 0 && o.LeftOut == 0:
		return fmt.Sprintf("none of the document's %d operations is one that include and exclude leave", o.Operations)
	default:
		return fmt.Sprintf("none of the document's %d operations could become an action; the first: %s", o.Operations,
			o.Left[0].Message)
	}
}

// start marks the import as running and deletes what an earlier process has stored of it.
func (r *reader) start(ctx context.Context) error {
	now := r.now()
	if _, err := r.job.Progress(&r.progress); err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	r.progress = Progress{Phase: r.firstPhase(), Starts: r.progress.Starts + 1}
	if r.progress.Starts > maxStarts {
		return &refusal{FailedInternal, fmt.Sprintf("The processes that read the document have ended %d times meanwhile; it "+
			"may need more memory than they have", maxStarts)}
	}
	err := r.job.SaveProgress(ctx, r.progress, func(ctx context.Context, tx *sql.Tx) error {
		next := *r.m
		next.Status, next.UpdatedAt, next.StoredBytes = Running, now, 0
		if next.StartedAt == nil {
			next.StartedAt = &now
		}
		return update(ctx, tx, &next)
	})
	if err != nil {
		return err //nolint:wrapcheck // run reads it
	}
	r.m.Status, r.m.UpdatedAt, r.m.StoredBytes = Running, now, 0
	if r.m.StartedAt == nil {
		r.m.StartedAt = &now
	}
	r.m.version++
	r.reported = now
	u, err := useOf(ctx, r.cfg.DB.Read(), r.m.Environment)
	if err != nil {
		return err
	}
	r.room = max(0, MaxStoredBytes-u.bytes)
	for more := true; more; {
		if err := r.job.Save(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			more, err = deleteParts(ctx, tx, r.m.Environment, r.m.ID, partDocument)
			return err
		}); err != nil {
			return err //nolint:wrapcheck // run reads it
		}
	}
	return nil
}

func (r *reader) firstPhase() Phase {
	if r.m.URL != "" {
		return Fetching
	}
	return Reading
}

// text returns the document.
func (r *reader) text(ctx context.Context) (*longtext.Text, error) {
	text := new(longtext.Text)
	if r.m.URL == "" {
		return text, r.readText(ctx, text, r.m.Environment, r.m.ID, partDocument)
	}
	sum := sha256.New()
	if err := r.fetch(ctx, io.MultiWriter(text, sum), r.m.URL); err != nil {
		return nil, err
	}
	r.m.Document.Bytes, r.m.Document.SHA256 = int64(text.Len()), hex.EncodeToString(sum.Sum(nil))
	return text, nil
}

// fetch gets a document from where it is, through a few redirects.
func (r *reader) fetch(ctx context.Context, to io.Writer, raw string) error {
	client := r.cfg.Client.HTTPClient(egress.Bounds{Timeout: fetchTimeout, MaxResponseBytes: documents.MaxBytes})
	for range maxRedirects + 1 {
		target, refused := r.cfg.Client.ParseTarget(raw)
		if refused != nil {
			return &refusal{FailedFetch, "cannot fetch the document: " + refused.Message}
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
		if err != nil {
			return &refusal{FailedFetch, "cannot fetch the document: its URL is not valid"}
		}
		request.Header.Set("Accept", "application/json, application/yaml, text/yaml, */*;q=0.5")
		response, err := client.Do(request)
		if err != nil {
			return fetchError(ctx, err)
		}
		if response.StatusCode/100 == 3 {
			location, err := response.Location()
			_ = response.Body.Close() // nothing of it is used
			if err != nil {
				return &refusal{FailedFetch, "cannot fetch the document: a redirect leads nowhere"}
			}
			raw = location.String()
			continue
		}
		return readResponse(ctx, to, response)
	}
	return &refusal{FailedFetch, fmt.Sprintf("cannot fetch the document: there were more than %d redirects",
		maxRedirects)}
}

func readResponse(ctx context.Context, to io.Writer, response *http.Response) error {
	defer func() { _ = response.Body.Close() }() // reading it has its own error
	if response.StatusCode != http.StatusOK {
		return &refusal{FailedFetch, fmt.Sprintf("cannot fetch the document: the server responded with status %d",
			response.StatusCode)}
	}
	if _, err := io.Copy(to, response.Body); err != nil {
		return fetchError(ctx, err)
	}
	return nil
}

func fetchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	message := "the exchange failed"
	var failed *egress.Error
	if errors.As(err, &failed) {
		message = failed.Message
	}
	return &refusal{FailedFetch, "cannot fetch the document: " + message}
}

// checkSource returns an error if the document is not what the client has said that it is.
func checkSource(stated Source, format documents.Format) error {
	fits := map[Source][]documents.Format{
		OpenAPI3: {documents.OpenAPI30, documents.OpenAPI31}, Swagger2: {documents.Swagger2},
		Discovery: {documents.Discovery}, GraphQL: {documents.GraphQL},
	}[stated]
	if stated == "" || slices.Contains(fits, format) {
		return nil
	}
	return &refusal{FailedDocument, fmt.Sprintf("the document is of the format %s, not %s", format, stated)}
}

// operations makes actions of the operations of a document.
func (r *reader) operations(ctx context.Context, document *documents.Document) error {
	results, err := document.Operations()
	if err != nil {
		return err //nolint:wrapcheck // run reads it
	}
	for result := range results {
		o := &r.m.Outcome
		o.Operations++
		if r.progress.Done++; r.progress.Done%unpacedOperations == 0 { // those that become no action are work, too
			if err := r.breathe(ctx); err != nil {
				return err
			}
		}
		switch {
		case result.Left != nil:
			r.leave(&result, result.Left)
			continue
		case !actions.IsChosen(r.m.Include, r.m.Exclude, result.Action.Subject()):
			o.Excluded++
			continue
		}
		a := result.Action
		a.Call.Trusted = r.m.Trusted
		r.rules.Complete(a)
		for _, note := range result.Notes {
			r.note(a.Name, note)
		}
		if err := r.add(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) leave(result *documents.Result, why *documents.Problem) {
	o := &r.m.Outcome
	if o.LeftOut++; len(o.Left) < maxListed {
		o.Left = append(o.Left, Left{result.Method, result.Path, why.Line, why.Column, why.Message})
	}
}

func (r *reader) note(action, message string) {
	o := &r.m.Outcome
	if o.Noted++; len(o.Notes) < maxListed {
		o.Notes = append(o.Notes, Note{action, message})
	}
}

// add stores an action, with others of its block.
func (r *reader) add(ctx context.Context, a *actions.Action) error {
	if err := r.noteProbe(a); err != nil {
		return err
	}
	text, err := a.Encode()
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	summary := a.Summarize(text)
	r.index.Add(a, &summary)
	_, _ = r.contents.Write([]byte(summary.Name + " " + summary.Content + "\n")) // a hash.Hash never returns an error
	r.m.Outcome.Actions++
	r.block.Write(text)
	r.block.WriteByte('\n')
	if r.inBlock++; r.inBlock < blockActions {
		return nil
	}
	return r.endBlock(ctx)
}

// endBlock hands the block over to be stored.
func (r *reader) endBlock(ctx context.Context) error {
	if r.inBlock == 0 {
		return nil
	}
	p := part{r.blocks, r.packer.pack(r.block.Bytes())}
	r.blocks++
	r.inBlock = 0
	r.block.Reset()
	r.waiting = append(r.waiting, p)
	if r.waitingBytes += len(p.data); r.waitingBytes >= batchBytes {
		return r.store(ctx, partActions)
	}
	return r.breathe(ctx)
}

// breathe leaves room for other work.
func (r *reader) breathe(ctx context.Context) error {
	worked := r.cfg.Clock.Now().Sub(r.worked)
	if r.busy += worked; r.busy > maxWork {
		return &refusal{FailedLimit, fmt.Sprintf("reading the document takes more than %d seconds of work",
			int(maxWork.Seconds()))}
	}
	r.pause(ctx, worked)
	r.worked = r.cfg.Clock.Now()
	if r.worked.Sub(r.reported) < progressInterval {
		return ctx.Err() //nolint:wrapcheck // run reads it
	}
	r.reported = r.worked
	return r.job.SaveProgress(ctx, r.progress, nil) //nolint:wrapcheck // run reads it
}

// store stores the parts that wait. It returns jobs.ErrLost if another process has the import.
func (r *reader) store(ctx context.Context, k kind) error {
	if len(r.waiting) == 0 {
		return r.breathe(ctx)
	}
	if r.m.StoredBytes += int64(r.waitingBytes); r.m.StoredBytes > r.room {
		return &refusal{FailedLimit, fmt.Sprintf("the actions of the document take more than the %d MiB that are left of "+
			"the %d MiB for the imports of the environment; delete some", r.room>>20, MaxStoredBytes>>20)}
	}
	err := r.job.SaveProgress(ctx, r.progress, func(ctx context.Context, tx *sql.Tx) error {
		for _, p := range r.waiting {
			if err := storePart(ctx, tx, r.m, k, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err //nolint:wrapcheck // run reads it
	}
	r.waiting, r.waitingBytes = r.waiting[:0], 0
	return r.breathe(ctx)
}

// flush stores the actions that are left.
func (r *reader) flush(ctx context.Context) error {
	if err := r.endBlock(ctx); err != nil {
		return err
	}
	return r.store(ctx, partActions)
}

// describeProvider makes a definition of the provider from the document, unless the import extends one.
func (r *reader) describeProvider(document *documents.Document) error {
	if !r.m.Extends {
		definition, access, err := r.draft(document)
		if err != nil {
			return err
		}
		r.m.definition, r.m.Outcome.Access = string(definition), access
		_, _ = r.contents.Write(definition)
	}
	r.m.Outcome.Digest = hex.EncodeToString(r.contents.Sum(nil))
	return nil
}

// storeIndex stores the index of the actions.
func (r *reader) storeIndex(ctx context.Context) error {
	r.progress.Phase = Indexing
	index, err := r.index.Build()
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	number := int64(0)
	return eachPiece(bytes.NewReader(index.Encode()), func(piece []byte) error {
		p := part{number, r.packer.pack(piece)}
		number++
		r.waiting = append(r.waiting, p)
		r.waitingBytes += len(p.data)
		return r.store(ctx, partIndex)
	})
}

// finish is the change that makes the import one that can be activated.
func (r *reader) finish() jobs.Change {
	m := *r.m
	return func(ctx context.Context, tx *sql.Tx) error {
		next := m
		next.Status, next.UpdatedAt, next.Actions = Ready, r.now(), int64(next.Outcome.Actions)
		return update(ctx, tx, &next)
	}
}
