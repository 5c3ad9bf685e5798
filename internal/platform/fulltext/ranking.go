package fulltext

import "math"

// The numbers below rank. A change of those that a segment is built with needs another version of the format.

// fieldRank says how words of a field count in a segment.
type fieldRank struct {
	// weight is that of one occurrence in a field of a usual length.
	weight float32
	// length is the usual number of words, and norm how much other lengths matter, from 0 to 1.
	length, norm float32
	// limit is how many words are read.
	limit int
}

func fieldRanks() *[fields]fieldRank {
	return &[fields]fieldRank{
		inName:        {weight: 5, length: 3, norm: 0.7, limit: 16},
		inTitle:       {weight: 4, length: 4, norm: 0.6, limit: 32},
		inProvider:    {weight: 2, length: 2, norm: 0, limit: 8},
		inTags:        {weight: 1.5, length: 2, norm: 0.3, limit: 16},
		inPath:        {weight: 2, length: 3, norm: 0.8, limit: 24},
		inDescription: {weight: 1, length: 12, norm: 0.6, limit: 64},
		inKind:        {weight: 2, length: 1, norm: 0.3, limit: 4},
		inHead:        {weight: 2, length: 1, norm: 0.5, limit: 8},
	}
}

// saturation is the weight of occurrences at which a word has half of its greatest impact (k1 of BM25).
const saturation = 4

// impactOf is what a word contributes to a document, in 255 steps.
func impactOf(frequency float32) byte {
	return byte(max(1, math.Round(float64(255*frequency/(saturation+frequency)))))
}

// Numbers of a query.
const (
	// providerBonus and kindBonus are added for a word in these fields, and headFactor to its impact; all times the weight
	// of the word.
	providerBonus = 1.5
	kindBonus     = 2.2
	headFactor    = 0.25
	// unmatchedShare is the part of the score that is left if almost no word of the query is in the document.
	unmatchedShare = 0.15
	// leastWeight is that of the most frequent words when the words of the query that a document has are counted.
	leastWeight = 1.5

	// exactBonus is how much a document is raised whose whole name or title is in the query.
	exactBonus = 0.6

	impliedWeight   = 0.8
	narrowingWeight = 0.5
	joinedWeight    = 1.1
	prefixWeight    = 0.55
	typoWeight      = 0.6
)

// rarity is the weight of a word that is in some of all documents (the inverse document frequency of BM25).
func rarity(have, all int) float32 {
	have = min(have, all)
	return float32(math.Log(1 + (float64(all-have)+0.5)/(float64(have)+0.5)))
}
