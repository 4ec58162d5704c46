package sched

import "github.com/gleaner-hpc/gleaner/sched/place"

// expandShapes is the snapshot as the stages see it: its nodes with their
// places in the network, and shapes that also differ by what depends on the
// job. That is the user, if nodes may be one user's, and whether the job has
// waited long enough to take any switches. nextMS is when the next job will
// have; 0 = none.
func expandShapes(s Snapshot) (spelled Snapshot, nextMS int64) {
	s.Nodes = place.Wire(s.Nodes, s.Switches)
	users, waits := s.usersMatter(), s.switchesAwaited()
	if !users && !waits {
		return s, 0
	}
	type variant struct {
		shape  int
		uid    uint32
		waited bool
	}
	known := make(map[variant]int)
	shapes, waiting := s.Shapes, make([]Job, len(s.Waiting))
	s.Shapes = nil
	for i, job := range s.Waiting {
		asked := &shapes[job.Shape]
		v := variant{shape: job.Shape}
		if users {
			v.uid = job.UID
		}
		if asked.Request.Switches > 0 && asked.SwitchesWaitS > 0 {
			left := int64(asked.SwitchesWaitS)*1000 - job.AgeMS
			v.waited = left <= 0
			if left > 0 && job.Held == NotHeld {
				nextMS = sooner(nextMS, s.NowMS+left)
			}
		}
		at, is := known[v]
		if !is {
			at = len(s.Shapes)
			known[v] = at
			shape := *asked
			shape.Request.User = v.uid
			if v.waited {
				shape.Request.Switches = 0
			}
			s.Shapes = append(s.Shapes, shape)
		}
		job.Shape = at
		waiting[i] = job
	}
	s.Waiting = waiting
	return s, nextMS
}

// sooner is the earlier of two times, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// usersMatter reports whether any node belongs, or may come to belong, to one
// user only.
func (s *Snapshot) usersMatter() bool {
	for i := range s.Partitions {
		if s.Partitions[i].ExclusiveUser {
			return true
		}
	}
	for i := range s.Shapes {
		if s.Shapes[i].Request.ExclusiveUser {
			return true
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].UserOnly {
			return true
		}
	}
	return false
}

// switchesAwaited reports whether any job waits for switches for a time.
func (s *Snapshot) switchesAwaited() bool {
	for i := range s.Shapes {
		if s.Shapes[i].Request.Switches > 0 && s.Shapes[i].SwitchesWaitS > 0 {
			return true
		}
	}
	return false
}

// shaped is a shape as it is in this partition, which may share nodes less than
// the job asks.
func (p *Partition) shaped(shape *Shape) *Shape {
	r := &shape.Request
	if (!p.Exclusive || r.Exclusive) && (!p.ExclusiveUser || r.ExclusiveUser) {
		return shape
	}
	here := *shape
	here.Request.Exclusive = r.Exclusive || p.Exclusive
	here.Request.ExclusiveUser = r.ExclusiveUser || p.ExclusiveUser
	return &here
}
