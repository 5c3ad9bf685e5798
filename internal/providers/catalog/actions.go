package catalog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/suggest"
	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

// Actions are those of a provider configuration.
type Actions struct {
	key      string
	config   *configs.Config // nil for those of a provider as such
	provider *registry.Provider
	env      id.Environment
	// layers have the actions. Where two have an action of the same name, that of the first is shown: those that ship were
	// checked by hand.
	layers []layer
}

// layer is the actions of a definition or of an import.
type layer struct {
	index *actionindex.Index
	// version is the import's id; empty for a definition's.
	version string
}

// actionsOf returns the actions of a provider in an environment.
func (s *Service) actionsOf(ctx context.Context, env id.Environment, p *registry.Provider) (*Actions, error) {
	set := &Actions{provider: p, env: env, key: p.Definition.Slug}
	if len(p.Actions) > 0 {
		index, err := s.installed.get(p)
		if err != nil {
			return nil, err
		}
		set.layers = append(set.layers, layer{index: index})
	}
	if v := s.cfg.Definitions.Versions(env)[p.Definition.Slug]; v != nil {
		index, err := s.indexOf(ctx, env, v.Import)
		if err != nil {
			return nil, err
		}
		if index != nil {
			set.layers = append(set.layers, layer{index, v.Import})
		}
	}
	return set, nil
}

// indexOf returns the index of an import; nil for one that cannot be read, which must not take the others away.
func (s *Service) indexOf(ctx context.Context, env id.Environment, importID string) (*actionindex.Index, error) {
	index, err := s.cfg.Imports.Index(ctx, env, importID)
	switch {
	case err == nil:
		return index, nil
	case ctx.Err() != nil || db.IsUnavailable(err):
		return nil, err
	default:
		s.cfg.Logger.ErrorContext(ctx, "cannot read the actions of an import; the catalog is without them",
			slog.String("import_id", importID), slog.String("error", err.Error()))
		return nil, nil //nolint:nilnil // it is in the log
	}
}

// len returns how many actions are shown.
func (a *Actions) len() (n int) {
	for i := range a.layers {
		x := a.layers[i].index
		if n += x.Len(); i == 0 && !a.config.Chooses() {
			continue
		}
		for j := range x.Len() {
			if a.isHidden(i, x.Sorted(j)) {
				n--
			}
		}
	}
	return n
}

// hides reports whether an action of a layer may be hidden.
func (a *Actions) hides(of int) bool { return of > 0 || a.config.Chooses() }

// isHidden reports whether an action of a layer is not shown, because an earlier layer has one of its name or because
// the provider configuration leaves it out.
func (a *Actions) isHidden(of int, s *actions.Summary) bool {
	for _, l := range a.layers[:of] {
		if _, ok := l.index.Find(s.Name); ok {
			return true
		}
	}
	return a.config != nil && !a.config.Offers(s.Subject())
}

// Summary is what lists show of an action.
type Summary struct {
	// Key is that of the provider configuration.
	Key string
	actions.Summary
}

// ToolName is the action's name among the actions of all provider configurations.
func (s *Summary) ToolName() string { return actions.ToolName(s.Key, s.Name, s.Method, s.Path) }

// Conditions narrow a list of actions. An empty field matches everything.
type Conditions struct {
	Tags []string
	// MaxRisk is the highest level; unknown is as high as high.
	MaxRisk    risk.Level
	Operations []risk.Operation
	// Flags leave out actions without one of them.
	Flags      []risk.Flag
	Deprecated *bool
}

func (c *Conditions) isEmpty() bool {
	return c.MaxRisk == "" && len(c.Operations) == 0 && len(c.Flags) == 0 && c.Deprecated == nil && len(c.Tags) == 0
}

func (c *Conditions) match(s *actions.Summary, r *risk.Risk) bool {
	if c.MaxRisk != "" && r.Level.Above(c.MaxRisk) {
		return false
	}
	if len(c.Operations) > 0 && !slices.Contains(c.Operations, r.Operation) {
		return false
	}
	if c.Deprecated != nil && *c.Deprecated != s.Deprecated {
		return false
	}
	if len(c.Flags) > 0 && !slices.ContainsFunc(r.Flags, func(f risk.Flag) bool { return slices.Contains(c.Flags, f) }) {
		return false
	}
	return len(c.Tags) == 0 || slices.ContainsFunc(s.Tags, func(tag string) bool {
		return slices.ContainsFunc(c.Tags, func(wanted string) bool { return strings.EqualFold(tag, wanted) })
	})
}

