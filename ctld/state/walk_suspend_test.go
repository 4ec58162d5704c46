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
			var parts []PartRef
			for i := range job.Run.Parts {
				parts = append(parts, PartRef{job.ID, job.Epoch, job.Run.Parts[i].Node})
			}
			return PartsReady{Parts: parts}
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
	var command PartsSuspended
	for range 1 + w.Intn(3) {
		command.Reports = append(command.Reports, SuspendReport{
			Job: job.ID, Epoch: job.Epoch - uint32(w.Intn(20)/19), Node: node, Number: w.suspendNumber(job), Stands: w.chance(80),
		})
		if job.Suspended() {
			node = job.Run.Parts[w.Intn(len(job.Run.Parts))].Node
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
			tally["goes on"]++
		}
	}
	for _, start := range result.Starts {
		if job, known := s.Job(start.Job); known {
			for i := range job.Run.Parts {
				tally["CPUs lent"] += s.lent(&job.Run.Parts[i])
			}
		}
	}
}

// lent counts the jobs that stand still and whose CPUs a part has.
func (s *State) lent(part *Part) (count int) {
	for other := range s.JobsOn(part.Node) {
		if stands := other.Part(part.Node); stands.Stands && sharesCPUs(stands.CPUs, part.CPUs) {
			count++
		}
	}
	return count
}
