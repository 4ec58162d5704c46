// Package state is the replicated state machine of the controller: commands
// from the log go in, jobs, nodes and policy come out.
//
// Contract: Apply is a pure function of the state and the command. The package
// reads no clock, does no I/O except through the readers and writers that it is
// given, uses no randomness, starts no goroutine and never depends on the order
// of a Go map, so every peer that applies the same log holds the same bytes.
// Time and request ids travel inside the commands; job numbers come from a
// counter in the state. Apply changes state and nothing else: the leader's
// loops look at a View and act, and may act twice without harm.
//
// A State serves one caller at a time. A View is immutable and may be read by
// any number of goroutines while the State changes.
//
// See DESIGN.md for the terms, the records and the life of a job.
package state
