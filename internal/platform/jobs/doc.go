// Package jobs holds what background work shares: a queue over a domain's own table, loops that run on a wake-up or
// after a while, and group commits. See README.md.
package jobs
