package state

// Account is a node in the tree of accounts (sacctmgr(1), "SPECIFICATIONS FOR
// ACCOUNTS"). The root account is always there and called "root". A stored
// record is never changed, and so those below.
type Account struct {
	Name         string   `cbor:"1,keyasint"`
	Parent       string   `cbor:"2,keyasint,omitempty"` // "" for the root only
	Description  string   `cbor:"3,keyasint,omitempty"`
	Organization string   `cbor:"4,keyasint,omitempty"`
	Coordinators []string `cbor:"5,keyasint,omitempty"` // user names, ascending
}

// RootAccount is the name of the account above all.
const RootAccount = "root"

// User is a person as accounting knows them.
type User struct {
	Name           string     `cbor:"1,keyasint"`
	DefaultAccount string     `cbor:"2,keyasint,omitempty"`
	Level          AdminLevel `cbor:"3,keyasint,omitempty"`
}

// AdminLevel is what a user may do beside what everybody may (sacctmgr(1)).
type AdminLevel uint8

// Admin levels. Numbers are persisted: append only.
const (
	NoAdmin       AdminLevel = 0
	Operator      AdminLevel = 1 // sees and changes accounts, users and QOS
	Administrator AdminLevel = 2
)

// Association is what jobs are charged to: an account (User is ""), or a user
// in an account, in one partition or in all. Numbers are given once.
type Association struct {
	ID          uint32   `cbor:"1,keyasint"` // the root's is 1
	Account     string   `cbor:"2,keyasint"`
	User        string   `cbor:"3,keyasint,omitempty"`
	Partition   string   `cbor:"4,keyasint,omitempty"`
	Shares      uint32   `cbor:"5,keyasint,omitempty"`
	ShareParent bool     `cbor:"6,keyasint,omitempty"` // fairshare=parent
	Priority    uint32   `cbor:"7,keyasint,omitempty"`
	Limits      Limits   `cbor:"8,keyasint,omitzero"`
	QOS         []string `cbor:"9,keyasint,omitempty"` // may be used; none = the parent's
	DefaultQOS  string   `cbor:"10,keyasint,omitempty"`
	Usage       Usage    `cbor:"11,keyasint,omitzero"` // of its own jobs that are over; without those below
}

// QOS is a quality of service (sacctmgr(1), "SPECIFICATIONS FOR QOS").
type QOS struct {
	Name           string      `cbor:"1,keyasint"`
	Description    string      `cbor:"2,keyasint,omitempty"`
	Priority       uint32      `cbor:"3,keyasint,omitempty"`
	Preempts       []string    `cbor:"4,keyasint,omitempty"` // ascending
	PreemptMode    PreemptMode `cbor:"5,keyasint,omitempty"`
	GraceTimeS     uint32      `cbor:"6,keyasint,omitempty"`
	ExemptTimeS    *uint32     `cbor:"7,keyasint,omitempty"` // nil = the cluster's
	UsageFactorPPM *uint32     `cbor:"8,keyasint,omitempty"` // nil = 1,000,000
	Limits         Limits      `cbor:"9,keyasint,omitzero"`
	// Flags (sacctmgr(1), "Flags").
	DenyOnLimit       bool  `cbor:"10,keyasint,omitempty"`
	OverridePartition bool  `cbor:"11,keyasint,omitempty"` // OverPartQOS
	NoDecay           bool  `cbor:"12,keyasint,omitempty"`
	Usage             Usage `cbor:"13,keyasint,omitzero"`
}

// Limits bound what an association or a QOS may have. nil is no limit; 0 is a
// limit. In brackets: the names of sacctmgr(1), for associations and for QOS.
type Limits struct {
	GroupJobs            *uint32      `cbor:"1,keyasint,omitempty"`  // GrpJobs
	GroupSubmit          *uint32      `cbor:"2,keyasint,omitempty"`  // GrpSubmitJobs
	GroupTRES            []TRESAmount `cbor:"3,keyasint,omitempty"`  // GrpTRES
	GroupTRESMinutes     []TRESAmount `cbor:"4,keyasint,omitempty"`  // GrpTRESMins
	GroupTRESRunMinutes  []TRESAmount `cbor:"5,keyasint,omitempty"`  // GrpTRESRunMins
	GroupWallMinutes     *uint32      `cbor:"6,keyasint,omitempty"`  // GrpWall
	MaxJobs              *uint32      `cbor:"7,keyasint,omitempty"`  // MaxJobs, MaxJobsPerUser
	MaxSubmit            *uint32      `cbor:"8,keyasint,omitempty"`  // MaxSubmitJobs, MaxSubmitJobsPerUser
	MaxTRESPerJob        []TRESAmount `cbor:"9,keyasint,omitempty"`  // MaxTRES, MaxTRESPerJob
	MaxTRESPerNode       []TRESAmount `cbor:"10,keyasint,omitempty"` // MaxTRESPerNode
	MaxTRESMinutesPerJob []TRESAmount `cbor:"11,keyasint,omitempty"` // MaxTRESMins
	MaxWallMinutes       *uint32      `cbor:"12,keyasint,omitempty"` // MaxWall
	MaxTRESPerUser       []TRESAmount `cbor:"13,keyasint,omitempty"` // QOS only, and so the rest
	MaxTRESPerAccount    []TRESAmount `cbor:"14,keyasint,omitempty"`
	MaxJobsPerAccount    *uint32      `cbor:"15,keyasint,omitempty"`
	MaxSubmitPerAccount  *uint32      `cbor:"16,keyasint,omitempty"`
	MinTRESPerJob        []TRESAmount `cbor:"17,keyasint,omitempty"`
}

// TRESAmount is an amount of one TRES: see sched.Amounts. Memory is in bytes.
type TRESAmount struct {
	Name  string `cbor:"1,keyasint"`
	Count uint64 `cbor:"2,keyasint"`
}

// Usage is what has been used, decayed to AtMS with the policy's half-life. All
// of it is in units of 2^-10 seconds (fairshare.Used), so that years of the
// largest cluster fit.
type Usage struct {
	AtMS int64 `cbor:"1,keyasint,omitempty"`
	// Raw is billing-weighted seconds: see sched.Association.
	Raw int64 `cbor:"2,keyasint,omitempty"`
	// TRESSeconds are those of each TRES, memory by the MiB, and WallSeconds
	// those of the jobs themselves, as GrpTRESMins and GrpWall count them.
	TRESSeconds []TRESAmount `cbor:"3,keyasint,omitempty"`
	WallSeconds int64        `cbor:"4,keyasint,omitempty"`
}
