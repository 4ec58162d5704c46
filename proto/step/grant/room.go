package grant

// room is what is there for a step, of each of the job's nodes.
type room []nodeRoom

type nodeRoom struct {
	cpus, gpus []int // ascending
	memoryMiB  uint64
}

// all is the whole job.
func (job *Job) all() room {
	r := make(room, len(job.Nodes))
	for i, node := range job.Nodes {
		r[i] = nodeRoom{cpus: upTo(node.CPUs), gpus: upTo(node.GPUs), memoryMiB: node.MemoryMiB}
	}
	return r
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// without answers what of list is not in taken; both ascend.
func without(list, taken []int) []int {
	kept := make([]int, 0, len(list))
	for _, one := range list {
		for len(taken) > 0 && taken[0] < one {
			taken = taken[1:]
		}
		if len(taken) == 0 || taken[0] != one {
			kept = append(kept, one)
		}
	}
	return kept
}

func less(have, take uint64) uint64 {
	if take > have {
		return 0
	}
	return have - take
}
