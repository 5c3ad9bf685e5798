package e2e_test

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/reference"
)

// capabilities has a method for each capability, which returns the capability's part in the suites that cover every
// operation. A new capability adds a file with a method, and the suites find it.
type capabilities struct{}

// capability describes the resources and the operations of one capability.
type capability struct {
	// name is the method's.
	name string
	// after names the capabilities on whose resources this one's depend.
	after []string
	// create creates resources in an environment, as the caller given, and puts into f what the samples need of them.
	create func(w *world, c credentials, f fixtures)
	// samples returns one sample for each operation, in an order in which each still finds what it works on.
	samples func(w *world, f fixtures) []sample
	// lists holds, for each operation that returns pages, a harmless use of each parameter that selects rows.
	lists map[string]map[string]string
	// references holds, for each field of a body that names a resource, as operation and field, what proves that the
	// field reaches no resource of another environment.
	references map[string]func(r foreign, operation, field string)
	// private returns texts that no other environment may see.
	private func(f fixtures) []string
}

// allCapabilities returns the capabilities, each after those that it names.
func allCapabilities() []capability {
	known := map[string]capability{}
	methods := reflect.ValueOf(capabilities{})
	for i := range methods.NumMethod() {
		c, ok := methods.Method(i).Call(nil)[0].Interface().(capability)
		if !ok {
			panic(methods.Type().Method(i).Name + " returns no capability")
		}
		c.name = methods.Type().Method(i).Name
		known[c.name] = c
	}
	var out []capability
	placed := map[string]bool{}
	var place func(name string)
	place = func(name string) {
		c, ok := known[name]
		if !ok {
			panic("no capability " + name)
		}
		if placed[name] {
			return
		}
		placed[name] = true
		for _, before := range c.after {
			place(before)
		}
		out = append(out, c)
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		place(name)
	}
	return out
}

// fixtures are the resources of one environment that samples work on.
type fixtures struct {
	environment string
	// name is the id of the environment's first connection, and part of the names of everything else.
	name string
	// parts holds each capability's own, by their type.
	parts map[reflect.Type]any
}

// put stores a capability's fixtures.
func (f fixtures) put(part any) { f.parts[reflect.TypeOf(part)] = part }

// part returns a capability's fixtures.
func part[T any](f fixtures) T {
	found, ok := f.parts[reflect.TypeFor[T]()].(T)
	if !ok {
		panic("no capability has created " + reflect.TypeFor[T]().String())
	}
	return found
}

// private returns what no other environment may see.
func (f fixtures) private() []string {
	out := []string{f.environment}
	for _, c := range allCapabilities() {
		if c.private != nil {
			out = append(out, c.private(f)...)
		}
	}
	return out
}

// populate fills an environment with resources of every capability, as the caller given.
func (w *world) populate(c credentials, environment, name string) fixtures {
	w.t.Helper()
	f := fixtures{environment: environment, name: name, parts: map[reflect.Type]any{}}
	for _, capability := range allCapabilities() {
		if capability.create != nil {
			capability.create(w, c, f)
		}
	}
	return f
}

// stage says when a sample's turn comes.
type stage int

const (
	// uses is the stage of samples that leave everything there for others.
	uses stage = iota
	// removes is the stage of samples that remove what others work on.
	removes
	// leaves is the stage of samples that end the caller's session.
	leaves
)

// sample is a request for one operation with everything right.
type sample struct {
	id string
	op httpapi.Operation
	// path holds the values of the path's parameters.
	path map[string]string
	// body is nil where the operation has none.
	body   object
	status int
	stage  stage
	// narrow is a filter that leaves a page of a list that has more rows in every environment; empty for others.
	narrow string
	// cookie, where there is one, creates the refresh cookie that the operation takes.
	cookie func() string
	// unrecorded says why the audit trail does not have the sample, where it does not.
	unrecorded string
}

// url returns the sample's path with one parameter replaced; parameters are escaped unless they are the replacement.
func (s sample) url(replaced, by string) string {
	out := s.op.Path
	for name, value := range s.path {
		value = url.PathEscape(value)
		if name == replaced {
			value = by
		}
		out = strings.ReplaceAll(out, "{"+name+"}", value)
	}
	return out
}

