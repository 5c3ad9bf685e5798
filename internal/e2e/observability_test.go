package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/config"
)

// exposed is the content of a server's /metrics: for each name of a series its type and the labels of each series.
type exposed struct {
	kinds  map[string]string
	series map[string][]map[string]string
}

// metrics reads /metrics of the server's admin listener.
func (w *world) metrics() exposed {
	w.t.Helper()
	resp, err := w.http.Get("http://" + w.app.AdminAddr() + "/metrics") //nolint:noctx // a test's own request
	require.NoError(w.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	line := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? \S+$`)
	pair := regexp.MustCompile(`(\w+)="([^"]*)"`)
	m := exposed{kinds: map[string]string{}, series: map[string][]map[string]string{}}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		if kind, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, kind, _ := strings.Cut(kind, " ")
			m.kinds[name] = kind
			if kind == "histogram" {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					m.kinds[name+part] = "counter"
				}
			}
			continue
		}
		if found := line.FindStringSubmatch(l); found != nil {
			labels := map[string]string{}
			for _, p := range pair.FindAllStringSubmatch(found[2], -1) {
				labels[p[1]] = p[2]
			}
			m.series[found[1]] = append(m.series[found[1]], labels)
		}
	}
	return m
}

// holds checks that what an expression reads is there: every metric, every label, and for each matcher a value that
// fits. Prometheus itself gives every series an instance and a job, and makes the metric "up".
func (m exposed) holds(t require.TestingT, text string) {
	q, err := parsePromQL(text)
	require.NoError(t, err)
	require.NotEmpty(t, q.selectors, text)
	known := []string{"instance", "job"}
	for _, s := range q.selectors {
		if s.metric == "up" {
			continue
		}
		require.Contains(t, m.kinds, s.metric, text)
		all := m.series[s.metric]
		require.NotEmpty(t, all, text)
		switch s.over {
		case "rate", "increase":
			require.Equal(t, "counter", m.kinds[s.metric], text)
		default:
			require.Equal(t, "gauge", m.kinds[s.metric], text)
		}
		for _, label := range s.matchers {
			// Requests have a series for a class of statuses once there was one.
			class := label.label == "status" && strings.HasPrefix(s.metric, "sallyport_http_request_seconds") &&
				label.value == "5xx"
			require.Truef(t, class || slices.Contains(known[:2], label.label) ||
				slices.ContainsFunc(all, func(l map[string]string) bool {
					value, ok := l[label.label]
					return ok && label.matches(value)
				}), "%s: no series of %s has a %s that fits %q", text, s.metric, label.label, label.value)
			if names := strings.Split(label.value, "|"); label.label != "instance" && strings.Contains(label.op, "~") {
				for _, name := range names {
					require.Truef(t, slices.ContainsFunc(all, func(l map[string]string) bool {
						return l[label.label] == name
					}), "%s: no %s=%q", text, label.label, name)
				}
			}
		}
		for _, l := range all {
			for label := range l {
				known = append(known, label)
			}
		}
	}
	for _, label := range q.grouped {
		require.Contains(t, known, label, text)
	}
}

type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For string
			Labels           struct{ Severity string }
			Annotations      struct{ Summary, Runbook string }
		}
	}
}

type dashboard struct {
	Title      string
	Templating struct {
		List []struct {
			Name, Definition string
		}
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Datasource  struct{ UID string }
		Targets     []struct {
			RefID, Expr, LegendFormat string
		}
	}
}

