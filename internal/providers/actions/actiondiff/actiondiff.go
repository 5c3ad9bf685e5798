// Package actiondiff says what differs between two versions of an action, and whether a caller of the first can depend
// on it. See README.md.
package actiondiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

const (
	// Max is how many differences of an action are listed.
	Max = 50
	// maxText is the length of the longest text of a difference, in bytes, and maxReasons how many reasons of a risk are
	// listed.
	maxText, maxReasons = 200, 10
	// maxNodes is how many pairs of schemas are compared on each side.
	maxNodes = 20_000
	// maxDepth is how deep a schema is compared.
	maxDepth = 64
)

// Difference is one thing that differs.
type Difference struct {
	Kind Kind
	// At is where it is: a JSON pointer to a property of the input or the output, in which * is any item of an array or
	// any further member. Empty for the whole.
	At string
	// From and To are the values before and after, for people; empty where there is none.
	From, To string
	// Reasons are why the risk is as it is now, for Risk alone.
	Reasons  []string
	Breaking bool
}

// Result is how two versions of an action differ.
type Result struct {
	// List are the first differences, the breaking ones before others.
	List []Difference
	// Count is how many there are, and Breaking whether one of all is breaking.
	Count    int
	Breaking bool
}

// Compare returns what differs between a version of an action and a later one.
func Compare(before, after *actions.Action) Result {
	var c comparison
	if reflect.DeepEqual(before, after) {
		return Result{}
	}
	c.request(before, after)
	c.schemas(inputWords(), before.Input, after.Input)
	c.places(before, after)
	c.schemas(outputWords(), before.Output, after.Output)
	c.scopes(before.Scopes, after.Scopes)
	c.pagination(before.Pagination, after.Pagination)
	c.idempotency(before.Idempotency, after.Idempotency)
	c.risk(before, after)
	if before.Deprecated != after.Deprecated {
		c.add(Difference{Kind: Deprecation, From: deprecation(before.Deprecated), To: deprecation(after.Deprecated)})
	}
	if len(c.all) == 0 || before.Title != after.Title || before.Description != after.Description ||
		before.DocsURL != after.DocsURL || !slices.Equal(before.Tags, after.Tags) {
		// All else that differs is in texts, those within the schemas included.
		c.add(Difference{Kind: Documentation})
	}
	return c.result()
}

// comparison collects differences.
type comparison struct{ all []Difference }

func (c *comparison) add(d Difference) {
	d.At, d.From, d.To = short(d.At), short(d.From), short(d.To)
	c.all = append(c.all, d)
}

func (c *comparison) result() Result {
	slices.SortStableFunc(c.all, func(a, b Difference) int {
		switch {
		case a.Breaking == b.Breaking:
			return 0
		case a.Breaking:
			return -1
		default:
			return 1
		}
	})
	return Result{slices.Clone(c.all[:min(len(c.all), Max)]), len(c.all), len(c.all) > 0 && c.all[0].Breaking}
}

// short cuts a text at a character.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func (c *comparison) request(before, after *actions.Action) {
	if before.Method != after.Method || actions.UnnamedPath(before.Path) != actions.UnnamedPath(after.Path) {
		c.add(Difference{Kind: Request, From: before.Method + " " + before.Path, To: after.Method + " " + after.Path,
			Breaking: true})
	}
	if before.Body == after.Body {
		return
	}
	describe := func(b actions.Body) string {
		switch {
		case b.ContentType == "":
			return ""
		case b.Required:
			return b.ContentType + ", required"
		default:
			return b.ContentType
		}
	}
	from, to := describe(before.Body), describe(after.Body)
	if from == to {
		from, to = before.Body.GraphQL, after.Body.GraphQL
	}
	c.add(Difference{Kind: Body, From: from, To: to, Breaking: after.Body.Required && !before.Body.Required &&
		before.Body.ContentType != ""})
}

// places compares where the properties go that both versions have.
func (c *comparison) places(before, after *actions.Action) {
	was := map[string]actions.Parameter{}
	for _, p := range before.Parameters {
		was[p.Property] = p
	}
	describe := func(p actions.Parameter) string { return strings.TrimSpace(string(p.Place) + " " + p.Name) }
	for _, now := range after.Parameters {
		old, known := was[now.Property]
		bothInPath := old.Place == actions.InPath && now.Place == actions.InPath
		if !known || old == now || bothInPath && old.Reserved == now.Reserved {
			continue
		}
		from, to := describe(old), describe(now)
		if from == to {
			from, to = from+" "+styleOf(old), to+" "+styleOf(now)
		}
		c.add(Difference{Kind: InputMoved, At: "/" + escaped(now.Property), From: from, To: to})
	}
}