// samples returns the samples of all capabilities, in an order in which each still finds what it works on. The test
// fails when an operation has none, so that all suites cover every operation.
func (w *world) samples(f fixtures) []sample {
	w.t.Helper()
	byID := map[string]httpapi.Operation{}
	for _, op := range reference.API().Operations() {
		byID[op.ID] = op
	}
	type placed struct {
		sample
		capability int
	}
	var list []placed
	covered := map[string]bool{}
	for i, c := range allCapabilities() {
		if c.samples == nil {
			continue
		}
		for _, s := range c.samples(w, f) {
			require.Contains(w.t, byID, s.id, "a sample for an operation that is no more")
			covered[s.id] = true
			s.op = byID[s.id]
			list = append(list, placed{s, i})
		}
	}
	require.ElementsMatch(w.t, slices.Collect(maps.Keys(byID)), slices.Collect(maps.Keys(covered)),
		"every operation needs a sample")
	// Resources that depend on others are removed before them.
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.capability, b.capability)*
			map[bool]int{true: 1, false: -1}[a.stage == uses])
	})
	out := make([]sample, len(list))
	for i, p := range list {
		out[i] = p.sample
	}
	return out
}

// listSamples returns the samples of the operations that return pages, which are those that take a cursor.
func (w *world) listSamples(f fixtures) []sample {
	w.t.Helper()
	var declared, documented []string
	for _, c := range allCapabilities() {
		declared = slices.AppendSeq(declared, maps.Keys(c.lists))
	}
	var out []sample
	for _, s := range w.samples(f) {
		if s.id == "get-catalog-provider" || s.id == "search-actions" {
			continue // pages of another form: TestImportedProvider and the tests of the package follow them
		}
		if slices.ContainsFunc(queryParameters(w, s), func(p parameter) bool { return p.name == "cursor" }) {
			out, documented = append(out, s), append(documented, s.id)
		}
	}
	require.ElementsMatch(w.t, declared, documented, "every list is declared by its capability")
	return out
}

// ownEnvironment stands for the id of the world's environment in the declaration of a list.
const ownEnvironment = "{environment}"

// filters returns a harmless use of each filter of a list.
func (w *world) filters(s sample) []string {
	w.t.Helper()
	values := map[string]string{}
	for _, c := range allCapabilities() {
		maps.Copy(values, c.lists[s.id])
	}
	var out []string
	for _, p := range queryParameters(w, s) {
		switch p.name {
		case "limit", "cursor", "order", "include": // do not select rows
		default:
			require.Contains(w.t, values, p.name, "a filter that the capability of %s does not declare", s.id)
			out = append(out, p.name+"="+strings.ReplaceAll(values[p.name], ownEnvironment, w.env))
			delete(values, p.name)
		}
	}
	require.Empty(w.t, values, "filters that %s does not take", s.id)
	return out
}

// callSample makes the sample's request, with another body when one is given.
func (w *world) callSample(c credentials, s sample, body ...any) response {
	w.t.Helper()
	var content any
	if s.body != nil {
		content = s.body
	}
	if len(body) > 0 {
		content = body[0]
	}
	return w.call(func(h http.Header) {
		c(h)
		if s.cookie != nil {
			h.Set("Cookie", s.cookie())
		}
	}, s.op.Method, s.url("", ""), content)
}

// The samples are right: a finding of the suites that break them one thing at a time is due to that one thing. Each
// response is checked against the document on the way, and says how much of the caller's rate limit is left.
func TestSamplesSucceed(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		for _, s := range w.samples(f) {
			a := w.callSample(w.user(w.env), s).want(w, s.status)
			for _, name := range rateHeaders() {
				require.Len(w.t, a.header.Values(name), 1, "%s %s: %s", a.method, a.path, name)
			}
		}
	}, func(c *config.Config) {
		c.RateLimitKeyPerSecond, c.RateLimitUserPerSecond, c.RateLimitAddressPerSecond = 100_000, 100_000, 100_000
		c.RateLimitKeyBurst, c.RateLimitUserBurst, c.RateLimitAddressBurst = 1_000_000, 1_000_000, 1_000_000
	})
}

// created returns the id of what an operation creates.
func (w *world) created(c credentials, path string, body any) string {
	w.t.Helper()
	var made struct {
		ID string `json:"id"`
	}
	w.call(c, http.MethodPost, path, body).want(w, http.StatusCreated).into(w, &made)
	return made.ID
}
