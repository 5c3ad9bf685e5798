package actionindex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// A summary that is read is the one that was written, without its reasons; the bytes of an index are the same after
// they were read.
func TestSummaries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		list := func(label string) (out []string) { // none is nil
			for range rapid.IntRange(0, 3).Draw(t, label) {
				out = append(out, text.Draw(t, label))
			}
			return out
		}
		b := NewBuilder("acme", "Acme")
		var want []*actions.Summary
		for range rapid.IntRange(0, 5).Draw(t, "actions") {
			s := &actions.Summary{Name: text.Draw(t, "name"), Title: text.Draw(t, "title"),
				Description: strings.Repeat(text.Draw(t, "description"), 40), Tags: list("tags"), Method: "GET",
				Path: text.Draw(t, "path"), Deprecated: rapid.Bool().Draw(t, "deprecated"), Content: text.Draw(t, "content"),
				Risk: risk.Risk{Level: risk.High, Operation: "read", Source: "method",
					Confidence: rapid.Float64().Draw(t, "confidence")}}
			for _, flag := range list("flags") {
				s.Risk.Flags = append(s.Risk.Flags, risk.Flag(flag))
			}
			given := *s
			given.Risk.Reasons = []string{"a reason"}
			b.Add(&actions.Action{Name: s.Name, Method: "GET", Path: "/x"}, &given)
			want = append(want, s)
		}
		x, err := b.Build()
		require.NoError(t, err)
		encoded := x.Encode()
		decoded, err := Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, encoded, decoded.Encode())
		require.Equal(t, len(want), decoded.Len())
		for i, s := range want {
			require.Equal(t, s, decoded.Summary(i))
			require.Equal(t, s.Name, decoded.Name(i))
			number, ok := decoded.Find(s.Name)
			require.True(t, ok)
			require.Equal(t, s.Name, decoded.Name(number))
		}
		for i := 1; i < decoded.Len(); i++ {
			require.LessOrEqual(t, decoded.SortedName(i-1), decoded.SortedName(i))
		}
	})
}

// Bytes that are no index are refused, and none makes a reader fail.
func FuzzDecode(f *testing.F) {
	b := NewBuilder("acme", "Acme")
	for _, name := range []string{"get_thing", "list_things"} {
		b.Add(&actions.Action{Name: name, Method: "GET", Path: "/things"}, &actions.Summary{Name: name, Tags: []string{"t"},
			Risk: risk.Risk{Flags: []risk.Flag{"f"}}})
	}
	x, err := b.Build()
	require.NoError(f, err)
	whole := x.Encode()
	f.Add(whole)
	for i := range whole {
		f.Add(whole[:i])
		changed := append([]byte(nil), whole...)
		changed[i] ^= 0x81
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := Decode(text)
		if err != nil {
			require.ErrorIs(t, err, ErrForm)
			return
		}
		for i := range x.Len() {
			require.Equal(t, x.Name(i), x.Summary(i).Name)
			require.NotEmpty(t, x.Words())
		}
	})
}
