package compare

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Check is a target and how far the pairs of a result are from it.
type Check struct {
	Target Target
	// Without and With are the medians; Value, Lowest and Highest are of the ratios, or of the values of an absolute
	// target.
	Without, With, Value, Lowest, Highest float64
	OK                                    bool
}

// Checks compares a result with the targets of its row.
func (r *Result) Checks(row *Row) []Check {
	list := make([]Check, 0, len(row.Targets))
	for _, t := range row.Targets {
		var without, with, values []float64
		for _, p := range r.Pairs {
			w, v := p.Without[t.Figure], p.With[t.Figure]
			without, with = append(without, w), append(with, v)
			if !t.Absolute {
				v /= w
			}
			values = append(values, v)
		}
		c := Check{Target: t}
		if len(values) > 0 {
			c.Without, c.With, c.Value = median(without), median(with), median(values)
			c.Lowest, c.Highest = slices.Min(values), slices.Max(values)
			c.OK = t.met(c.Value)
		}
		list = append(list, c)
	}
	return list
}

// median is the mean of the two in the middle where there are two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Lost describes events of the measured environment that were refused or did not arrive, and is empty without any.
func (r *Result) Lost() string {
	for _, p := range r.Pairs {
		for _, f := range []Figures{p.Without, p.With} {
			if f[Refused]+f[Missing] > 0 {
				return fmt.Sprintf("%.0f events refused, %.0f missing", f[Refused], f[Missing])
			}
		}
	}
	return ""
}

// Print writes results as a table of Markdown, and returns whether all targets were met.
func Print(w io.Writer, rows []Row, results []Result) (met bool, err error) {
	var out bytes.Buffer
	met = true
	t := tabwriter.NewWriter(&out, 0, 0, 1, ' ', tabwriter.Debug)
	line := func(cells ...string) { _, _ = fmt.Fprintf(t, "\t %s\t\n", strings.Join(cells, "\t ")) }
	line("row", "engine", "figure", "without", "with", "ratio or value", "target", "met")
	line("---", "---", "---", "---", "---", "---", "---", "---")
	for _, r := range results {
		i := slices.IndexFunc(rows, func(row Row) bool { return row.Name == r.Row })
		for _, c := range r.Checks(&rows[i]) {
			verdict := "yes"
			if !c.OK {
				verdict, met = "NO", false
			}
			value := fmt.Sprintf("%.2f", c.Value)
			if len(r.Pairs) > 1 {
				value += fmt.Sprintf(" (%.2f–%.2f)", c.Lowest, c.Highest)
			}
			line(r.Row, r.Engine, c.Target.Figure, fmt.Sprintf("%.2f", c.Without), fmt.Sprintf("%.2f", c.With), value,
				c.Target.String(), verdict)
		}
	}
	_ = t.Flush() // into memory
	for _, r := range results {
		if r.Problem != "" {
			met = false
			fmt.Fprintf(&out, "\n%s, %s: %s", r.Row, r.Engine, r.Problem)
		}
		if lost := r.Lost(); lost != "" {
			met = false
			fmt.Fprintf(&out, "\n%s, %s: %s", r.Row, r.Engine, lost)
		}
	}
	out.WriteString("\n")
	for _, r := range results {
		for _, p := range r.Pairs {
			if p.Note != "" {
				fmt.Fprintf(&out, "%s, %s: %s\n", r.Row, r.Engine, p.Note)
			}
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return false, fmt.Errorf("write results: %w", err)
	}
	return met, nil
}
