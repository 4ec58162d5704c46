//go:build !gleaner_level1

package state

// Newest is the newest level that this program understands.
const Newest = LevelFrozen
