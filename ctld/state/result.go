package state

import "github.com/gleaner-hpc/gleaner/ctld/state/ranges"

// Result is what applying a command did. It is the same on every peer.
type Result struct {
	Kind   Kind
	Index  uint64 // of the log entry
	TimeMS int64  // log time of the command: max(last, envelope's)

	RequestID RequestID // the client's; zero when it sent none

	// Refused is why the command as a whole had no effect; nil when it took
	// effect (perhaps for some of its jobs only: see Jobs).
	Refused *Refusal
	// Repeated: the request id had been applied before; JobID and Jobs are
	// those of the first time, and nothing changed now.
	Repeated bool

	JobID  uint32        // of a SubmitJob
	Jobs   []JobResult   // of commands on Targets, in the order asked for
	Starts []StartResult // of PlaceJobs, in the order of the plan
	// Preemptions is of PreemptJobs, in the order of the plan.
	Preemptions []PreemptResult
	// Continued is of ContinueJobs, in the order of the plan.
	Continued []ContinueResult
	// Nodes are those that ReclaimNodes and SetLending named, and those that were reclaimed
	// until ReleaseNodes and EndReclaims, ascending by name.
	Nodes []string
	// Reservation is the one that was created, changed or deleted.
	Reservation string

	// What changed, for followers: each name once, ascending.
	ChangedJobs   []uint32
	ChangedNodes  []string
	PurgedJobs    []uint32
	PolicyChanged bool
	// AccountsChanged: accounts, users, associations or QOS.
	AccountsChanged bool
	// CertificatesRevoked: a certificate that was good when a connection began
	// may be revoked now.
	CertificatesRevoked bool
}

// JobResult is what a command did to one job record.
type JobResult struct {
	Job     uint32         `cbor:"1,keyasint"`           // own number; the number asked for when there is none
	Array   uint32         `cbor:"2,keyasint,omitempty"` // 0 = no array
	HasTask bool           `cbor:"3,keyasint,omitempty"`
	Task    uint32         `cbor:"4,keyasint,omitempty"`
	Tasks   []ranges.Range `cbor:"5,keyasint,omitempty"` // when the record holds several
	Code    Code           `cbor:"6,keyasint,omitempty"`
	Message string         `cbor:"7,keyasint,omitempty"` // Slurm's sentence; "" = done
	Image   uint32         `cbor:"8,keyasint,omitempty"` // of SaveJobs: the number of the image asked for
}

// StartResult is the outcome of one start of a plan.
type StartResult struct {
	Asked   uint32 // the number in the plan: a job, or an array's record
	Job     uint32 // the number that runs; 0 = dropped
	Epoch   uint32
	Dropped string // why it no longer fitted; "" = started
}
