package sched

// Association is an account, or a user in an account (in one partition, or in
// all): what jobs are charged to, with its share and its limits (sacctmgr(1)).
type Association struct {
	Parent  int    // index of the account above; -1 for the root
	Account string // the account's name, also a user's
	User    string // "" = it is an account
	// Partition narrows a user's association to one partition; "" = all.
	Partition string
	// Shares is the claim among siblings. ShareParent: it has none of its own
	// and competes as its parent does (fairshare=parent).
	Shares      uint32
	ShareParent bool
	// UsageRaw is what it and all below it have used, decayed to NowMS, in
	// billing-weighted seconds times 2^10; running jobs are counted to NowMS.
	UsageRaw int64
	Priority uint32 // of its own, for the association factor
	Limits   Limits
	// Used is what the limits of groups count: past usage, which decays only as
	// the policy says. The pass adds running jobs by itself.
	Used Used
}

// QOS is a quality of service (sacctmgr(1), "SPECIFICATIONS FOR QOS").
type QOS struct {
	Name     string
	Priority uint32
	// Preempts are the QOS whose jobs those of this one may preempt, by index.
	Preempts           []int
	Preempt            PreemptMode // 0 = the cluster's
	GraceTimeS         uint32
	PreemptExemptTimeS int64 // -1 = the cluster's
	// UsageFactorPPM is what usage counts under this QOS, in millionths.
	UsageFactorPPM uint32
	Limits         Limits
	Used           Used
	// OverridesPartition: its limits hold in place of the partition's QOS
	// (OverPartQOS).
	OverridesPartition bool
}

// Limits bound what an association or a QOS may have. A nil Amounts, an entry
// of it that is -1, and NoLimit are no limit.
type Limits struct {
	GroupJobs            int32 // running, all of it and below together
	GroupSubmit          int32 // waiting and running
	GroupTRES            Amounts
	GroupTRESMinutes     Amounts
	GroupTRESRunMinutes  Amounts
	GroupWallMinutes     int64
	MaxJobs              int32 // running: a user's in this account; of a QOS, of each user
	MaxSubmit            int32
	MaxTRESPerJob        Amounts
	MaxTRESPerNode       Amounts
	MaxTRESMinutesPerJob Amounts
	MaxWallMinutes       int64
	MaxTRESPerUser       Amounts // QOS only, and so the following
	MaxTRESPerAccount    Amounts
	MaxJobsPerAccount    int32
	MaxSubmitPerAccount  int32
	MinTRESPerJob        Amounts
	DenyOnLimit          bool // refuse at submission what can never be met
}

// NoLimit is the value where there is no limit.
const NoLimit = -1

// Used is what has been used so far, of what is limited over time. Here, and in
// the limits over minutes, memory counts by the MiB: bytes would not fit.
type Used struct {
	TRESMinutes Amounts
	WallMinutes int64
}

// License is a number of floating licenses, some of which may be in use outside
// of the cluster.
type License struct {
	Name  string
	Total uint32
}
