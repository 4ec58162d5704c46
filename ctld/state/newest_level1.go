//go:build gleaner_level1

package state

// Newest makes a program that understands no more than the first level, for
// tests of clusters in which not every controller is upgraded yet.
const Newest = LevelFirst
