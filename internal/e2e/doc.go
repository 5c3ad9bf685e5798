// Package e2e tests the whole server in one process: real HTTP in, real HTTP out, both engines, and a clock that the
// tests move. Tests of several processes run the real binary. It has no product code.
package e2e
