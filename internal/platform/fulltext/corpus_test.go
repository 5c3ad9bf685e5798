package fulltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/testkit/actioncorpus"
)

func readCorpus(t testing.TB) []actioncorpus.Action {
	t.Helper()
	list, err := actioncorpus.Read()
	require.NoError(t, err)
	return list
}

// documentOf has the texts of an action. How its other fields are found is for providers/actionindex to say.
func documentOf(a *actioncorpus.Action) fulltext.Document {
	return fulltext.Document{Name: a.Name, Title: a.Title, Provider: a.Provider + " " + a.Display, Tags: a.Tags,
		Path: a.Path, Description: a.Description, Kind: a.Method}
}

// segmentsOf makes a segment for each provider, in the order in which they come.
func segmentsOf(t testing.TB, list []actioncorpus.Action) (segments []*fulltext.Segment) {
	t.Helper()
	for len(list) > 0 {
		builder, provider := &fulltext.Builder{}, list[0].Provider
		for len(list) > 0 && list[0].Provider == provider {
			builder.Add(documentOf(&list[0]))
			list = list[1:]
		}
		s, err := builder.Build()
		require.NoError(t, err)
		segments = append(segments, s)
	}
	return segments
}
