package state

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

// Usage is what has been used, decayed to AtMS with the policy's half-life. It
// is in units of 2^-10 seconds (fairshare.Used), so that years of the largest
// cluster fit.
type Usage struct {
	AtMS int64 `cbor:"1,keyasint,omitempty"`
	// Raw is billing-weighted seconds: see sched.Association.
	Raw int64 `cbor:"2,keyasint,omitempty"`
	// TRESSeconds has those of each TRES, memory by the MiB, and WallSeconds
	// those of the jobs themselves, as GrpTRESMins and GrpWall count them.
	TRESSeconds []TRESAmount `cbor:"3,keyasint,omitempty"`
	WallSeconds int64        `cbor:"4,keyasint,omitempty"`
}
