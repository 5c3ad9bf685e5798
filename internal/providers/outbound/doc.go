// Package outbound is the half of a provider's definition that is about requests to the provider: where its API is, how
// a connection authenticates, which hosts may get its credentials, and what a response means.
//
// A definition contains a Declaration. Compile checks it and returns an Engine, which resolves a connection's settings,
// renders and signs requests and judges responses. It sends nothing and stores nothing.
package outbound
