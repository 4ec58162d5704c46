//go:build !invariants

package state

const checkAlways = false
