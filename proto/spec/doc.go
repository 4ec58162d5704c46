// Package spec is the small textual languages and words of Slurm, shared by
// the clients and the daemons: host lists, times, sizes, job arrays, GPU
// requests, job targets, job states, signals and file name patterns, and the
// limits on all of them.
//
// Contract: pure functions on strings and numbers. Every input is treated as
// hostile: a parser never panics, and neither its work nor its output exceeds
// the limits of limits.go, however short the input. Formatting what was parsed
// and parsing it again gives the same value. An error says what was wrong and
// what to type instead.
//
// Sources: the man pages of Slurm, sbatch(1), squeue(1), scancel(1) and
// scontrol(1).
package spec

// Sentence is an error whose text is one of Slurm's own, with its capital
// letter, because tools that were written for Slurm look for it.
type Sentence string

// Error returns the sentence.
func (s Sentence) Error() string { return string(s) }
