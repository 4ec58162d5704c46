package state

import "slices"

// checkDelete says why the records of some nodes, ascending, must stay.
func (t *tables) checkDelete(names []string) *Refusal {
	named := t.policy.NamedNodes()
	for _, name := range names {
		node, _ := t.nodes.Get(name)
		switch {
		case node.Inventory != nil && !node.NotResponding:
			return refuse(WrongState, "node %s still responds: drain it, stop gnoded there when its jobs are over, and wait until it is not responding", name)
		case len(node.use.jobs) > 0 || len(node.Strays) > 0 || node.holdsStarts():
			return refuse(WrongState, "jobs may still run on node %s: say first that it is switched off, with gcontrol fence %s", name, name)
		case named[name]:
			return refuse(WrongState, "cluster.toml names node %s: take it out there, and put that in force with gcontrol apply", name)
		}
	}
	for job := range t.LiveJobs() {
		for _, name := range names {
			if job.Run != nil && job.Run.names(name) {
				return refuse(WrongState, "job %d still runs elsewhere, and began on node %s too: wait for its end", job.ID, name)
			}
			if image := job.onlyOn(name); image != 0 {
				return refuse(WrongState, "image %d of job %d is on node %s only: cancel the job, have it start over with gcontrol requeue %d, or save it again with gcontrol checkpoint %d", image, job.ID, name, job.ID, job.ID)
			}
		}
	}
	return nil
}

// names reports whether a run has, or had, an allocation on a node.
func (r *Run) names(node string) bool {
	return slices.Contains(r.nodes(), node) ||
		slices.ContainsFunc(r.Beside, func(b Beside) bool { return slices.Contains(b.Run.nodes(), node) })
}

// onlyOn is the number of an image of which a part is on one node and nowhere else;
// 0 = there is none.
func (j *Job) onlyOn(node string) uint32 {
	for _, image := range j.Images() {
		for n := range image.Allocs {
			if holders := image.Allocs[n].Holders(); len(holders) == 1 && holders[0] == node {
				return image.Number
			}
		}
	}
	return 0
}

// forgetCopies forgets that a node has copies of images, which are elsewhere too.
func (s *State) forgetCopies(name string) {
	for _, job := range slices.Collect(s.LiveJobs()) {
		for _, image := range job.Images() {
			for _, part := range image.Allocs {
				s.notePlace(&ImagePlace{Job: job.ID, Number: image.Number, Digest: part.Digest, Node: name, Gone: true})
			}
		}
	}
}

// deleteNode removes the record of a node that has nothing.
func (s *State) deleteNode(name string) {
	if node, known := s.nodes.Get(name); known {
		s.endOutage(node)
	}
	s.nodes.Delete(name)
	s.reclaimed.Delete(name)
	s.lending.Delete(name)
	s.crossed.Delete(name)
	s.habits.Delete(name)
}
