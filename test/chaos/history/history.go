// Package history says what happened to a cluster under faults, and whether
// that was allowed.
//
// Contract: Check is pure. It takes what clients asked for (their own journal),
// what the jobs themselves wrote down while they ran, which faults there were,
// and the cluster's last word, and returns every way in which these contradict
// each other or what must always be true. It looks at no clock and no file;
// ReadRecord and Run.Line are the two ends of what a job writes.
//
// Times are microseconds of CLOCK_REALTIME, which all hosts of a test share.
package history

import "fmt"

// History is all that is known about one run of the test.
type History struct {
	Submissions []Submission
	Requests    []Request
	Runs        []Run
	Faults      []Fault
	Jobs        []Job    // the cluster's last word, finished ones too
	Nodes       []Node   // likewise
	Left        []string // what was found on the hosts after everything was stopped
	Licenses    int      // how many there are
	Databases   []Database
	Reclaims    []Reclaim
	Releases    []Release
	Stalls      []Stall // ascending, and none overlaps another
}

// Submission is one submission as its client saw it.
type Submission struct {
	Name      string // unique: one submission, one name
	Kind      string // of job, for messages
	Tasks     int    // of an array; 0 = not an array
	Nodes     int    // that the job needs at once
	Requeue   bool   // may be requeued without being asked
	Fence     bool   // its partition's lease action is fence
	ExitCode  int    // that its script is to end with
	TimeLimit int64  // microseconds; 0 = never reached
	Asked     int64  // when
	Answered  int64  // when its number came; 0 = it never did
	Job       uint32 // its number; 0 = not known
	Refused   bool   // it was refused for good: it must not exist

	After    Wait   // what it waits for of Parent
	Parent   uint32 // number of a job or an array
	Licenses int    // that it needs
	Throttle int    // tasks of the array that may run at once; 0 = all
	Urgent   bool   // others may have to make room for it
	Counts   int    // up to which its script counts, in its memory; 0 = it does not
}

// Verb is what a client asked to be done with a job.
type Verb string

// The requests that end a run, or may.
const (
	Cancel  Verb = "cancel"
	Requeue Verb = "requeue"
	Move    Verb = "migrate"
)

// Request is a request about a job, whether or not it was answered.
type Request struct {
	Verb  Verb
	Job   uint32 // the number of an array means all its tasks
	Asked int64
	// Over is when the client had its answer or gave up: until then it may take
	// effect. 0 = not known.
	Over int64
}

// Run is what one process of a run of a job wrote down: its batch script, or
// one task of a step.
type Run struct {
	Job      uint32   `json:"job"`
	Array    uint32   `json:"array,omitempty"`   // number of the array, 0 = none
	Index    int      `json:"index,omitempty"`   // task index in the array
	Epoch    uint32   `json:"epoch"`             // of the run of the job
	Restarts uint32   `json:"restarts"`          // as its environment says
	Name     string   `json:"name"`              // of the job
	Node     string   `json:"node"`              // where it runs
	NodeList string   `json:"node_list"`         // of the whole job, as its environment says
	Batch    bool     `json:"batch,omitempty"`   // the script itself
	Task     int      `json:"task"`              // of a step
	Devices  []string `json:"devices,omitempty"` // it can open; unique in the cluster
	Names    []string `json:"names,omitempty"`   // under which it sees any
	Start    int64    `json:"start"`

	Nodes []string `json:"-"` // NodeList, one by one
	Last  int64    `json:"-"` // of its last sign of life
	Signs []int64  `json:"-"` // all of them
	Beats int      `json:"-"`
	Term  bool     `json:"-"` // it was asked to end
	Ended bool     `json:"-"` // it wrote its end
	Code  int      `json:"-"` // with which it ended

	// Moved: its processes are those of an earlier run, and resumed from an image.
	// Node is that on which they began then. First and Count are between which
	// numbers it counted; 0 = it did not.
	Moved bool `json:"-"`
	First int  `json:"-"`
	Count int  `json:"-"`
	// Began are the names under which its processes saw their devices first.
	Began []string `json:"-"`
	stray int      // a number that it wrote once more
}

