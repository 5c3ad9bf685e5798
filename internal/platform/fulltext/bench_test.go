package fulltext_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"sallyport/internal/platform/fulltext"
	"sallyport/internal/platform/testkit/actioncorpus"
)

// hundredThousand are 100,000 documents in 340 segments: the corpus, with other providers and names.
var hundredThousand = sync.OnceValues(func() (documents [][]fulltext.Document, count int) {
	corpus, err := actioncorpus.Read()
	if err != nil {
		panic(err)
	}
	const perSegment = 295
	for count < 100_000 {
		var segment []fulltext.Document
		for range perSegment {
			a, round := corpus[count%len(corpus)], count/len(corpus)
			d := documentOf(&a)
			if round > 0 {
				d.Provider = "provider" + strconv.Itoa(len(documents))
				d.Name += "_" + strconv.Itoa(round)
				d.Description += " In the version of " + d.Provider + fmt.Sprintf(" with the number %d.", count%977)
			}
			segment = append(segment, d)
			count++
		}
		documents = append(documents, segment)
	}
	return documents, count
})

func build(b *testing.B) []*fulltext.Segment {
	b.Helper()
	documents, _ := hundredThousand()
	var segments []*fulltext.Segment
	for _, list := range documents {
		builder := &fulltext.Builder{}
		for i := range list {
			builder.Add(list[i])
		}
		segment, err := builder.Build()
		if err != nil {
			b.Fatal(err)
		}
		segments = append(segments, segment)
	}
	return segments
}

func BenchmarkSearch(b *testing.B) {
	segments := build(b)
	size, count := 0, 0
	for _, s := range segments {
		size, count = size+s.Size(), count+s.Len()
	}
	run := func(name string, texts ...string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			searcher := fulltext.NewSearcher()
			for i := 0; b.Loop(); i++ {
				searcher.Search(segments, texts[i%len(texts)], fulltext.Options{})
			}
			b.ReportMetric(float64(size)/float64(count), "bytes/document")
		})
	}
	var table []string
	for _, q := range actioncorpus.Queries() {
		table = append(table, q.Text)
	}
	run("table", table...)
	run("one", "issues")
	run("frequent", "get list create update delete")
	run("typo", "repositry")
	run("longest", longest())
}

// longest has as many words as a query can have, and the most frequent ones.
func longest() string {
	return "get list create update delete user account project id file message group organization event payment " +
		"customer invoice repository issue comment team member role permission image video channel webhook key token " +
		"search add"
}

func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	_, count := hundredThousand()
	for b.Loop() {
		build(b)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(count), "µs/document")
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	var encoded [][]byte
	for _, s := range build(b) {
		encoded = append(encoded, s.Append(nil))
	}
	for b.Loop() {
		for _, bytes := range encoded {
			if _, err := fulltext.Decode(bytes); err != nil {
				b.Fatal(err)
			}
		}
	}
}
