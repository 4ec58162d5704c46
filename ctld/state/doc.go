// Package state is the replicated state machine of the controller: commands
// from the log go in, jobs, nodes and policy come out.
//
// Contract: Apply is a pure function of the state and the command. The package
// reads no clock, does no I/O but through the readers and writers handed in,
// uses no randomness, starts no goroutine and never depends on the order of a
// Go map, so every peer that applies the same log holds the same bytes. Time
// and request ids travel inside the commands; job numbers come from a counter
// in the state. Apply changes state and nothing else: who wants something done
// looks at a View and acts, and may act twice without harm.
//
// A State serves one caller at a time. A View is immutable and may be read by
// any number of goroutines while the State goes on.
//
// See DESIGN.md for the terms, the records and the life of a job.
package state
