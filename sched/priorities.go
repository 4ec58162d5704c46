package sched

import (
	"iter"
	"math"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched/fairshare"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/priority"
)

// basicPriority is the priority of a job while no factor has a weight and it
// has no nice value: jobs go in the order of their numbers.
const basicPriority = 1 << 31

// Factors are what makes the priority of a waiting job in one of its
// partitions, each without its weight, which is in Snapshot.Priority.
type Factors struct {
	Job       int // position in Snapshot.Waiting
	Partition int // index into Snapshot.Partitions; -1 = it has none
	Age       priority.Fraction
	// Association, FairShare and QOS are of what the job is charged to.
	Association, FairShare, QOS priority.Fraction
	// JobSize and Weighs (the partition factor) are of this partition, and TRES,
	// by Snapshot.TRES; nil if none has a weight.
	JobSize, Weighs priority.Fraction
	TRES            []priority.Fraction
	Site, Nice      int32
	// Priority is the sum, or what an administrator set; all factors are 0 then.
	Priority uint32
}

// PriorityFactors returns the factors of the waiting jobs, in the order of
// Waiting, once for each of a job's partitions. Like Slurm it leaves out jobs
// that are not eligible: held, before their begin time, or waiting for others.
func PriorityFactors(s Snapshot) iter.Seq[Factors] {
	return func(yield func(Factors) bool) {
		p := newPriorities(&s)
		for i := range s.Waiting {
			job := &s.Waiting[i]
			if job.Held != NotHeld || job.BeginMS > s.NowMS || job.Dependency != NoDependency {
				continue
			}
			partitions := s.Shapes[job.Shape].Partitions
			for choice := range max(len(partitions), 1) {
				if !yield(p.factors(i, choice)) {
					return
				}
			}
		}
	}
}

// priorities computes the priorities of one snapshot. What many jobs share is
// computed once, so that a job costs its age and a few sums.
type priorities struct {
	*Snapshot
	basic        bool // no factor has a weight
	standings    []fairshare.Standing
	users        uint32
	highest      struct{ association, partition, qos uint32 }
	all          sums   // of the cluster
	partitions   []sums // by partition; nil if no factor needs them
	tres         []tresKind
	licenses     bool                  // a license has a weight
	shapes       [][]priority.Weighted // by shape and choice: size, partition, TRES but licenses
	associations []priority.Weighted   // its factor and its fair share
	qos          []priority.Weighted
	first        []uint32 // see ofFirst; nil = not computed yet
}

// sums is what some nodes have in all.
type sums struct {
	nodes, cpus, memory, gpus int64
	models                    map[string]int64
}

// tresKind is what the name of a TRES means here.
type tresKind struct {
	name    string
	model   string // of gres/gpu:MODEL
	license int    // position in Snapshot.Licenses; -1 = it is none
}

func newPriorities(s *Snapshot) *priorities {
	p := &priorities{Snapshot: s}
	w := &s.Priority
	p.basic = !w.Weighs()
	if p.basic {
		return p
	}
	if w.WeightFairShare > 0 {
		p.standings, p.users = FairShares(*s)
	}
	for i := range s.Associations {
		p.highest.association = max(p.highest.association, s.Associations[i].Priority)
	}
	for i := range s.Partitions {
		p.highest.partition = max(p.highest.partition, s.Partitions[i].PriorityJobFactor)
	}
	for i := range s.QOS {
		p.highest.qos = max(p.highest.qos, s.QOS[i].Priority)
	}
	if w.WeightJobSize > 0 || len(w.WeightTRES) > 0 {
		p.sum()
	}
	p.share()
	return p
}

// FairShares is the standing of each association, and the number of users.
func FairShares(s Snapshot) ([]fairshare.Standing, uint32) {
	tree := make([]fairshare.Node, len(s.Associations))
	for i := range s.Associations {
		a := &s.Associations[i]
		tree[i] = fairshare.Node{Parent: a.Parent, User: a.User != "", Shares: a.Shares, ShareParent: a.ShareParent, Usage: a.UsageRaw}
	}
	return fairshare.Rank(tree)
}

// Weighs reports whether any factor has a weight.
func (w *PriorityPolicy) Weighs() bool {
	sum := uint64(w.WeightAge) + uint64(w.WeightAssociation) + uint64(w.WeightFairShare) + uint64(w.WeightJobSize) + uint64(w.WeightPartition) + uint64(w.WeightQOS)
	for _, weight := range w.WeightTRES {
		sum += uint64(weight)
	}
	return sum > 0
}

// sum adds up what there is.
func (p *priorities) sum() {
	for i := range p.Nodes {
		p.all.add(&p.Nodes[i])
	}
	if len(p.Priority.WeightTRES) == 0 {
		return
	}
	p.partitions = make([]sums, len(p.Partitions))
	for i := range p.Partitions {
		for _, node := range p.Partitions[i].Nodes {
			p.partitions[i].add(&p.Nodes[node])
		}
	}
	for _, name := range p.TRES {
		kind := tresKind{name: name, license: -1}
		kind.model, _ = strings.CutPrefix(name, TRESGPU+":")
		if license, is := strings.CutPrefix(name, "license/"); is {
			for i := range p.Licenses {
				if p.Licenses[i].Name == license {
					kind.license = i
				}
			}
		}
		p.tres = append(p.tres, kind)
	}
}

