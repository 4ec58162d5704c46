// Package explain puts the scheduler's reasons into words: Slurm's for squeue,
// and a sentence with figures that says what to do.
//
// Contract: it decides nothing. A reason and the snapshot that the plan was
// made from give the same words on every machine, and a sentence names only
// what is in these two.
package explain

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// Hold is a hold as squeue shows it, and in a sentence; "" for none.
func Hold(h sched.Hold) (display, sentence string) {
	if h == sched.NotHeld {
		return "", ""
	}
	r := sched.Reason{Code: h.Reason(), Partition: -1}
	return Display(r, sched.Snapshot{}), Sentence(r, sched.Snapshot{})
}

// Display is the reason as squeue shows it for %r and, in parentheses, for %R.
// s is the snapshot that the plan was made from.
func Display(r sched.Reason, s sched.Snapshot) string {
	switch {
	case r.Code == sched.ReasonJobLaunchFailure:
		return "launch failed requeued held"
	case r.Code == sched.ReasonReqNodeNotAvail && len(unavailable(r)) > 0:
		return "ReqNodeNotAvail, UnavailableNodes:" + unavailableNames(r, s)
	case r.Code == sched.ReasonLimit:
		return LimitReason(r.Lack.Limit, s)
	}
	return r.Code.String()
}

func unavailable(r sched.Reason) []place.NodeIndex {
	if r.Lack == nil {
		return nil
	}
	return r.Lack.Unavailable
}

func short(r sched.Reason) place.Shortage {
	if r.Lack == nil {
		return place.Shortage{}
	}
	return r.Lack.Short
}

func unavailableNames(r sched.Reason, s sched.Snapshot) string {
	names := make([]string, len(unavailable(r)))
	for i, index := range unavailable(r) {
		names[i] = s.Nodes[index].Name
	}
	return strings.Join(names, ",")
}

// Sentence is the reason with its figures, without a full stop. s is the
// snapshot that the plan was made from.
func Sentence(r sched.Reason, s sched.Snapshot) string {
	partition := "its partitions"
	if r.Partition >= 0 {
		partition = "partition " + s.Partitions[r.Partition].Name
	}
	switch r.Code {
	case sched.ReasonPriority:
		return fmt.Sprintf("waits behind job %d, which comes first and waits for resources", r.Blocker)
	case sched.ReasonResources:
		if r.Lack != nil && len(r.Lack.Leaving) > 0 {
			return leavingSentence(r.Lack.Leaving)
		}
		return shortSentence(short(r), "free")
	case sched.ReasonPartitionConfig, sched.ReasonBadConstraints:
		return shortSentence(short(r), "in "+partition)
	case sched.ReasonJobHeldUser:
		return "held by its user until it is released"
	case sched.ReasonJobHeldAdmin:
		return "held by an administrator, who alone can release it"
	case sched.ReasonJobLaunchFailure:
		return "could not be started, and is held: mend the cause, then release it with gcontrol release"
	case sched.ReasonJobHoldMaxRequeue:
		return "failed and was requeued as often as it may be, and is held: mend the cause, then release it with gcontrol release"
	case sched.ReasonBeginTime:
		return "may not begin before the time that it asked for"
	case sched.ReasonDependency:
		return "waits for other jobs"
	case sched.ReasonDependencyNeverSatisfied:
		return "waits for what can never be: cancel it, or change its dependency with gcontrol update"
	case sched.ReasonReservation:
		return "waits for its reservation"
	case sched.ReasonReservationDeleted:
		return "its reservation is gone: gcontrol update JobId=ID ReservationName= lets it start without one"
	case sched.ReasonClosed:
		return "waits until it may have its nodes"
	case sched.ReasonDeadline:
		return "cannot end before its deadline any more"
	case sched.ReasonImage:
		return "resumes from an image of it, and no node is known that can restore that"
	case sched.ReasonImagePull:
		return "its container image comes to nodes before it has them"
	case sched.ReasonPartitionDown:
		return partition + " is down"
	case sched.ReasonPartitionTimeLimit:
		return fmt.Sprintf("asks for %s, but %s allows at most %s", minutes(short(r).Need), partition, minutes(short(r).Have))
	case sched.ReasonReqNodeNotAvail:
		return "would fit if these were available and healthy: " + unavailableNames(r, s)
	case sched.ReasonJobArrayTaskLimit:
		return "as many tasks of the array run as its limit allows"
	case sched.ReasonAccountNotAllowed:
		return partition + " does not run jobs of root"
	case sched.ReasonNetwork:
		return "shares the node's network, and " + partition + " only runs jobs with one of their own: gcontrol update JobId=ID Network=private lets it start there"
	case sched.ReasonImageNetwork:
		return "resumes from an image of it, with the node's network as before, and " + partition + " only runs jobs with one of their own: it waits until that changes; gcontrol requeue ID lets it start over from its script, and gcontrol update JobId=ID Network=private after that lets it start there"
	case sched.ReasonLimit, sched.ReasonLicenses:
		return LimitSentence(r.Lack.Limit, s)
	}
	return ""
}
