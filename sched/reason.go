package sched

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// ReasonCode is why a job waits, in Slurm's words (see String).
type ReasonCode uint8

// Reasons. Priority is by far the commonest on a full cluster.
const (
	ReasonNone ReasonCode = iota
	ReasonPriority
	ReasonResources
	ReasonJobHeldUser
	ReasonJobHeldAdmin
	ReasonJobLaunchFailure
	ReasonPartitionDown
	ReasonPartitionTimeLimit
	ReasonPartitionConfig // asks for more than the partition has
	ReasonReqNodeNotAvail // would fit if nodes that are drained or down came back
	ReasonJobArrayTaskLimit
	ReasonBadConstraints    // no node has the features, the model, or the named host
	ReasonAccountNotAllowed // the partition does not run jobs of this user
	ReasonJobHoldMaxRequeue // failed and was requeued too often
	ReasonBeginTime
	ReasonDependency
	ReasonDependencyNeverSatisfied
	ReasonDeadline // cannot end before its deadline any more
	ReasonLimit    // would pass a limit, which has its own word: see LimitReached
	ReasonLicenses
	ReasonImage // it was saved, and no node can go on with it
)

// reasonWords has, for each code, Slurm's word and how hopeful it is: of the
// reasons in several partitions the job shows the most hopeful.
var reasonWords = [...]struct {
	word string
	hope int
}{
	ReasonNone:               {"None", 0},
	ReasonPriority:           {"Priority", 7},
	ReasonResources:          {"Resources", 8},
	ReasonJobHeldUser:        {"JobHeldUser", 0},
	ReasonJobHeldAdmin:       {"JobHeldAdmin", 0},
	ReasonJobLaunchFailure:   {"JobLaunchFailure", 0},
	ReasonPartitionDown:      {"PartitionDown", 5},
	ReasonPartitionTimeLimit: {"PartitionTimeLimit", 4},
	ReasonPartitionConfig:    {"PartitionConfig", 3},
	ReasonReqNodeNotAvail:    {"ReqNodeNotAvail", 6},
	ReasonJobArrayTaskLimit:  {"JobArrayTaskLimit", 0},
	ReasonBadConstraints:     {"BadConstraints", 2},
	ReasonAccountNotAllowed:  {"AccountNotAllowed", 1},
	ReasonJobHoldMaxRequeue:  {"JobHoldMaxRequeue", 0},
	ReasonBeginTime:          {"BeginTime", 0},
	ReasonDependency:         {"Dependency", 0},
	ReasonDeadline:           {"DeadLine", 0},
	ReasonLimit:              {"AccountingPolicy", 6},
	ReasonLicenses:           {"Licenses", 6},
	ReasonImage:              {"ImageNotRestorable", 0},

	ReasonDependencyNeverSatisfied: {"DependencyNeverSatisfied", 0},
}

// String is Slurm's word for the reason, as in squeue(1), "JOB REASON CODES".
func (c ReasonCode) String() string {
	if int(c) < len(reasonWords) {
		return reasonWords[c].word
	}
	return "ReasonCode(" + strconv.Itoa(int(c)) + ")"
}

func (c ReasonCode) hope() int { return reasonWords[c].hope }

// reason is the reason of a job that is held.
func (h Hold) reason() ReasonCode {
	switch h {
	case HeldByUser:
		return ReasonJobHeldUser
	case HeldByAdmin:
		return ReasonJobHeldAdmin
	case LaunchFailed:
		return ReasonJobLaunchFailure
	case HeldMaxRequeue:
		return ReasonJobHoldMaxRequeue
	}
	return ReasonNone
}

// Words are the hold as squeue shows it, and in a sentence; "" for none.
func (h Hold) Words() (display, sentence string) {
	if h == NotHeld {
		return "", ""
	}
	r := Reason{Code: h.reason(), Partition: -1}
	return r.Display(Snapshot{}), r.Sentence(Snapshot{})
}

// Display is the reason as squeue shows it for %r and, in parentheses, for %R.
// s is the snapshot that the plan was made from.
func (r Reason) Display(s Snapshot) string {
	switch {
	case r.Code == ReasonJobLaunchFailure:
		return "launch failed requeued held"
	case r.Code == ReasonReqNodeNotAvail && len(r.unavailable()) > 0:
		return "ReqNodeNotAvail, UnavailableNodes:" + r.nodeNames(s)
	case r.Code == ReasonLimit:
		return r.Lack.Limit.Reason(s)
	}
	return r.Code.String()
}

func (r Reason) unavailable() []place.NodeIndex {
	if r.Lack == nil {
		return nil
	}
	return r.Lack.Unavailable
}

func (r Reason) short() place.Shortage {
	if r.Lack == nil {
		return place.Shortage{}
	}
	return r.Lack.Short
}

func (r Reason) nodeNames(s Snapshot) string {
	names := make([]string, len(r.unavailable()))
	for i, index := range r.unavailable() {
		names[i] = s.Nodes[index].Name
	}
	return strings.Join(names, ",")
}

// Sentence is the reason with its figures, without a full stop. s is the
// snapshot that the plan was made from.
func (r Reason) Sentence(s Snapshot) string {
	partition := "its partitions"
	if r.Partition >= 0 {
		partition = "partition " + s.Partitions[r.Partition].Name
	}
	switch r.Code {
	case ReasonPriority:
		return fmt.Sprintf("waits behind job %d, which comes first and waits for resources", r.Blocker)
	case ReasonResources:
		if r.Lack != nil && len(r.Lack.Leaving) > 0 {
			return leavingSentence(r.Lack.Leaving)
		}
		return shortSentence(r.short(), "free")
	case ReasonPartitionConfig, ReasonBadConstraints:
		return shortSentence(r.short(), "in "+partition)
	case ReasonJobHeldUser:
		return "held by its user until it is released"
	case ReasonJobHeldAdmin:
		return "held by an administrator, who alone can release it"
	case ReasonJobLaunchFailure:
		return "could not be started, and is held: mend the cause, then release it with gcontrol release"
	case ReasonJobHoldMaxRequeue:
		return "failed and was requeued as often as it may be, and is held: mend the cause, then release it with gcontrol release"
	case ReasonBeginTime:
		return "may not begin before the time that it asked for"
	case ReasonDependency:
		return "waits for other jobs"
	case ReasonDependencyNeverSatisfied:
		return "waits for what can never be: cancel it, or change its dependency with gcontrol update"
	case ReasonDeadline:
		return "cannot end before its deadline any more"
	case ReasonImage:
		return "goes on from an image of it, and no node is known that can restore that"
	case ReasonPartitionDown:
		return partition + " is down"
	case ReasonPartitionTimeLimit:
		return fmt.Sprintf("asks for %s, but %s allows at most %s", minutes(r.short().Need), partition, minutes(r.short().Have))
	case ReasonReqNodeNotAvail:
		return "would fit if these were available and healthy: " + r.nodeNames(s)
	case ReasonJobArrayTaskLimit:
		return "as many tasks of the array run as its limit allows"
	case ReasonAccountNotAllowed:
		return partition + " does not run jobs of root"
	case ReasonLimit, ReasonLicenses:
		return r.Lack.Limit.Sentence(s)
	}
	return ""
}
