// Package shim is the supervisor of one allocation of a job, one node's share of
// one run: a process of its own, outside the job's container, that outlives the
// node daemon. DESIGN.md is its contract.
//
// Main runs it, FitsMain answers whether an allocation could resume here from an
// image. Package client is the daemon's side: it starts supervisors, finds and
// asks them, and ends what dead ones left. Between the two are the allocation's
// directory (package bundle) and pb.Shim on a socket in it.
//
// What it promises: a job runs at most once for each (job, epoch), however
// often it is launched; the result is on disk only when no process, control
// group or mount of the allocation is left; if the supervisor is killed, its job
// dies with it; and nothing outside the allocation's directory is ever deleted.
//
// What it needs: root, and cgroups that cgroup.Detect knows.
package shim
