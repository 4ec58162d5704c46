// Package raftmode runs whole controllers with real hashicorp/raft in one
// process and one network in memory, in the fake time of testing/synctest.
package raftmode
