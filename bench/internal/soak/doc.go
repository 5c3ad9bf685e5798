// Package soak runs the whole gateway for many rounds of disruptions and checks after each what was acknowledged,
// recorded and received against the guarantees. Its nodes are processes of the real composition root; they differ from
// `sallyport serve` in a short lease and in a wall clock that the run can step.
package soak
