package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/bench/internal/report"
	"sallyport/bench/internal/stats"
	"sallyport/bench/internal/target"
	"sallyport/internal/platform/testkit/actioncorpus"
)

const (
	// mostSearch is how long the slowest hundredth of searches may take, in milliseconds.
	mostSearch = 20
	// importLimit is how much longer anything may take next to the imports of another environment.
	importLimit = 1.4
	// searchRate and readRate are how many searches, lists and calls a second there are.
	searchRate, readRate = 20, 20
	// mostActive is how many documents an environment has at most; it may have 100.
	mostActive = 95
	// mostDistinct is how many of a folder are different.
	mostDistinct = 50
	// mostBytes is the size of the largest document that can be imported.
	mostBytes = 64 << 20
	// MostOperations is how many operations a document may have.
	MostOperations = 50_000
	// bytesEach is how many bytes an operation of a made document has.
	bytesEach = mostBytes / MostOperations
	// hostileRate is how many searches a second the environment makes that imports documents.
	hostileRate = 100
)

// catalogs returns the rows about imports and searches.
func catalogs() []Row {
	return []Row{
		{Name: "search", About: "events as fast as they are acknowledged, while another environment searches its 100,000 " +
			"actions 20 times a second",
			Targets: []Target{{Figure: Rate, Limit: 0.95, Least: true}, {Figure: SearchP99, Limit: mostSearch, Absolute: true}},
			measure: searches},
		{Name: "imports", About: "another environment imports the largest documents one after the other, and searches 100 " +
			"times a second",
			Targets: []Target{{Figure: AckP99, Limit: importLimit}, {Figure: SinkP99, Limit: importLimit},
				{Figure: ListP99, Limit: importLimit}, {Figure: CallP99, Limit: importLimit}},
			measure: nextBy(importing, (*scene).served)},
	}
}

// document is a description of an API.
type document struct {
	slug string
	open func() (io.ReadCloser, error)
}

// documents returns the largest documents of the folder, the largest first; made ones without a folder, each with so
// many operations.
func (b *Bench) documents(most, operations int) ([]document, error) {
	if b.Documents == "" {
		var made []document
		for i := range most {
			made = append(made, document{fmt.Sprintf("made-%d", i), func() (io.ReadCloser, error) {
				return synthetic(i, operations), nil
			}})
		}
		return made, nil
	}
	type file struct {
		path string
		size int64
	}
	var files []file
	err := filepath.WalkDir(b.Documents, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Size() <= mostBytes {
			files = append(files, file{path, info.Size()})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find documents: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no documents in %s", errAttack, b.Documents)
	}
	slices.SortFunc(files, func(a, b file) int {
		if a.size != b.size {
			return int(b.size - a.size)
		}
		return strings.Compare(a.path, b.path)
	})
	var found []document
	for i := range most { // again from the largest one, because small ones add little
		path := files[i%min(len(files), mostDistinct)].path
		found = append(found, document{fmt.Sprintf("document-%d", i), func() (io.ReadCloser, error) {
			return os.Open(path)
		}})
	}
	return found, nil
}

// synthetic returns a document with so many operations; the largest one is nearly as large as it may be.
func synthetic(number, operations int) io.ReadCloser {
	verbs := []struct{ method, verb string }{{"get", "list"}, {"post", "create"}, {"put", "replace"}, {"delete", "delete"},
		{"patch", "update"}}
	nouns := []string{"invoice", "payment", "refund", "message", "contact", "ticket", "file", "folder", "event", "webhook",
		"user", "group", "order", "product", "subscription", "report"}
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(w, 1<<16)
		_, _ = fmt.Fprintf(out, `{"openapi":"3.0.3","info":{"title":"Made %d","version":"1"},"components":{`+
			`"securitySchemes":{"token":{"type":"http","scheme":"bearer"}},"schemas":{`, number) // the writer keeps its error
		for i, noun := range nouns {
			_, _ = fmt.Fprintf(out, `%s"%s":{"type":"object","properties":{"id":{"type":"string"},"parent":{"$ref":`+
				`"#/components/schemas/%s"},"name":{"type":"string","description":"The name of the %s."}}}`,
				strings.Repeat(",", min(i, 1)), noun, nouns[(i+1)%len(nouns)], noun)
		}
		_, _ = io.WriteString(out, `}},"security":[{"token":[]}],"paths":{`)
		const sentence, around = "It says more about that. ", 410 // the bytes of an operation without its filling
		filling := strings.Repeat(sentence, (bytesEach-around)/len(sentence))
		for i := range operations {
			noun, v := nouns[i%len(nouns)], verbs[i/len(nouns)%len(verbs)]
			_, _ = fmt.Fprintf(out, `%s"/v1/%ss/%d/{id}":{"%s":{"operationId":"%s_%s_%d","summary":"%s the %s number %d",`+
				`"description":"%s","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}},`+
				`{"name":"limit","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"description":"It is done.",`+
				`"content":{"application/json":{"schema":{"$ref":"#/components/schemas/%s"}}}}}}}`,
				strings.Repeat(",", min(i, 1)), noun, i, v.method, v.verb, noun, i, v.verb, noun, i, filling, noun)
		}
		_, _ = io.WriteString(out, "}}")
		_ = w.CloseWithError(out.Flush()) // never fails
	}()
	return r
}

