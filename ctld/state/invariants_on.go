//go:build invariants

package state

// checkAlways makes Apply check every invariant after every command.
const checkAlways = true
