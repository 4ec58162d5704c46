package place

// withTmp returns how many of so many CPUs the job can have on a node by what it
// would write to its disk. As with memory, a job that has the node alone has all
// CPUs or none.
func (w *want) withTmp(n *Node, cpus uint64) uint64 {
	switch {
	case w.TmpPerNode > 0:
		if w.TmpPerNode > w.roomForTmp(n) {
			return 0
		}
	case n.TmpPerCPU > 0 && !n.TmpOpen:
		held := w.freeTmp(n) / n.TmpPerCPU
		if w.Exclusive && held < cpus {
			return 0
		}
		return min(cpus, held)
	}
	return cpus
}

// roomForTmp is how much one more job may ask for.
func (w *want) roomForTmp(n *Node) uint64 {
	if n.TmpOpen {
		return n.TmpBytes
	}
	return w.freeTmp(n)
}

// tmpOf is what a job with these CPUs may write to the node's disk.
func (w *want) tmpOf(n *Node, cpus CPUSet) uint64 {
	switch {
	case n.TmpOpen:
		return 0
	case w.TmpPerNode > 0:
		return w.TmpPerNode
	}
	return n.TmpPerCPU * uint64(cpus.Count())
}

func (s *sieve) tmpFree() (Shortage, bool) {
	shortage := Shortage{What: Tmp, Need: s.TmpPerNode}
	shortage.Have, shortage.HaveOn = s.richest(s.roomForTmp)
	if s.TmpPerNode == 0 {
		shortage.Need = product(s.most(func(n *Node) uint64 { return n.TmpPerCPU }), s.cpusEach())
	}
	return s.perNodeShortage(shortage, func(n *Node) bool {
		return s.withTmp(n, uint64(n.FreeCPUs.Count())) >= s.cpusEach()
	})
}
