package state

import (
	"hash/maphash"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// A singleton waits while a job of its name and user runs, or waits and has a
// lower number (sbatch(1)). Indices know the names of all live jobs, by a hash
// of user and name that others may share.

// nameSeed differs from process to process, so that nobody can make up names
// that share a hash. Nothing that is answered or kept depends on it.
var nameSeed = maphash.MakeSeed()

// nameKey is the hash.
func nameKey(job *Job) uint32 {
	var hash maphash.Hash
	hash.SetSeed(nameSeed)
	maphash.WriteComparable(&hash, job.Owner().UID)
	hash.WriteString(job.Name())
	return uint32(hash.Sum64())
}

func sameName(a, b *Job) bool {
	return a.Owner().UID == b.Owner().UID && a.Name() == b.Name()
}

// noteName has resolve look at the singletons of a job's name.
func (s *State) noteName(job *Job) {
	if job == nil || s.singletons.Len() == 0 {
		return
	}
	if key := nameKey(job); len(idsUnder(s.singletons, key, 1)) > 0 {
		s.movedNames = append(s.movedNames, key)
	}
}

// blocked says which job a singleton waits for; 0 for none.
func (t *tables) blocked(job *Job) uint32 {
	key := nameKey(job)
	first := func(index uint64Set, before uint32) (found uint32) {
		index.Ascend(pair(key, 0), func(entry uint64, _ struct{}) bool {
			id := uint32(entry)
			if uint32(entry>>32) != key || id >= before {
				return false
			}
			if other, _ := t.live.Get(id); id != job.ID && sameName(other, job) {
				found = id
			}
			return found == 0
		})
		return found
	}
	if id := first(t.activeNames, math.MaxUint32); id != 0 {
		return id
	}
	return first(t.waitingNames, job.ID)
}

// resolveSingletons looks at the waiting singletons under a hash. Of one name
// only the first can be free now, and only one can have been.
func (s *State) resolveSingletons(key uint32) {
	var firsts []*Job
	for _, id := range idsUnder(s.singletons, key, math.MaxInt) {
		job, _ := s.live.Get(id)
		if !slices.ContainsFunc(firsts, func(first *Job) bool { return sameName(first, job) }) {
			firsts = append(firsts, job)
		} else if !job.freeSingleton() {
			continue
		}
		next := *job
		if s.judgeSingleton(&next) {
			s.putDependent(job, &next)
		}
	}
}

// judgeSingleton fills in how far the singleton of a waiting job is, and
// reports whether that changed. The list is the job's own afterwards.
func (s *State) judgeSingleton(job *Job) (changed bool) {
	state := Fulfilled
	if s.blocked(job) != 0 {
		state = Unfulfilled
	}
	for i, one := range job.Dependencies.List {
		if one.Kind == spec.Singleton && one.State != state {
			if !changed {
				job.Dependencies.List = slices.Clone(job.Dependencies.List)
			}
			job.Dependencies.List[i].State = state
			changed = true
		}
	}
	return changed
}

// freeSingleton reports whether its singleton was fulfilled at the last look.
func (j *Job) freeSingleton() bool {
	return slices.ContainsFunc(j.Dependencies.List, func(one Dependency) bool {
		return one.Kind == spec.Singleton && one.State == Fulfilled
	})
}