// list returns the actions that meet the conditions, in the order of their names: those after a name, at most limit.
func (a *Actions) list(c *Conditions, after string, ascending bool, limit int) []Summary {
	merged := make([]walker, len(a.layers))
	for i, l := range a.layers {
		merged[i] = newWalker(l.index, after, ascending)
	}
	out := []Summary{}
	for len(out) < limit {
		next, first := -1, ""
		for i := range merged {
			if name, ok := merged[i].name(); ok && (next < 0 || precedes(name, first, ascending)) {
				next, first = i, name
			}
		}
		if next < 0 {
			break
		}
		s := merged[next].x.Sorted(merged[next].place)
		merged[next].step()
		if a.isHidden(next, s) {
			continue
		}
		if shown := a.summarize(s); c.match(s, &shown.Risk) {
			out = append(out, shown)
		}
	}
	return out
}

func precedes(a, b string, ascending bool) bool {
	if ascending {
		return a < b
	}
	return a > b
}

// walker goes through an index in the order of names, or in the opposite one.
type walker struct {
	x           *actionindex.Index
	place, pace int
}

func newWalker(x *actionindex.Index, after string, ascending bool) walker {
	switch {
	case ascending:
		return walker{x, x.After(after), 1}
	case after == "":
		return walker{x, x.Len() - 1, -1}
	default:
		place := x.After(after) - 1
		if place >= 0 && x.SortedName(place) == after {
			place--
		}
		return walker{x, place, -1}
	}
}

func (w *walker) name() (name string, ok bool) {
	if w.place < 0 || w.place >= w.x.Len() {
		return "", false
	}
	return w.x.SortedName(w.place), true
}

func (w *walker) step() { w.place += w.pace }

// summarize returns what the configuration shows of an action.
func (a *Actions) summarize(s *actions.Summary) Summary {
	out := Summary{a.key, *s}
	if a.config != nil {
		out.Risk = a.config.OverrideRisk(s.Name, out.Risk)
	}
	return out
}

// MaxFound is how many actions a search finds at most.
const MaxFound = 250

// names are those by which people name the configuration or its provider.
func (a *Actions) names() []string {
	d := &a.provider.Definition
	return append([]string{a.key, d.Slug, d.DisplayName}, d.Aliases...)
}

// Search returns the actions of a configuration that match a text best.
//
// Errors: unavailable if too many searches run.
func (s *Service) Search(ctx context.Context, a *Actions, text string, c *Conditions) ([]Summary, error) {
	leave, err := s.searching.Enter(ctx, string(a.env))
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	defer leave()
	return s.search([]*Actions{a}, text, c), nil
}

