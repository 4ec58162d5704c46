package sched

import "strconv"

// ReasonCode is why a job waits, in Slurm's words (see String). Package explain
// has the sentences.
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
	ReasonDeadline // can no longer end before its deadline
	ReasonLimit    // would pass a limit, which has its own word: see LimitReached
	ReasonLicenses
	ReasonImage   // it was saved, and no node can resume it
	ReasonNetwork // it shares the node's network, and the partition does not let it
	// ReasonImageNetwork is that of a job that resumes from an image, which keeps the
	// network that it had.
	ReasonImageNetwork
	ReasonReservation        // its reservation has not begun, or is too short
	ReasonReservationDeleted // there is no reservation that it may use
	ReasonClosed             // its nodes are closed to it now, and will not be: see Shape.Closed
	ReasonImagePull          // its container image comes to nodes first
)

// reasonWords has, for each code, Slurm's word and how hopeful it is: of the
// reasons in several partitions the job shows the most hopeful.
var reasonWords = [...]struct {
	word string
	rank int
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
	ReasonNetwork:            {"PartitionConfig", 3},
	ReasonImageNetwork:       {"PartitionConfig", 3},
	ReasonReservation:        {"Reservation", 0},
	ReasonReservationDeleted: {"ReservationDeleted", 0},
	ReasonClosed:             {"ReqNodeNotAvail", 6},
	ReasonImagePull:          {"ImagePull", 0},

	ReasonDependencyNeverSatisfied: {"DependencyNeverSatisfied", 0},
}

// String is Slurm's word for the reason, as in squeue(1), "JOB REASON CODES".
func (c ReasonCode) String() string {
	if int(c) < len(reasonWords) {
		return reasonWords[c].word
	}
	return "ReasonCode(" + strconv.Itoa(int(c)) + ")"
}

func (c ReasonCode) rank() int { return reasonWords[c].rank }

// Reason is the reason of a job that is held.
func (h Hold) Reason() ReasonCode {
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

// NamesOthers reports whether the sentence of the reason names other jobs, or
// how much others use.
func (r Reason) NamesOthers() bool {
	if r.Blocker != 0 {
		return true
	}
	return r.Lack != nil && (len(r.Lack.Leaving) > 0 || r.Lack.Limit != nil && (len(r.Lack.Limit.Holders) > 0 || r.Lack.Limit.Used > 0))
}
