package sched

import "slices"

// preemptorsFirst puts jobs that may preempt others before those, as Slurm
// does ("Jobs that can preempt", priority_multifactor.html): a job that was
// preempted and waits again must not take the room that it made. Else the order
// stays: of the QOS whose preemptors have no more turns, the first turn goes
// next. By partition there is nothing to do, because tiers come first anyway.
func preemptorsFirst(s *Snapshot, entries []entry) []entry {
	if s.Preemption.Type != PreemptByQOS || !slices.ContainsFunc(s.QOS, func(q QOS) bool { return len(q.Preempts) > 0 }) {
		return entries
	}
	rules := newPreemptRules(s)
	queues := make([][]entry, len(s.QOS)+1) // by QOS; the last has the jobs without
	at := func(e entry) int {
		if qos := s.Waiting[e.job].QOS; qos >= 0 && int(qos) < len(s.QOS) {
			return int(qos)
		}
		return len(s.QOS)
	}
	for _, e := range entries {
		queues[at(e)] = append(queues[at(e)], e)
	}
	above := make([]int, len(queues)) // how many QOS with turns left preempt it
	eachBelow := func(qos int, change int) {
		for other := range s.QOS {
			if qos < len(s.QOS) && rules.outranks(int32(qos), int32(other)) {
				above[other] += change
			}
		}
	}
	for qos := range queues {
		if len(queues[qos]) > 0 {
			eachBelow(qos, 1)
		}
	}
	sorted := make([]entry, 0, len(entries))
	for len(sorted) < len(entries) {
		best := -1
		for qos := range queues {
			if len(queues[qos]) > 0 && above[qos] == 0 && (best < 0 || compareEntries(queues[qos][0], queues[best][0]) < 0) {
				best = qos
			}
		}
		sorted = append(sorted, queues[best][0])
		if queues[best] = queues[best][1:]; len(queues[best]) == 0 {
			eachBelow(best, -1)
		}
	}
	return sorted
}