// imported imports and activates documents until there are so many actions.
func (s *scene) imported(ctx context.Context, member *target.API, documents []document, actions int) error {
	began := s.bench.clk.Now()
	total, count := 0, 0
	for _, d := range documents {
		n, err := s.importOne(ctx, member, d)
		if errors.Is(err, target.ErrImport) { // not every document is one that can be called
			continue
		}
		if err != nil {
			return err
		}
		count++
		if total += n; total >= actions {
			break
		}
	}
	s.bench.Say("%s: %d actions of %d documents in %s", s.bench.Engine, total, count,
		s.bench.clk.Now().Sub(began).Round(time.Second))
	if total < actions {
		return fmt.Errorf("%w: the documents have %d actions, not %d", errAttack, total, actions)
	}
	return nil
}

func (s *scene) importOne(ctx context.Context, member *target.API, d document) (int, error) {
	text, err := d.open()
	if err != nil {
		return 0, fmt.Errorf("open a document: %w", err)
	}
	n, err := member.Import(ctx, s.bench.clk, d.slug, text)
	_ = text.Close() // nothing was written
	return n, err
}

// searches measures ingest on one server without searches and with them; which is first alternates.
func searches(ctx context.Context, b *Bench) (without, with Figures, note string, err error) {
	s, err := b.open(ctx, 0)
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	key, member, err := s.api().CreateCatalog(ctx, s.servers[0].User, "catalog")
	if err != nil {
		return nil, nil, "", err
	}
	if s.others, err = s.api().CreateEnvironment(ctx, s.servers[0].User, "events"); err != nil {
		return nil, nil, "", err
	}
	if s.theirs, err = s.others.CreateConnection(ctx, provider, secret); err != nil { // which no subscription matches
		return nil, nil, "", err
	}
	const several = 5
	documents, err := b.documents(mostActive, max(1, b.Actions/several))
	if err == nil {
		err = s.imported(ctx, member, documents, b.Actions)
	}
	if err == nil { // so that the indexes are in memory
		_, err = s.ingest(ctx, b.short())
		_, _ = s.timed(ctx, b.short(), searchRate, queries(key))
	}
	if err != nil {
		return nil, nil, "", err
	}
	alone := func() (err error) {
		without, err = s.ingest(ctx, b.Duration)
		return err
	}
	next := func() (err error) {
		var running sync.WaitGroup
		var times []time.Duration
		running.Go(func() { times, note = s.timed(ctx, b.Duration, searchRate, queries(key)) })
		with, err = s.ingest(ctx, b.Duration)
		running.Wait()
		if err == nil {
			q := report.NewQuantiles(stats.Summarise(times))
			with[SearchP50], with[SearchP99] = q.P50, q.P99
			note = fmt.Sprintf("searches: p50 %.1f ms, p99 %.1f ms, longest %.1f ms; %s", q.P50, q.P99, q.Max, note)
		}
		return err
	}
	order := []func() error{alone, next}
	if b.turn = !b.turn; b.turn {
		slices.Reverse(order)
	}
	for _, measure := range order {
		if err := errors.Join(measure(), s.wait(ctx, b.short())); err != nil {
			return nil, nil, "", err
		}
	}
	return without, with, note, nil
}

