// Package network gives a job with a network of its own a way out through its node.
//
// Contract: a job has one link to its node, a pair of virtual interfaces, and one table
// of the kernel's packet filter that is the job's alone. Through them it opens
// connections to the world, with the node's own address, as far as its policy allows.
// Nobody reaches the job, and the job reaches neither the node nor other jobs. It needs no
// privilege for that and can change nothing of it.
//
// The job's addresses are on its loopback interface. So they are part of an image, stay
// when the link is cut for a save, and move with the job. See DESIGN.md.
//
// Nothing stays: the link goes with the job's namespace. The table belongs to the
// supervisor's socket: the kernel removes it with that, whatever is killed, and it stays
// when somebody else flushes the host's rules.
//
// plan.go, ranges.go and policy.go decide, without I/O. The other files carry that
// out. The package is used by one supervisor for one job, in the host's network namespace,
// as root.
package network
