// Package policy is the replicated configuration: partitions, owners, who goes first, what is
// enforced, as cluster.toml says it.
//
// Contract: a Policy is data. FromMessage and Message bridge it to the API, Normalize checks
// it and puts it into the one form that is stored, and Diff says what a change changes. A
// stored Policy is normalised and never changed, so any number of goroutines may read it.
// What it means for a job, a node or an account is decided in package state, which this
// package does not know. Field numbers and constants are persisted: append only.
package policy
