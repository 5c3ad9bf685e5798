package imports

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/actiondiff"
)

// ActionChange is what an import would change about an action of the catalog.
type ActionChange struct {
	Action string
	Kind   ChangeKind
	// Before is nil for an action that is added, and After for one that is removed.
	Before, After *actions.Summary
	// Breaking is true if callers of the action as it is cannot depend on it any more. One that is removed is.
	Breaking bool
	// Differences are the first of an action that is changed, and Count how many there are.
	Differences []actiondiff.Difference
	Count       int

	// before and after are the numbers of the action in both indexes.
	before, after int
}

// compares reports whether both versions have the action.
func (ch *ActionChange) compares() bool { return ch.Before != nil && ch.After != nil }

// ChangeFilter narrows a list of changes. An empty field matches everything.
type ChangeFilter struct {
	Kinds    []ChangeKind
	Breaking *bool
}

// ListChanges returns one page of the actions that the activation of an import would change, in the order of their
// names, and one more if another page follows.
//
// Errors: not_found; import_not_ready; unavailable if too many previews are made.
func (s *Service) ListChanges(ctx context.Context, env id.Environment, importID string, f ChangeFilter,
	p page.Request) ([]ActionChange, error) {
	c, err := s.compare(ctx, env, importID)
	if err != nil || c.m.Status == Active {
		return nil, err
	}
	var out []ActionChange
	err = s.withChanges(ctx, c, func(x *changes) (err error) {
		var broken map[string]bool
		if f.Breaking != nil {
			known, err := x.broken(ctx)
			switch {
			case err != nil:
				return err
			case !known.complete:
				return errComparing()
			}
			broken = known.names
		}
		x.all = slices.DeleteFunc(x.all, func(ch ActionChange) bool {
			return p.After != "" && (ch.Action == p.After || (ch.Action > p.After) != p.Ascending) ||
				len(f.Kinds) > 0 && !slices.Contains(f.Kinds, ch.Kind) ||
				f.Breaking != nil && broken[ch.Action] != *f.Breaking
		})
		if !p.Ascending {
			slices.Reverse(x.all)
		}
		out = x.all[:min(p.Fetch(), len(x.all))]
		for i := range out {
			if err := x.explain(ctx, &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func errComparing() error {
	return apperr.New(apperr.CodeUnavailable,
		"The changes are many, and which of them are breaking is not known yet; retry").RetryIn(time.Second)
}

// changes are what differs between an import and the active one.
type changes struct {
	s             *Service
	c             *compared
	all           []ActionChange
	before, after blocks
}

// withChanges compares the actions of an import with those of the base, when it is the environment's turn.
func (s *Service) withChanges(ctx context.Context, c *compared, fn func(*changes) error) error {
	leave, err := s.comparing.Enter(ctx, string(c.m.Environment))
	if err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	defer leave()
	after, err := s.Index(ctx, c.m.Environment, c.m.ID)
	if err != nil {
		return err
	}
	x := &changes{s: s, c: c, after: blocks{s: s, of: c.m}}
	before := new(actionindex.Index)
	if c.base != nil {
		x.before = blocks{s: s, of: c.base}
		if before, err = s.Index(ctx, c.base.Environment, c.base.ID); err != nil {
			return err
		}
	}
	x.all = diff(before, after)
	return fn(x)
}

// diff returns what differs between two sets of actions, in the order of their names.
func diff(before, after *actionindex.Index) (out []ActionChange) {
	i, j := 0, 0
	for i < before.Len() || j < after.Len() {
		var old, now *actions.Summary
		if i < before.Len() {
			old = before.Sorted(i)
		}
		if j < after.Len() {
			now = after.Sorted(j)
		}
		var order int
		switch {
		case old == nil:
			order = 1
		case now == nil:
			order = -1
		default:
			order = strings.Compare(old.Name, now.Name)
		}
		switch {
		case order < 0:
			out = append(out, ActionChange{Action: old.Name, Kind: Removed, Before: old, Breaking: true})
			i++
		case order > 0:
			out = append(out, ActionChange{Action: now.Name, Kind: Added, After: now})
			j++
		default:
			if old.Content != now.Content {
				kind := Changed
				if now.Risk.Level.Above(old.Risk.Level) {
					kind = RiskRaised
				}
				out = append(out, ActionChange{Action: old.Name, Kind: kind, Before: old, After: now,
					before: before.Number(i), after: after.Number(j)})
			}
			i, j = i+1, j+1
		}
	}
	return out
}

// explain says what differs of an action that both versions have.
func (x *changes) explain(ctx context.Context, ch *ActionChange) error {
	if !ch.compares() {
		return nil
	}
	before, err := x.before.action(ctx, ch.before)
	if err != nil {
		return err
	}
	after, err := x.after.action(ctx, ch.after)
	if err != nil {
		return err
	}
	r := actiondiff.Compare(before, after)
	ch.Differences, ch.Count, ch.Breaking = r.List, r.Count, r.Breaking
	return nil
}

// broken finds the actions whose change is breaking. It reads all actions that are changed, so that its result is kept:
// the actions of an import never change. A request does a part of the work if that is much, and the next one goes on.
func (x *changes) broken(ctx context.Context) (*breakage, error) {
	out := x.s.breaks.of(breakKey{x.c.m.ID, baseOf(x.c.base)})
	if out.complete {
		return out, nil
	}
	order := make([]*ActionChange, 0, len(x.all))
	for i := range x.all {
		ch := &x.all[i]
		switch {
		case ch.compares():
			order = append(order, ch)
		case ch.Breaking:
			out.names[ch.Action] = true
		}
	}
	slices.SortFunc(order, func(a, b *ActionChange) int { return a.after - b.after }) // as they are stored
	for began := x.s.cfg.Clock.Now(); out.done < len(order); out.done++ {
		if x.s.cfg.Clock.Now().Sub(began) > x.s.maxComparing {
			return out, nil
		}
		of := *order[out.done] // the differences of all are more than are needed
		if err := x.explain(ctx, &of); err != nil {
			return nil, err
		}
		if of.Breaking {
			out.names[of.Action] = true
		}
	}
	out.complete = true
	return out, nil
}

// blocks reads the actions of an import, and keeps the blocks that were read last.
type blocks struct {
	s     *Service
	of    *Import
	known map[int][][]byte
	order []int
}

// keptBlocks is how many blocks are in memory. Actions that are near to each other in one version mostly are in
// another one.
const keptBlocks = 16

func (b *blocks) action(ctx context.Context, number int) (*actions.Action, error) {
	at := number / blockActions
	lines, ok := b.known[at]
	if !ok {
		var err error
		if lines, err = b.s.block(ctx, b.of.Environment, b.of.ID, at); err != nil {
			return nil, err
		}
		if b.known == nil {
			b.known = map[int][][]byte{}
		}
		if len(b.order) == keptBlocks {
			delete(b.known, b.order[0])
			b.order = b.order[1:]
		}
		b.known[at], b.order = lines, append(b.order, at)
	}
	return actionIn(lines, number)
}

// breakKey names a comparison: an import, and the active one; empty for none.
type breakKey struct{ after, before string }

// keptBreaks is how many comparisons are kept.
const keptBreaks = 64

// maxComparing is how long one request compares actions to find those whose change is breaking.
const maxComparing = 5 * time.Second

// breakage are the actions whose change is breaking, as far as that is known. It is used in the turn of its
// environment.
type breakage struct {
	names map[string]bool
	// done is how many actions were compared, and complete true when all were.
	done     int
	complete bool
}

// breaks are the results of comparisons. It is safe for concurrent use.
type breaks struct {
	mu    sync.Mutex
	known map[breakKey]*breakage
}

// of returns what is known of a comparison.
func (b *breaks) of(key breakKey) *breakage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out, ok := b.known[key]; ok {
		return out
	}
	if b.known == nil {
		b.known = map[breakKey]*breakage{}
	}
	if len(b.known) >= keptBreaks {
		for other := range b.known { // any of them: it costs a comparison
			delete(b.known, other)
			break
		}
	}
	out := &breakage{names: map[string]bool{}}
	b.known[key] = out
	return out
}
