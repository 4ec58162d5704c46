package bundle

import "github.com/gleaner-hpc/gleaner/cgroup"

// An allocation may have its share of the processes and threads that all jobs of the
// node may have together, as its CPUs are to the node's, and at most mostProcesses,
// which is many for a job. What allocations may have never exceeds what there is, so that
// nobody's jobs, however small and many, keep those of others from starting.
const (
	mostProcesses    = 131072
	unknownProcesses = 32768
	// reserved is the fraction of the kernel's room that jobs leave to the host.
	reserved = 8
)

// AllProcesses answers how many processes and threads the jobs of a node may have
// together: what is configured, or what the kernel has room for less a reserve.
func AllProcesses(configured int64) int64 {
	if configured > 0 {
		return configured
	}
	room, err := cgroup.ProcessRoom()
	if err != nil {
		room = unknownProcesses
	}
	return room - room/reserved
}

// ProcessLimit answers the limit of an allocation that has so many CPUs.
func (s *Settings) ProcessLimit(cpus int) int64 {
	most := int64(mostProcesses)
	if s.MaxProcesses > 0 {
		most = s.MaxProcesses
	}
	share := AllProcesses(s.MaxTotalProcesses)
	if s.NodeCPUs > cpus {
		share = share * int64(max(cpus, 1)) / int64(s.NodeCPUs)
	}
	return max(min(share, most), 1)
}
