package risk_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/risk"
)

var update = flag.Bool("update", false, "write the generated texts instead of comparing them")

// labelled is an operation with what a reader of its description says about it.
type labelled struct {
	provider string
	call     risk.Call
	level    risk.Level
	// operation and flags are the reader's; flags leave out those that the labels do not cover.
	operation risk.Operation
	flags     []risk.Flag
}

// judged are the flags that the labels cover.
var judged = []risk.Flag{risk.Destructive, risk.NotifiesPeople, risk.MovesMoney, risk.ChangesAccess,
	risk.ReturnsSecrets, risk.Bulk, risk.RunsCode}

// labelSet is a table of labels: how many there are, and of what.
type labelSet struct {
	name string
	size int
	of   string
}

func labelSets() []labelSet {
	return []labelSet{
		{"labels", 300, "five providers, with which the rules were written"},
		{"zoom", 60, "a sixth, whose misses led to rules"},
		{"held-out", 60, "a seventh, which no rule was written for"},
	}
}

func readLabels(t *testing.T, path string) (out []labelled) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	r := csv.NewReader(file)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	require.NoError(t, err)
	for _, row := range rows[1:] {
		l := labelled{provider: row[0], level: risk.Level(row[6]), operation: risk.Operation(row[7]), flags: flagsOf(row[8])}
		l.call = risk.Call{Method: row[1], Path: row[2], Name: row[3], Scopes: strings.Fields(row[4])}
		if stated := flagsOf(row[5]); len(stated) > 0 {
			l.call.Document = &risk.Declared{Flags: stated}
		}
		require.True(t, l.level.Valid(), "%v", row)
		require.Contains(t, risk.Operations(), l.operation, "%v", row)
		for _, f := range l.flags {
			require.Contains(t, judged, f, "%v", row)
		}
		require.NotEmpty(t, row[9], "%v", row)
		out = append(out, l)
	}
	return out
}

func flagsOf(text string) (out []risk.Flag) {
	for _, f := range strings.Fields(text) {
		out = append(out, risk.Flag(f))
	}
	return out
}

// score counts how the rules agree with the labels.
type score struct {
	of, exact, lower, operation int
	flags                       map[risk.Flag]*counts
}

// counts are of one flag: how often it is labelled and set, only set, and only labelled.
type counts struct{ both, only, missed int }

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// String is the score as rows of a table.
func (s score) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| level as labelled | %s | %d of %d |\n", share(s.exact, s.of), s.exact, s.of)
	fmt.Fprintf(&b, "| level as labelled or higher | %s | %d of %d |\n", share(s.of-s.lower, s.of), s.of-s.lower, s.of)
	fmt.Fprintf(&b, "| operation as labelled | %s | %d of %d |\n", share(s.operation, s.of), s.operation, s.of)
	for _, f := range judged {
		c := s.flags[f]
		fmt.Fprintf(&b, "| `%s` | found %s, right %s | labelled %d, set %d, both %d |\n", f,
			share(c.both, c.both+c.missed), share(c.both, c.both+c.only), c.both+c.missed, c.both+c.only, c.both)
	}
	return b.String()
}

// measure compares the rules with labels. Each miss is a line.
func measure(all []labelled, trusted bool) (score, []string) {
	s := score{of: len(all), flags: map[risk.Flag]*counts{}}
	for _, f := range judged {
		s.flags[f] = &counts{}
	}
	var misses []string
	for _, l := range all {
		l.call.Trusted = trusted
		r := risk.Assess(&l.call)
		var miss []string
		switch {
		case l.level.Above(r.Level):
			s.lower++
			miss = append(miss, fmt.Sprintf("LOWER level %s is assessed %s", l.level, r.Level))
		case r.Level != l.level:
			miss = append(miss, fmt.Sprintf("level %s is assessed %s", l.level, r.Level))
		default:
			s.exact++
		}
		if r.Operation == l.operation {
			s.operation++
		} else {
			miss = append(miss, fmt.Sprintf("operation %s is assessed %s", l.operation, r.Operation))
		}
		for _, f := range judged {
			set, right := slices.Contains(r.Flags, f), slices.Contains(l.flags, f)
			switch {
			case set && right:
				s.flags[f].both++
			case set:
				s.flags[f].only++
				miss = append(miss, "not "+string(f))
			case right:
				s.flags[f].missed++
				miss = append(miss, "MISSED "+string(f))
			}
		}
		if len(miss) > 0 {
			misses = append(misses, fmt.Sprintf("%s %s %s (%s): %s", l.provider, l.call.Method, l.call.Path, l.call.Name,
				strings.Join(miss, "; ")))
		}
	}
	return s, misses
}

// The misses of the rules on operations that readers labelled are known: a change of the rules that helps one operation
// and harms another shows as a difference of the lists. No operation that destroys or moves money is low, and none that
// moves money is less than high.
func TestLabels(t *testing.T) {
	t.Parallel()
	for _, set := range labelSets() {
		all := readLabels(t, "testdata/"+set.name+".tsv")
		require.Len(t, all, set.size)
		for _, trusted := range []bool{false, true} {
			s, misses := measure(all, trusted)
			title := "document not trusted"
			if trusted {
				title = "document trusted"
			}
			t.Logf("%s, %s:\n%s", set.name, title, s)
			for _, l := range all {
				l.call.Trusted = trusted
				r := risk.Assess(&l.call)
				if slices.Contains(l.flags, risk.Destructive) || l.operation == risk.Delete || l.level == risk.Critical {
					require.NotEqual(t, risk.Low, r.Level, "%s: %v", l.call.Name, r)
				}
				if slices.Contains(l.flags, risk.MovesMoney) {
					require.False(t, risk.High.Above(r.Level), "%s: %v", l.call.Name, r)
				}
			}
			if !trusted {
				compareFile(t, "testdata/"+set.name+"-misses.txt", strings.Join(misses, "\n")+"\n")
			}
		}
	}
}

// compareFile compares a file with its content, or writes it.
func compareFile(t *testing.T, path, content string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(was) != content { // a comparison that prints both texts would hide the difference
		t.Errorf("%s differs: run go test ./internal/providers/risk -update, and read the difference", path)
	}
}