// ingest measures events of the other environment as fast as they are acknowledged.
func (s *scene) ingest(ctx context.Context, length time.Duration) (Figures, error) {
	return s.metered(func() (Figures, int, error) {
		runner, subject := s.runner(length, maxEvents)
		subject.Target = s.target(s.theirs)
		got, err := runner.Ingest(ctx, subject)
		if err != nil {
			return nil, 0, err
		}
		return Figures{AckP50: got.Ack.P50, AckP99: got.Ack.P99, Rate: got.PerSecond,
			Refused: float64(got.Requests.Refused + got.Requests.Failed)}, got.Events, nil
	})
}

// queries returns a request for the next of the queries of the corpus.
func queries(key *target.API) func(ctx context.Context) (int, error) {
	list := actioncorpus.Queries()
	var n atomic.Int64
	return func(ctx context.Context) (int, error) {
		q := list[int(n.Add(1))%len(list)]
		status, _, err := key.Do(ctx, http.MethodGet, "/actions?"+url.Values{"q": {q.Text}}.Encode(), nil)
		return status, err
	}
}

// timed makes requests at a rate for a time, whether those before have ended or not, and returns how long they took
// from the time at which each was due, and what they came to.
func (s *scene) timed(ctx context.Context, length time.Duration, perSecond int, request func(ctx context.Context) (int,
	error)) (times []time.Duration, note string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	interval := time.Second / time.Duration(perSecond)
	var count tally
	var mu sync.Mutex
	var running sync.WaitGroup
	begin := s.bench.clk.Now()
	for due := begin; due.Sub(begin) < length; due = due.Add(interval) {
		if s.wait(ctx, due.Sub(s.bench.clk.Now())) != nil {
			break
		}
		running.Go(func() {
			status, err := request(ctx)
			took := s.bench.clk.Now().Sub(due)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				count.add("no response")
				return
			}
			count.add(fmt.Sprint(status))
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took)
		})
	}
	running.Wait()
	return times, count.String()
}

// served measures events at the rate of the open loop, and lists and calls of the same environment next to them.
func (s *scene) served(ctx context.Context) (Figures, error) {
	get := func(path string) func(ctx context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			status, _, err := s.api().Do(ctx, http.MethodGet, path, nil)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%w: GET %s: status %d", target.ErrServer, path, status)
			}
			return status, err
		}
	}
	var running sync.WaitGroup
	var lists, calls []time.Duration
	running.Go(func() { lists, _ = s.timed(ctx, s.bench.Duration, readRate, get("/webhook-events?limit=50")) })
	running.Go(func() { calls, _ = s.timed(ctx, s.bench.Duration, readRate, get("/webhook-subscriptions?limit=1")) })
	f, err := s.steady(ctx)
	running.Wait()
	if err != nil {
		return nil, err
	}
	f[ListP99] = report.NewQuantiles(stats.Summarise(lists)).P99
	f[CallP99] = report.NewQuantiles(stats.Summarise(calls)).P99
	return f, nil
}

// importing has the other environment import the largest documents, again and again, and search meanwhile.
func importing(ctx context.Context, s *scene) (attack, error) {
	const different = 3
	key, member, err := s.api().CreateCatalog(ctx, s.servers[0].User, "importing")
	if err != nil {
		return nil, err
	}
	documents, err := s.bench.documents(different, s.bench.Operations)
	if err == nil { // so that there is something to search
		err = s.imported(ctx, member, documents[different-1:], 1)
	}
	return func(ctx context.Context) (string, error) {
		var running sync.WaitGroup
		imports, importErr := 0, error(nil)
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := s.importOne(ctx, member, documents[i%different]); err != nil {
					if ctx.Err() == nil {
						importErr = err
					}
					return
				}
				imports++
			}
		})
		const length = time.Hour // it ends with the context
		clients, cancel := context.WithCancel(ctx)
		defer cancel()
		_, note := s.timed(clients, length, hostileRate, queries(key))
		running.Wait()
		return fmt.Sprintf("%d imports and a part of another; searches: %s", imports, note), importErr
	}, err
}
