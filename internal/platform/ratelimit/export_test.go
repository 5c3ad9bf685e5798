package ratelimit

// Nodes returns the number of nodes that the Limiter knows of.
func (l *Limiter) Nodes() int64 { return l.leases.nodes.Load() }

// Buckets returns the number of buckets of a kind that the Limiter remembers, and its maximum.
func (l *Limiter) Buckets(k Kind) (n, most int) {
	for i := range l.byKind[k] {
		n += l.byKind[k][i].buckets.Len()
	}
	return n, maxBuckets
}
