package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/habit"
)

// This file learns how owners take their nodes back: in which hours of the week, and how
// often guests lose their runs by it. A guest is not placed where it would probably have
// to leave before it could do more than leaving costs it, and a guest that is saved at
// intervals is saved more often where it is lost more often (leader/saves.go).

// Habit is what is known of a node's owner. A stored one is never changed.
type Habit struct {
	Owner string     `cbor:"1,keyasint,omitempty"` // of whom; what was learned of another counts for nothing
	Week  habit.Week `cbor:"2,keyasint"`
	// Killed is the share of guests that were killed because they were not parked in time,
	// in parts of habit.One; the newest one counts one in killedMemory.
	Killed uint32 `cbor:"3,keyasint"`
	Guests uint32 `cbor:"4,keyasint,omitempty"` // on which that is founded, up to killedMemory
}

// killedMemory is how many guests count, about, and how many it takes until nothing
// remains of what was expected before any was seen: one in sched's parkRisk is killed.
const killedMemory = 16

// habitOf is a copy of what is known of the owner of a node.
func (s *State) habitOf(node *Node) Habit {
	if owner := s.policy.OwnerOf(node.Name); node.Habit == nil || node.Habit.Owner != owner {
		return Habit{Owner: owner, Week: habit.Watched(max(node.WatchedMS, s.timeMS-habitBeforeMS)), Killed: habit.One / killedMemory}
	}
	return *node.Habit
}

// habitBeforeMS bounds how long a node counts as watched before its owner took it first.
const habitBeforeMS = 52 * 7 * 24 * 3600 * 1000

// noteTook notes, in a copy of a node, that its owner has taken all of it, or parked guests
// there for a job.
func (s *State) noteTook(node *Node) {
	known := s.habitOf(node)
	known.Week = known.Week.Took(s.timeMS)
	node.Habit = &known
}

// noteLent notes, in a copy of a node, that its owner lends it again.
func (s *State) noteLent(node *Node) {
	if node.Habit == nil {
		return
	}
	known := s.habitOf(node)
	known.Week = known.Week.Away(s.timeMS)
	node.Habit = &known
}

// noteLeft notes that a guest has left a node: parked, or killed because it was not.
func (s *State) noteLeft(name string, killed bool) {
	old, there := s.nodes.Get(name)
	if !there || !s.hasTerms(old) {
		return
	}
	node, known := *old, s.habitOf(old)
	known.Killed -= (known.Killed + killedMemory - 1) / killedMemory
	if killed {
		known.Killed += habit.One / killedMemory
	}
	known.Killed, known.Guests = min(known.Killed, habit.One), min(known.Guests+1, killedMemory)
	node.Habit = &known
	s.putNode(&node)
}

// week is what is known of when the owner of a node takes it; the zero Week where it was
// another one's.
func (t *tables) week(node *Node) habit.Week {
	if node.Habit == nil || node.Habit.Owner != t.policy.OwnerOf(node.Name) {
		return habit.Week{}
	}
	return node.Habit.Week
}

// TakenPerWeek is how often the owner of a node takes it in a week, and how likely a guest
// on it loses its run by that, both in parts of habit.One. A job of the owner's loses
// nothing.
func (v *View) TakenPerWeek(job *Job, node *Node, nowMS int64) (times uint64, lost uint32) {
	alloc := job.Alloc(node.Name)
	if alloc == nil || v.OwnersJob(job, node.Name) {
		return 0, 0
	}
	week := v.week(node)
	if node.Reclaim != nil { // what is not lent is not taken
		nowMS = 0
	}
	if times = week.PerWeek(nowMS); times == 0 {
		return 0, 0
	}
	if _, why := node.allocBound(alloc); why != "" {
		return times, habit.One // it cannot be parked
	}
	return times, node.Habit.Killed
}

// leaveS is about how many seconds it costs a waiting job to leave a node and go on
// elsewhere: to be parked, saved and restored. What can be neither parked nor saved starts
// over, and loses all that it did.
func (t *tables) leaveS(job *Job, node *Node) int64 {
	costs := int64(2*guessedRestoreS + packAfterS)
	if images := job.Images(); len(images) > 0 {
		costs = 2*int64(images[0].restoreS()) + packAfterS
	}
	asked := askedOf(job)
	switch ms, why := node.boundFor(asked); {
	case why == "":
		costs += int64(ms) / 1000
	case job.NotSavable() != "" || job.Spec.Checkpoint.Mode == spec.CheckpointNone:
		costs = mostLeaveS
	}
	return min(costs, mostLeaveS, int64(job.TimeLimitS()))
}

const (
	// packAfterS is for how long a parked guest waits until it is saved.
	packAfterS = 10
	// mostLeaveS bounds for how long a guest must be likely to stay: every job finds an
	// hour.
	mostLeaveS = 3600
)

// boundFor is parkBound of the most that a waiting job may get of a node, of the first
// model that would do.
func (n *Node) boundFor(asked slowKey) (ms uint32, why string) {
	memory := min(asked.memory, n.Inventory.MemoryBytes)
	if asked.gpus == 0 {
		return n.parkBound("", 0, memory)
	}
	for i := range n.Inventory.Devices {
		if d := &n.Inventory.Devices[i]; d.Parent == "" && (asked.model == "" || d.Model == asked.model) {
			return n.parkBound(d.Model, min(asked.gpus, n.wholeGPUs()), memory)
		}
	}
	return 0, ""
}

