package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
)

// Index returns the index of the actions of an import that was read whole. It is in memory while there is room.
func (s *Service) Index(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error) {
	return s.indexes.get(ctx, env, importID)
}

// loadIndex reads the index of an import. One that an earlier release has written is made again.
func (s *Service) loadIndex(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error) {
	var text bytes.Buffer
	if err := s.readText(ctx, &text, env, importID, partIndex); err != nil {
		return nil, err
	}
	x, err := actionindex.Decode(text.Bytes())
	if errors.Is(err, actionindex.ErrForm) {
		s.cfg.Logger.InfoContext(ctx, "the index of an import has another form and is made again",
			slog.String("import_id", importID))
		x, err = s.rebuildIndex(ctx, env, importID)
	}
	if err != nil {
		return nil, fmt.Errorf("read the index of import %s: %w", importID, err)
	}
	return x, nil
}

// rebuildIndex makes the index of an import from its actions.
func (s *Service) rebuildIndex(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error) {
	m, err := find(ctx, s.cfg.DB.Read(), env, importID, "")
	if err != nil {
		return nil, err
	}
	b := actionindex.NewBuilder(m.Slug, m.name())
	for number := int64(0); ; number++ {
		data, found, err := findPart(ctx, s.cfg.DB.Read(), env, importID, partActions, number)
		if err != nil {
			return nil, err
		}
		if !found {
			return b.Build() //nolint:wrapcheck // it says what failed
		}
		text, err := s.packer.unpack(data)
		if err != nil {
			return nil, err
		}
		for _, line := range linesOf(text) {
			a, err := actions.Decode(line)
			if err != nil {
				return nil, err //nolint:wrapcheck // it says what failed
			}
			summary := a.Summarize(line)
			b.Add(a, &summary)
		}
	}
}

// maxIndexBytes bounds the indexes of imports that are in memory, roughly. One that is needed is there even if it is
// larger.
const maxIndexBytes = 256 << 20

// indexes are those of imports that were used last. An import never changes, so they are not refreshed.
type indexes struct {
	load func(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error)
	heap *heaplimit.Limit

	mu    sync.Mutex
	known map[indexKey]*cachedIndex
	bytes int
	// uses numbers the uses, so that the one that was used least recently is dropped first.
	uses int64
}

// indexKey has the environment, so that an id leads nowhere in another one.
type indexKey struct {
	env      id.Environment
	importID string
}

type cachedIndex struct {
	ready  chan struct{} // closed when the fields below are set
	index  *actionindex.Index
	err    error
	size   int
	lastly int64
}

// get returns the index of an import. Callers that need it at the same time share one load.
func (x *indexes) get(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error) {
	key := indexKey{env, importID}
	e, first := x.entry(key)
	if first {
		x.fill(ctx, e, key)
	}
	select {
	case <-e.ready:
		return e.index, e.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the index of an import: %w", ctx.Err())
	}
}

// fill loads an index for all who wait for it.
func (x *indexes) fill(ctx context.Context, e *cachedIndex, key indexKey) {
	e.err = errLoad
	defer func() {
		x.keep(key, e)
		close(e.ready)
	}()
	e.index, e.err = x.load(context.WithoutCancel(ctx), key.env, key.importID)
}

var errLoad = errors.New("the index of an import could not be loaded")

func (x *indexes) entry(key indexKey) (e *cachedIndex, first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.uses++
	e = x.known[key]
	if e == nil {
		e, first = &cachedIndex{ready: make(chan struct{})}, true
		if x.known == nil {
			x.known = map[indexKey]*cachedIndex{}
		}
		x.known[key] = e
	}
	e.lastly = x.uses
	return e, first
}

// keep accounts for an index that was loaded, and drops others until there is room for it.
func (x *indexes) keep(key indexKey, e *cachedIndex) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.err != nil {
		delete(x.known, key)
		return
	}
	e.size = e.index.Size()
	before := x.bytes
	defer func() { x.heap.Add(int64(x.bytes-before) / 4 * 5) }() // sizes are rough
	x.bytes += e.size
	for x.bytes > maxIndexBytes {
		var oldest *cachedIndex
		for other, o := range x.known {
			if o != e && o.size > 0 && (oldest == nil || o.lastly < oldest.lastly) {
				oldest, key = o, other
			}
		}
		if oldest == nil {
			return
		}
		x.bytes -= oldest.size
		delete(x.known, key)
	}
}
