package fulltext

import "math/bits"

// filter says of most words that are not in a segment that they are not (a Bloom filter with two bits a word). Most
// words of a query, with synonyms, are in few segments of a catalog: a search would otherwise spend most of its time on
// finding that they are not in the others.
type filter []uint64

// newFilter returns a filter with about eight bits for each word.
func newFilter(words int) filter { return make(filter, 1<<bits.Len(uint(words)/8)) }

func (f filter) add(hash uint64) {
	f[f.place(hash)] |= bitsOf(hash)
}

// mayHave is false if there is no word with this hash.
func (f filter) mayHave(hash uint64) bool {
	want := bitsOf(hash)
	return f[f.place(hash)]&want == want
}

func (f filter) place(hash uint64) uint64 {
	return hash & uint64(len(f)-1) //nolint:gosec // it has a positive length
}

func bitsOf(hash uint64) uint64 { return 1<<(hash>>52&63) | 1<<(hash>>58) }

// hashOf is FNV-1a, mixed so that all bits depend on all of a word.
func hashOf(text []byte) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, c := range text {
		hash = (hash ^ uint64(c)) * 0x100000001b3
	}
	hash ^= hash >> 32
	return hash * 0x9e3779b97f4a7c15
}
