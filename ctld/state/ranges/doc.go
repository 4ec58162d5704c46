// Package ranges holds sets of numbers as few ranges: the tasks of an array, the exit
// statuses of a policy.
//
// Contract: pure functions. A set is in normal form if proto/spec's NormalizeRanges leaves it
// as it is; what the log and the state hold is. The arithmetic of normal forms is proto/spec's.
package ranges