// SearchAll returns the actions of all providers of an environment that match a text best. keys restrict it to provider
// configurations, if any are given.
//
// Errors: provider_not_found; unavailable if too many searches run.
func (s *Service) SearchAll(ctx context.Context, env id.Environment, keys []string, text string,
	c *Conditions) ([]Summary, error) {
	// The indexes are read within the turn, because an environment may have many.
	leave, err := s.searching.Enter(ctx, string(env))
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	defer leave()
	var sets []*Actions
	for _, key := range keys {
		set, err := s.resolve(ctx, env, key)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	if len(keys) > 0 {
		return s.search(sets, text, c), nil
	}
	known, err := s.cfg.Configs.Known(ctx, env)
	if err != nil {
		return nil, err
	}
	for _, p := range s.cfg.Definitions.All(env) {
		set, err := s.actionsOf(ctx, env, p)
		if err != nil {
			return nil, err
		}
		if len(set.layers) == 0 {
			continue
		}
		if set.config = known[set.key]; set.config == nil || set.config.Provider == set.key {
			sets = append(sets, set)
		}
		for key, config := range known {
			if key != p.Definition.Slug && config.Provider == p.Definition.Slug {
				of := *set
				of.key, of.config = key, config
				sets = append(sets, &of)
			}
		}
	}
	slices.SortFunc(sets, func(x, y *Actions) int { return strings.Compare(x.key, y.key) })
	return s.search(sets, text, c), nil
}

// firstOf returns the first actions that meet the conditions.
func firstOf(sets []*Actions, c *Conditions) []Summary {
	out := []Summary{}
	for _, set := range sets {
		out = append(out, set.list(c, "", true, MaxFound-len(out))...)
	}
	return out
}

// place says which layer of which actions a segment is.
type place struct {
	set   *Actions
	layer int
}

// search returns the actions of several configurations that match a text best.
func (s *Service) search(sets []*Actions, text string, c *Conditions) []Summary {
	if strings.TrimSpace(text) == "" {
		return firstOf(sets, c)
	}
	var segments []*fulltext.Segment
	var places []place
	var named [][]string
	for _, set := range sets {
		for i, l := range set.layers {
			segments, places = append(segments, l.index.Words()), append(places, place{set, i})
			named = append(named, set.names())
		}
	}
	of := func(segment int) (*Actions, int, *actionindex.Index) {
		p := places[segment]
		return p.set, p.layer, p.set.layers[p.layer].index
	}
	all := c.isEmpty()
	hits := s.searcher.Search(segments, text, fulltext.Options{Limit: MaxFound,
		Boosts: actionindex.Boosts(text, named), Accept: func(segment, doc int) bool {
			set, layer, index := of(segment)
			if all && !set.hides(layer) {
				return true // nearly always, without the summary
			}
			summary := index.Summary(doc)
			if set.isHidden(layer, summary) {
				return false
			}
			shown := set.summarize(summary)
			return c.match(summary, &shown.Risk)
		}})
	out := make([]Summary, len(hits))
	for i, h := range hits {
		set, _, index := of(h.Segment)
		out[i] = set.summarize(index.Summary(h.Doc))
	}
	return out
}

// Page returns the actions of a configuration in the order of their names, those after a name, at most limit, when it
// is the environment's turn.
//
// Errors: unavailable if too many searches run.
func (s *Service) Page(ctx context.Context, a *Actions, c *Conditions, after string, ascending bool,
	limit int) ([]Summary, error) {
	leave, err := s.searching.Enter(ctx, string(a.env))
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	defer leave()
	return a.list(c, after, ascending, limit), nil
}

// Action is an action as a provider configuration has it.
type Action struct {
	*actions.Action
	Key      string
	Provider *registry.Provider
	// Version is that of the actions: the id of an import, or what a definition contains.
	Version string
	Risk    risk.Risk
}

// Limit is how many requests of a connection the provider takes in a time.
type Limit struct{ Requests, PerSeconds int64 }

// Limits returns the declared limits of the action's provider.
func (a *Action) Limits() (out []Limit) {
	if a.Provider.Outbound == nil {
		return nil
	}
	for _, b := range a.Provider.Outbound.Limits().Budgets {
		out = append(out, Limit{int64(b.Limit), int64(b.Per / time.Second)})
	}
	return out
}

// ToolName is the action's name among the actions of all provider configurations.
func (a *Action) ToolName() string { return actions.ToolName(a.Key, a.Name, a.Method, a.Path) }

// Find returns an action of a provider configuration.
//
// Errors: provider_not_found; action_not_found.
func (s *Service) Find(ctx context.Context, env id.Environment, key, name string) (*Action, error) {
	set, err := s.resolve(ctx, env, key)
	if err != nil {
		return nil, err
	}
	for i, l := range set.layers {
		number, ok := l.index.Find(name)
		if !ok || set.isHidden(i, l.index.Summary(number)) {
			continue
		}
		out := &Action{Key: key, Provider: set.provider, Version: l.version}
		if l.version == "" {
			out.Action, out.Version = set.provider.Actions[number], set.provider.Sum()
		} else if out.Action, err = s.imported(ctx, importedAction{env, l.version, number}); err != nil {
			return nil, err
		}
		out.Risk = set.config.OverrideRisk(name, risk.Assess(&out.Call))
		return out, nil
	}
	return nil, set.actionNotFound(name)
}

// importedAction names an action of a version of an import.
type importedAction struct {
	env     id.Environment
	version string
	number  int
}

const (
	// maxRead is how many actions of imports stay in memory, and maxReadSize the length of the schemas of the largest one
	// that does.
	maxRead, maxReadSize = 1024, 32 << 10
)

// imported returns an action of an import. It is shared and read-only.
func (s *Service) imported(ctx context.Context, key importedAction) (*actions.Action, error) {
	a, err := s.read.Get(ctx, key, func(ctx context.Context) (*actions.Action, int64, error) {
		a, err := s.cfg.Imports.Action(ctx, key.env, key.version, key.number)
		return a, 0, err
	})
	if err == nil && len(a.Input)+len(a.Output) > maxReadSize {
		s.read.Drop(key)
	}
	return a, err
}

// FindAll returns actions that a search has found, without those that are gone since: an import was replaced or removed
// meanwhile.
func (s *Service) FindAll(ctx context.Context, env id.Environment, found []Summary) ([]*Action, error) {
	out := make([]*Action, 0, len(found))
	for i := range found {
		a, err := s.Find(ctx, env, found[i].Key, found[i].Name)
		switch {
		case err == nil:
			out = append(out, a)
		case !apperr.Is(err, apperr.CodeActionNotFound) && !apperr.Is(err, apperr.CodeProviderNotFound) &&
			!apperr.Is(err, apperr.CodeNotFound):
			return nil, err
		}
	}
	return out, nil
}

// maxSuggested bounds the actions with whose names one that was not found is compared.
const maxSuggested = 1000

func (a *Actions) actionNotFound(name string) error {
	const message = "The provider has no action with this name"
	if name = strings.ToLower(name); len(name) > actions.MaxName || !isName(name) {
		return apperr.New(apperr.CodeActionNotFound, message)
	}
	var names []string
	for _, s := range a.list(&Conditions{}, "", true, maxSuggested) {
		if s.ToolName() == name {
			return apperr.New(apperr.CodeActionNotFound, message+". Did you mean "+s.Name+"?")
		}
		names = append(names, s.Name)
	}
	return apperr.New(apperr.CodeActionNotFound, message+suggest.Question(name, names, nil))
}

func isName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
}

var _ Imports = (*imports.Service)(nil)