func (s *sums) add(n *place.Node) {
	s.nodes++
	s.cpus += int64(n.CPUs.Count())
	s.memory += int64(min(n.MemoryBytes, math.MaxInt64>>16))
	for i := range n.Devices {
		if d := &n.Devices[i]; d.Parent == place.WholeDevice {
			if s.models == nil {
				s.models = map[string]int64{}
			}
			s.gpus++
			s.models[d.Model]++
		}
	}
}

// share computes what many jobs have in common.
func (p *priorities) share() {
	w := &p.Priority
	p.associations = make([]priority.Weighted, len(p.Associations))
	for i := range p.Associations {
		p.associations[i] = p.association(int32(i)).Times(w.WeightAssociation).Plus(p.fairShare(int32(i)).Times(w.WeightFairShare))
	}
	p.qos = make([]priority.Weighted, len(p.QOS))
	for i := range p.QOS {
		p.qos[i] = p.qosFactor(int32(i)).Times(w.WeightQOS)
	}
	for i, kind := range p.tres {
		p.licenses = p.licenses || kind.license >= 0 && w.WeightTRES[i] > 0
	}
	p.shapes = make([][]priority.Weighted, len(p.Shapes))
	for i := range p.Shapes {
		partitions := p.Shapes[i].Partitions
		p.shapes[i] = make([]priority.Weighted, max(len(partitions), 1))
		for choice := range p.shapes[i] {
			shape, partition := &p.Shapes[i], p.whole(partitionOf(&p.Shapes[i], choice))
			sum := p.jobSize(shape, partition).Times(w.WeightJobSize).Plus(p.partitionFactor(partition).Times(w.WeightPartition))
			for t := range p.tres {
				if w.WeightTRES[t] > 0 && p.tres[t].license < 0 {
					sum = sum.Plus(p.requested(shape, partition, &p.tres[t]).Times(w.WeightTRES[t]))
				}
			}
			p.shapes[i][choice] = sum
		}
	}
}

// partitionOf is the partition of a choice; -1 for a shape that has none.
func partitionOf(shape *Shape, choice int) int {
	if choice < len(shape.Partitions) {
		return shape.Partitions[choice]
	}
	return -1
}

// of is the priority of a job in one of its partitions; 0 while it is held.
func (p *priorities) of(i int32, choice int) uint32 {
	job := &p.Waiting[i]
	switch {
	case job.Held != NotHeld:
		return 0
	case job.FixedPriority != 0:
		return job.FixedPriority
	case p.basic:
		return uint32(min(max(basicPriority+int64(job.SiteFactor)-int64(job.Nice), 1), math.MaxUint32))
	}
	w := &p.Priority
	sum := p.shapes[job.Shape][choice].Plus(priority.Age(job.AgeMS, w.MaxAgeS).Times(w.WeightAge))
	if job.Association >= 0 && int(job.Association) < len(p.associations) {
		sum = sum.Plus(p.associations[job.Association])
	}
	if job.QOS >= 0 && int(job.QOS) < len(p.qos) {
		sum = sum.Plus(p.qos[job.QOS])
	}
	if p.licenses {
		for t, kind := range p.tres {
			if kind.license >= 0 {
				sum = sum.Plus(p.licensed(job, &kind).Times(w.WeightTRES[t]))
			}
		}
	}
	return priority.Sum(sum, job.SiteFactor, job.Nice)
}

// ofFirst is the priority of each waiting job in the partition that it
// prefers.
func (p *priorities) ofFirst() []uint32 {
	first, known := p.room()
	for i := 0; i < len(first) && !known; i++ {
		first[i] = p.of(int32(i), 0)
	}
	return first
}

// room is the list of ofFirst. If it is not known, whoever asks fills it in.
func (p *priorities) room() (first []uint32, known bool) {
	if known = p.first != nil; !known {
		p.first = make([]uint32, len(p.Waiting))
	}
	return p.first, known
}

func (p *priorities) factors(i, choice int) Factors {
	job, shape := &p.Waiting[i], &p.Shapes[p.Waiting[i].Shape]
	partition := partitionOf(shape, choice)
	f := Factors{Job: i, Partition: partition, Site: job.SiteFactor, Nice: job.Nice, Priority: p.of(int32(i), choice)}
	if p.basic || job.FixedPriority != 0 {
		return f
	}
	f.Age = priority.Age(job.AgeMS, p.Priority.MaxAgeS)
	f.Association, f.FairShare, f.QOS = p.association(job.Association), p.fairShare(job.Association), p.qosFactor(job.QOS)
	f.JobSize, f.Weighs = p.jobSize(shape, partition), p.partitionFactor(partition)
	if len(p.tres) > 0 {
		f.TRES = make([]priority.Fraction, len(p.tres))
		for t := range p.tres {
			if kind := &p.tres[t]; kind.license >= 0 {
				f.TRES[t] = p.licensed(job, kind)
			} else {
				f.TRES[t] = p.requested(shape, partition, kind)
			}
		}
	}
	return f
}
