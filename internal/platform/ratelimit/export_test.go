package ratelimit

// Nodes is how many nodes the Limiter believes there are.
func (l *Limiter) Nodes() int64 { return l.leases.nodes.Load() }

// Buckets is how many buckets of a kind the Limiter remembers, and how many it remembers at most.
func (l *Limiter) Buckets(k Kind) (n, most int) {
	for i := range l.byKind[k] {
		n += l.byKind[k][i].buckets.Len()
	}
	return n, maxBuckets
}