// What names a run in messages.
func (r *Run) What() string {
	which := "script"
	if !r.Batch {
		which = fmt.Sprintf("task %d", r.Task)
	}
	return fmt.Sprintf("job %d (%s), run %d, %s on %s", r.Job, r.Name, r.Epoch, which, r.Node)
}

// Harm is what a fault may do to the allocations of jobs on the nodes it hits.
type Harm int

// A fault that harms nothing must leave every job untouched.
const (
	Harmless Harm = iota
	// Silences cuts a node off for longer than its lease: jobs of partitions
	// that fence may be requeued, and no others.
	Silences
	// Kills ends allocations: their supervisor or process 1 was killed, or their
	// node was switched off.
	Kills
)

// Fault is one fault that was made.
type Fault struct {
	Kind  string
	Nodes []string // compute nodes it hits; empty = none of them, or with Everywhere all
	// Everywhere: it hits all nodes, as a cluster without a leader does.
	Everywhere bool
	Harm       Harm
	From, To   int64
}

// Job is one record of the cluster's list.
type Job struct {
	ID         uint32
	Array      uint32 // 0 = none
	Index      int    // of the task; -1 = not one task
	Waiting    string // task indices still in an array's record
	Name       string
	State      string // Slurm's word
	Reason     string
	Detail     string
	Completing bool
	Requeue    bool
	Epoch      uint32
	Restarts   uint32
	ExitCode   int
	Signal     int
	Nodes      []string
}

// Node is one node at the end.
type Node struct {
	Name           string
	State          string // Slurm's word, flags included
	Devices        int
	BusyDevices    []string
	AllocatedCPUs  int
	JobsThere      []uint32
	LeftOvers      []string
	NotResponding  bool
	DrainedBecause string
}

// Wrong is what is wrong, in one word.
type Wrong string

// What Check looks for.
const (
	Lost         Wrong = "lost"          // an accepted job is not in the list
	Doubled      Wrong = "doubled"       // one submission made two jobs
	NotAccepted  Wrong = "not accepted"  // something is there, or ran, that nobody submitted
	Overlap      Wrong = "overlap"       // a job ran twice at once, or an old run after a newer began
	DeviceTwice  Wrong = "device twice"  // two jobs could open one device at once
	OtherDevices Wrong = "other devices" // a job sees others than it began with, or does not get at them
	PartialGang  Wrong = "partial gang"  // a gang ran on some of its nodes
	BadRequeue   Wrong = "bad requeue"   // a job ran again that may not
	WrongEnd     Wrong = "wrong end"     // the end in the list is not that of the record
	NotEnded     Wrong = "not ended"     // a job has not come to its end
	Touched      Wrong = "touched"       // a run ended early and no fault explains it
	NodeNotFree  Wrong = "node not free" // at the end a node or a device is not free
	LeftBehind   Wrong = "left behind"   // something is left on a host
	UnreadRecord Wrong = "bad record"    // a record of a run cannot be read
	TooEarly     Wrong = "too early"     // a job ran before that for which it was to wait
	LimitPassed  Wrong = "limit passed"  // more ran together than licenses or a throttle let
	Gap          Wrong = "gap"           // a job continued, or ended, beyond what it had done
	Repeated     Wrong = "repeated"      // a job did something twice that may not

	HistoryLost    Wrong = "lost in history"  // a controller's history lacks a run that is over
	HistoryDoubled Wrong = "twice in history" // or has it twice
	HistoryWrong   Wrong = "wrong in history" // or with another end, or has one that is none

	PromiseBroken Wrong = "promise broken" // an owner did not have the hardware in time, and nothing that was measured explains it
)

// Violation is one thing that must not be.
type Violation struct {
	Wrong Wrong
	Job   uint32 // 0 = about none
	Text  string
}

func (v Violation) String() string { return string(v.Wrong) + ": " + v.Text }
