package container

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The kernel counts inotify, fanotify, namespaces, queued signals, POSIX timers
// and message queues for the pair of a user namespace and a user in it, and
// again for whoever made the namespace, and so on upwards. If root made it, all
// jobs and root would share root's counters. So each job's namespace is made
// with its own effective user id, as which nobody runs.
//
// It is not the job's user: the user who made a namespace has all capabilities
// in it, also from outside. A login of that user on the node could become root
// in the job, for whom the job's idmapped mounts are root's own files.

// ownerBase is the first of the ids that own user namespaces: they lie between
// those that containers give to other users and 2^31.
const (
	ownerBase = HostIDBase + MappedIDs
	owners    = 1<<31 - ownerBase
)

// namespaceOwner answers who makes the user namespace of a container. Two
// containers of one node with the same number, one pair in 47 million, would
// share their counters.
func namespaceOwner(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return ownerBase + h.Sum32()%owners
}

// counterBound is one of /proc/sys/user of a user namespace.
type counterBound struct {
	name string
	most uint64
}

func (b counterBound) path() string { return "/proc/sys/user/" + b.name }
func (b counterBound) text() string { return strconv.FormatUint(b.most, 10) }

// mostNamespaces is how many of each kind a container may have: process 1's
// own, and while they are made a few more.
const mostNamespaces = 8

// What a job may use of the counters that the host gives each user: a fraction,
// but at least so much that programs work. gdoctor says what a host needs.
const counterShare = 64

var leastCounters = map[string]uint64{
	"max_inotify_instances": 32, "max_inotify_watches": 16384, "max_fanotify_groups": 8, "max_fanotify_marks": 1024,
}

// boundsInside are the counters of a job's user namespace.
func boundsInside(nested bool) []counterBound {
	namespaces, users := uint64(mostNamespaces), uint64(0)
	if nested {
		namespaces, users = mostNested, mostNested
	}
	bounds := []counterBound{{"max_user_namespaces", users}}
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "uts"} {
		bounds = append(bounds, counterBound{"max_" + kind + "_namespaces", namespaces})
	}
	for _, name := range slices.Sorted(maps.Keys(leastCounters)) {
		text, err := os.ReadFile(counterBound{name: name}.path())
		if err != nil {
			continue // a kernel without it
		}
		if host, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			bounds = append(bounds, counterBound{name, min(host, max(host/counterShare, leastCounters[name]))})
		}
	}
	return bounds
}

// boundRestored bounds the counters of a restored job, none of whose processes
// has run.
func boundRestored(pid int, nested bool) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return fmt.Errorf("open the restored user namespace: %w", err)
	}
	defer ns.Close()
	return boundNamespace(ns, boundsInside(nested))
}