// soonTaken says why a waiting job is not placed on a node now, as in "node n1 …": its
// owner will probably take it before the job has done more than it costs to leave. "" = it
// is, or it is no guest there.
func (t *tables) soonTaken(job *Job, node *Node, nowMS int64) string {
	week := t.week(node)
	if len(week.Entries) == 0 || node.Inventory == nil || t.OwnersJob(job, node.Name) {
		return ""
	}
	span := t.leaveS(job, node)
	likely := week.Likely(nowMS, span*1000)
	if likely <= habit.One/2 {
		return ""
	}
	return fmt.Sprintf("is not used now: by the habit of its owner (%s) it is taken back within %s with a chance of %d%%, and to leave it would cost the job as much; it is used again when that time is over: wait, or ask for other nodes",
		habit.Words(nowMS), spec.FormatDuration(uint32(span)), likely*100/habit.One)
}

type soonKey struct {
	slowKey
	image uint32 // seconds to restore it; 0 = it has none
	limit uint32
	saved bool
}

// habitRule keeps jobs from nodes that they had probably to leave too soon. Jobs that are
// charged alike, ask for as much and cost as much to leave are judged once.
func (t *tables) habitRule(nowMS int64) nodeRule {
	nowMS = max(nowMS, t.timeMS)
	var nodes []*Node
	t.habits.Scan(func(name string, _ struct{}) bool {
		if node, _ := t.nodes.Get(name); node.Inventory != nil && len(t.week(node).Entries) > 0 {
			nodes = append(nodes, node)
		}
		return true
	})
	if len(nodes) == 0 {
		return nil
	}
	key := func(job *Job) soonKey {
		key := soonKey{slowKey: askedOf(job), limit: min(job.TimeLimitS(), mostLeaveS), saved: job.NotSavable() == "" && job.Spec.Checkpoint.Mode != spec.CheckpointNone}
		if images := job.Images(); len(images) > 0 {
			key.image = images[0].restoreS()
		}
		return key
	}
	return newNodeRule(key, func(job *Job) (out nodesFor) {
		for _, node := range nodes {
			if t.soonTaken(job, node, nowMS) != "" {
				out.closedUntil(node.Name, t.notSoonMS(job, node, nowMS), sched.ClosedByHabit)
			}
		}
		return out
	})
}

// notSoonMS is the first full hour at which a node is not taken too soon for a job; 0 =
// there is none in a week.
func (t *tables) notSoonMS(job *Job, node *Node, nowMS int64) int64 {
	const hourMS = 3600 * 1000
	at := nowMS - nowMS%hourMS
	for range habit.Hours {
		if at += hourMS; t.soonTaken(job, node, at) == "" {
			return at
		}
	}
	return 0
}

// HabitsDueMS is when the next pass is due because what owners probably do soon is another
// thing then; 0 = nothing is expected of any.
func (v *View) HabitsDueMS(nowMS int64) (dueMS int64) {
	v.habits.Scan(func(name string, _ struct{}) bool {
		if node, _ := v.nodes.Get(name); v.week(node).Likely(nowMS-mostLeaveS*1000, 2*mostLeaveS*1000) > 0 {
			dueMS = nowMS + habitsAgainMS
		}
		return dueMS == 0
	})
	return dueMS
}

// habitsAgainMS is how often that is looked at.
const habitsAgainMS = 60_000

// tellSoon says of a waiting job which nodes are probably taken too soon.
func (t *tables) tellSoon(message *pb.Job, job *Job) {
	text, others := "", 0
	t.habits.Scan(func(name string, _ struct{}) bool {
		node, _ := t.nodes.Get(name)
		if !t.inPartitions(job, name) {
			return true
		}
		why := t.soonTaken(job, node, t.timeMS)
		if why == "" {
			return true
		}
		if others++; others <= maxTermsTold {
			text = joinSentences(text, "node "+name+" "+why)
		}
		return true
	})
	if others > maxTermsTold {
		text = joinSentences(text, fmt.Sprintf("%d more nodes likewise", others-maxTermsTold))
	}
	if text != "" {
		addKept(message, job, text)
	}
}

// habitMessage is what is known of a node's owner, as clients see it; nil = nothing is.
func (t *tables) habitMessage(node *Node) *pb.OwnerHabit {
	if node.Habit == nil || node.Habit.Owner != t.policy.OwnerOf(node.Name) {
		return nil
	}
	week := node.Habit.Week
	if node.Reclaim == nil {
		week = week.Lent(t.timeMS)
	}
	out := &pb.OwnerHabit{SinceMs: week.SinceHour * 3600 * 1000, PerWeekMilli: uint32(week.PerWeek(0) * 1000 / habit.One), KilledPermille: node.Habit.Killed * 1000 / habit.One, Guests: node.Habit.Guests}
	for _, e := range week.Entries {
		out.Hours = append(out.Hours, &pb.HabitHour{Hour: uint32(e.Hour), TakenPermille: e.Taken * 1000 / habit.One, Times: uint32(e.Times), AtS: uint32(e.AtS), SpreadS: uint32(e.SpreadS)})
	}
	return out
}

// checkHabit says what is wrong with what is known of a node's owner.
func (t *tables) checkHabit(node *Node) error {
	_, indexed := t.habits.Get(node.Name)
	switch {
	case indexed != (node.Habit != nil):
		return fmt.Errorf("node %s: whether its owner has habits is not what the index says", node.Name)
	case node.Habit != nil && (!node.Habit.Week.Valid() || node.Habit.Killed > habit.One || node.Habit.Guests > killedMemory):
		return fmt.Errorf("node %s: what is known of its owner is none: %+v", node.Name, *node.Habit)
	}
	return nil
}
