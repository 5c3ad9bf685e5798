package actionindex

import (
	"encoding/binary"
	"math"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// summaries are those of actions, one after the other in one text. There may be 100,000: as values of their own, they
// would be a million things that each run of the collector looks at.
type summaries struct {
	texts string
	// ends are where the text of each ends.
	ends []uint32
}

// appendSummary adds the text of a summary: the name, and then what else lists show. Reasons are not among it, because
// the action itself has them.
func appendSummary(to []byte, s *actions.Summary) []byte {
	text := func(text string) {
		to = binary.AppendUvarint(to, uint64(len(text)))
		to = append(to, text...)
	}
	for _, t := range []string{s.Name, s.Title, s.Description, s.Method, s.Path, s.Content, string(s.Risk.Level),
		string(s.Risk.Operation), string(s.Risk.Source)} {
		text(t)
	}
	to = binary.LittleEndian.AppendUint64(to, math.Float64bits(s.Risk.Confidence))
	if s.Deprecated {
		to = append(to, 1)
	} else {
		to = append(to, 0)
	}
	to = binary.AppendUvarint(to, uint64(len(s.Tags)))
	for _, tag := range s.Tags {
		text(tag)
	}
	to = binary.AppendUvarint(to, uint64(len(s.Risk.Flags)))
	for _, flag := range s.Risk.Flags {
		text(string(flag))
	}
	return to
}

// scanner reads the text of a summary.
type scanner struct {
	rest string
	// wrong says that the text is not one of a summary.
	wrong bool
}

func (r *scanner) take(n uint64) (text string) {
	if n > uint64(len(r.rest)) {
		r.rest, r.wrong = "", true
		return ""
	}
	text, r.rest = r.rest[:n], r.rest[n:]
	return text
}

func (r *scanner) number() (n uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := r.take(1)
		if r.wrong {
			return 0
		}
		if n |= uint64(c[0]&0x7f) << shift; c[0] < 0x80 {
			return n
		}
	}
	r.wrong = true
	return 0
}

func (r *scanner) text() string { return r.take(r.number()) }

// count returns a number of texts, each of which takes a byte at least.
func (r *scanner) count() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.wrong = true
		return 0
	}
	return int(n) //nolint:gosec // it is bounded above
}

func (r *scanner) summary() *actions.Summary {
	s := &actions.Summary{Name: r.text(), Title: r.text(), Description: r.text(), Method: r.text(), Path: r.text(),
		Content: r.text()}
	s.Risk.Level, s.Risk.Operation = risk.Level(r.text()), risk.Operation(r.text())
	s.Risk.Source = risk.Source(r.text())
	if bits := r.take(8); bits != "" {
		s.Risk.Confidence = math.Float64frombits(binary.LittleEndian.Uint64([]byte(bits)))
	}
	s.Deprecated = r.take(1) == "\x01"
	if n := r.count(); n > 0 {
		s.Tags = make([]string, n)
		for i := range s.Tags {
			s.Tags[i] = r.text()
		}
	}
	if n := r.count(); n > 0 {
		s.Risk.Flags = make([]risk.Flag, n)
		for i := range s.Risk.Flags {
			s.Risk.Flags[i] = risk.Flag(r.text())
		}
	}
	return s
}

// valid reports whether all texts are those of summaries.
func (s *summaries) valid() bool {
	for i := range s.ends {
		r := scanner{rest: s.text(i)}
		if r.summary(); r.wrong || r.rest != "" {
			return false
		}
	}
	return true
}

func (s *summaries) text(number int) string {
	start := uint32(0)
	if number > 0 {
		start = s.ends[number-1]
	}
	return s.texts[start:s.ends[number]]
}

func (s *summaries) name(number int) string {
	r := scanner{rest: s.text(number)}
	return r.text()
}

// read returns a summary. Its texts are copies, because one that is kept would keep all of the index.
func (s *summaries) read(number int) *actions.Summary {
	r := scanner{rest: strings.Clone(s.text(number))}
	return r.summary()
}