func styleOf(p actions.Parameter) string {
	out := []string{}
	if p.Style != "" {
		out = append(out, p.Style)
	}
	for name, is := range map[string]bool{"exploded": p.Explode, "as JSON": p.JSON, "with slashes": p.Reserved} {
		if is {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return "(" + strings.Join(out, ", ") + ")"
}

// scopes compares lists of scopes of which one is enough. A connection that had enough must still have.
func (c *comparison) scopes(before, after [][]string) {
	if reflect.DeepEqual(normal(before), normal(after)) {
		return
	}
	breaking := len(after) > 0
	if breaking && len(before) > 0 {
		breaking = slices.ContainsFunc(before, func(had []string) bool {
			return !slices.ContainsFunc(after, func(needs []string) bool {
				return !slices.ContainsFunc(needs, func(scope string) bool { return !slices.Contains(had, scope) })
			})
		})
	}
	if breaking && slices.ContainsFunc(after, func(needs []string) bool { return len(needs) == 0 }) {
		breaking = false
	}
	c.add(Difference{Kind: Scopes, From: alternatives(before), To: alternatives(after), Breaking: breaking})
}

// normal returns alternatives in an order that does not matter.
func normal(list [][]string) []string {
	out := make([]string, 0, len(list))
	for _, scopes := range list {
		sorted := slices.Sorted(slices.Values(scopes))
		out = append(out, strings.Join(sorted, " "))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func alternatives(list [][]string) string { return strings.Join(normal(list), " or ") }

func (c *comparison) pagination(before, after *actions.Pagination) {
	if reflect.DeepEqual(before, after) {
		return
	}
	breaking := before != nil
	if before != nil && after != nil {
		same := *before
		same.MaxSize = after.MaxSize
		breaking = same != *after || after.MaxSize > 0 && (before.MaxSize == 0 || after.MaxSize < before.MaxSize)
	}
	describe := func(p *actions.Pagination) string {
		if p == nil {
			return ""
		}
		text, err := json.Marshal(p)
		if err != nil {
			return string(p.Type)
		}
		return string(text)
	}
	c.add(Difference{Kind: Pagination, From: describe(before), To: describe(after), Breaking: breaking})
}

func (c *comparison) idempotency(before, after *actions.Idempotency) {
	if reflect.DeepEqual(before, after) {
		return
	}
	describe := func(i *actions.Idempotency) string {
		if i == nil {
			return ""
		}
		return i.Header
	}
	c.add(Difference{Kind: Idempotency, From: describe(before), To: describe(after), Breaking: after == nil})
}

func (c *comparison) risk(before, after *actions.Action) {
	was, now := risk.Assess(&before.Call), risk.Assess(&after.Call)
	if was.Level == now.Level && was.Operation == now.Operation && slices.Equal(was.Flags, now.Flags) {
		return
	}
	describe := func(r *risk.Risk) string {
		text := fmt.Sprintf("%s (%s", r.Level, r.Operation)
		for _, f := range r.Flags {
			text += ", " + string(f)
		}
		return text + ")"
	}
	reasons := make([]string, 0, maxReasons)
	for _, reason := range now.Reasons[:min(len(now.Reasons), maxReasons)] {
		reasons = append(reasons, short(reason))
	}
	c.add(Difference{Kind: Risk, From: describe(&was), To: describe(&now), Reasons: reasons})
}

func deprecation(deprecated bool) string {
	if deprecated {
		return "deprecated"
	}
	return "in use"
}

// schemas compares two schemas of one side.
func (c *comparison) schemas(w *words, before, after json.RawMessage) {
	if bytes.Equal(before, after) {
		return
	}
	switch {
	case len(before) == 0:
		c.add(Difference{Kind: w.added})
		return
	case len(after) == 0:
		c.add(Difference{Kind: w.removed, Breaking: true})
		return
	}
	old, now := readSchema(before), readSchema(after)
	s := &schemaComparison{comparison: c, words: w, input: w.added == InputAdded, old: old, now: now,
		seen: map[[2]string]bool{}, same: reflect.DeepEqual(old.definitions, now.definitions)}
	s.compare(old.root, now.root, "", 0)
	if s.nodes > maxNodes {
		c.add(Difference{Kind: w.typed, From: "a schema that is too large to compare", To: "another one", Breaking: true})
	}
}
