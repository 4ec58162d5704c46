// Package raftmode runs whole controllers with real hashicorp/raft in one
// process, in the fake time of testing/synctest, on a network in memory.
//
// Contract: everything of ctld is real, from its files and TLS to its gRPC and
// its requests that are passed on; only the sockets are not. Partitions, also
// one way, delays and crashes come from one seed; what the goroutines make of
// it does not, so a seed raises the odds and replays nothing. What arrived is
// counted. Users' requests are checked for linearizability, the nodes' runs for
// doubles and for starts before their time, and every controller must tell the
// same of all jobs.
package raftmode
