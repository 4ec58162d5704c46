package state

// suspensions makes a command about suspended jobs: an administrator's, a
// plan's, or the word of a node, which may be late, early or a lie.
func (w *walker) suspensions(v *View) Command {
	job, node := w.activeJob(v)
	targets := []Target{{Job: job.ID}}
	switch w.Intn(6) {
	case 0, 1:
		// Most are ready, or little would be suspended.
		if job.Run != nil && job.Configuring() && w.chance(80) {
			return w.allReady(job)
		}
		return SuspendJobs{Targets: targets, UID: w.uid(), Privileged: w.chance(90)}
	case 2:
		return ResumeJobs{Targets: targets, UID: w.uid(), Privileged: w.chance(90)}
	case 3:
		var command ContinueJobs
		for job := range v.LiveJobs() {
			if job.Suspended() && w.chance(70) {
				command.Orders = append(command.Orders, ContinueOrder{Job: job.ID, Epoch: job.Epoch, Number: w.suspendNumber(job)})
			}
		}
		return command
	}
	var command AllocsSuspended
	for range 1 + w.Intn(3) {
		command.Reports = append(command.Reports, SuspendReport{
			Job: job.ID, Epoch: job.Epoch - uint32(w.Intn(20)/19), Node: node, Number: w.suspendNumber(job), Frozen: w.chance(80), Parked: w.owners && w.chance(60),
		})
		if job.Suspended() {
			node = job.Run.Allocs[w.Intn(len(job.Run.Allocs))].Node
		}
	}
	return command
}

// suspendNumber is that of a job's last order, or one near it.
func (w *walker) suspendNumber(job *Job) uint32 {
	if job.Run == nil {
		return uint32(w.Intn(3))
	}
	if w.chance(10) {
		return job.Run.SuspendNumber + uint32(w.Intn(4)) - min(job.Run.SuspendNumber, 2)
	}
	return job.Run.SuspendNumber
}

func tallySuspensions(s *State, result *Result, tally map[string]int) {
	for _, id := range result.ChangedJobs {
		if job, known := s.Job(id); known && job.Suspended() && (result.Kind == KindSuspendJobs || result.Kind == KindPreemptJobs) {
			tally["suspended"]++
		}
	}
	for _, c := range result.Continued {
		if c.Dropped == "" {
			tally["continues"]++
		}
	}
	for _, start := range result.Starts {
		if job, known := s.Job(start.Job); known {
			for i := range job.Run.Allocs {
				tally["CPUs lent"] += s.lent(&job.Run.Allocs[i])
			}
		}
	}
}

// lent counts the stopped jobs whose CPUs an allocation has.
func (s *State) lent(alloc *Alloc) (count int) {
	for other := range s.JobsOn(alloc.Node) {
		if stands := other.Alloc(alloc.Node); stands.Frozen && sharesCPUs(stands.CPUs, alloc.CPUs) {
			count++
		}
	}
	return count
}