// The alert rules and the dashboard that ship read what a server exposes: every metric, label and label's
// value that they name is there, before anything has gone wrong; and the guide to operating says what to do about each
// alert.
func TestRulesAndDashboardReadWhatThereIs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var rules alertRules
	text, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "alerts.yml"))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalWithOptions(text, &rules, yaml.Strict()))
	var board dashboard
	text, err = os.ReadFile(filepath.Join(root, "deploy", "grafana", "sallyport.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &board))
	guide, err := os.ReadFile(filepath.Join(root, "docs", "guides", "operate.md"))
	require.NoError(t, err)

	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusNoContent))
		w.connectGitHub("acme")
		w.subscribe(sink.url)
		w.awaitEvent(w.fresh("acme", github(issueOpened)), "forwarded")
		var m exposed
		w.ticking("the metrics of what was done", func() bool {
			m = w.metrics()
			return len(m.series["sallyport_store_commit_seconds_count"]) == 2 &&
				len(m.series["sallyport_webhook_replays"]) == 3 &&
				len(m.series["sallyport_retention_overdue_seconds"]) == 2
		})

		require.Len(w.t, rules.Groups, 1)
		require.Greater(w.t, len(rules.Groups[0].Rules), 10)
		names := map[string]bool{}
		for _, r := range rules.Groups[0].Rules {
			m.holds(w.t, r.Expr)
			require.Regexp(w.t, `[<>=] *[0-9.]+\s*$`, r.Expr, "%s compares with a limit", r.Alert)
			require.False(w.t, names[r.Alert], r.Alert)
			names[r.Alert] = true
			require.Contains(w.t, []string{"page", "ticket"}, r.Labels.Severity, r.Alert)
			require.NotEmpty(w.t, r.Annotations.Summary, r.Alert)
			require.Equal(w.t, "docs/guides/operate.md#"+strings.ToLower(r.Alert), r.Annotations.Runbook)
			require.Regexp(w.t, `(?m)^### `+r.Alert+`\n\n\w`, string(guide), "the guide says what to do")
		}
		for _, heading := range regexp.MustCompile(`(?m)^### (Sallyport\w+)$`).FindAllStringSubmatch(string(guide), -1) {
			require.True(w.t, names[heading[1]], "%s is no alert", heading[1])
		}

		panels := 0
		taken := map[[2]int]string{}
		ids := map[int]bool{}
		for _, p := range board.Panels {
			require.False(w.t, ids[p.ID], p.Title)
			ids[p.ID] = true
			for y := range p.GridPos.H {
				for x := range p.GridPos.W {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(w.t, taken[at], "%s lies over another panel", p.Title)
					require.Less(w.t, at[0], 24, p.Title)
					taken[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			panels++
			require.Equal(w.t, "${datasource}", p.Datasource.UID, p.Title)
			require.NotEmpty(w.t, p.Targets, p.Title)
			for _, target := range p.Targets {
				m.holds(w.t, strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(target.Expr))
				for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					require.True(w.t, label[1] == "instance" || strings.Contains(target.Expr, "("+label[1]+")") ||
						strings.Contains(target.Expr, ", "+label[1]+")"), "%s: the legend names %s, which the expression does not keep",
						p.Title, label[1])
				}
			}
		}
		require.Greater(w.t, panels, 15)
		for _, v := range board.Templating.List {
			if found := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(
				v.Definition); v.Definition != "" {
				require.Len(w.t, found, 3)
				m.holds(w.t, found[1])
			}
		}
	}, func(c *config.Config) { c.AdminListen = "127.0.0.1:0" })
}

// The check of expressions refuses what is misspelt, so that passing it means something.
func TestPromQLCheck(t *testing.T) {
	t.Parallel()
	m := exposed{kinds: map[string]string{"c_total": "counter", "g": "gauge", "h_bucket": "counter"},
		series: map[string][]map[string]string{
			"c_total": {{"outcome": "a"}, {"outcome": "b"}}, "g": {{}}, "h_bucket": {{"le": "1"}},
		}}
	for _, good := range []string{
		"g > 1", "sum(rate(c_total[5m]))",
		`sum by (outcome) (increase(c_total{outcome=~"a|b", instance=~".*"}[1h])) / 2 > 0.5`, "up == 0",
		"histogram_quantile(0.99, sum by (le, instance) (rate(h_bucket[5m])))", `max(g{instance!="x"}) * (1 + g)`,
		"changes(g[30m]) > 3",
	} {
		m.holds(t, good)
	}
	for _, bad := range []string{
		"", "gg", "g >", "sum(g", "sum by outcome (g)", "rate(c_total)", "rate(g[5m])", "c_total", `g{outcome="a"}`,
		`rate(c_total{outcome="c"}[5m])`, `rate(c_total{outcome=~"a|c"}[5m])`, "sum by (le) (g)", "sum(g[5m])",
		"rate(c_total[5])", "rate(c_total[5y])", "g g", `g{instance="x}`, "avrg(g)", "g = 1",
		"histogram_quantile(0.99, rate(c_total[5m]))", "changes(c_total[5m])",
	} {
		require.True(t, fails(func(t require.TestingT) { m.holds(t, bad) }), bad)
	}
}

// verdict notes that a check has failed.
type verdict struct{ failed bool }

func (v *verdict) Errorf(string, ...any) { v.failed = true }

func (v *verdict) FailNow() { runtime.Goexit() }

// fails reports whether a check fails.
func fails(check func(t require.TestingT)) bool {
	r := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(r)
	}()
	<-done
	return r.failed
}
