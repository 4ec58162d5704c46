package bounds

// NoLimit is the amount that bounds nothing.
const NoLimit = 1<<64 - 1

// Limits. Every list a command carries and every table that only grows has
// one, because a log entry is input like any other.
const (
	// MaxBodyBytes bounds a command's body: a script, an environment and room
	// for the rest, below what the transport carries in one message.
	MaxBodyBytes = 8 << 20
	// MaxTargets bounds the jobs one cancel, hold, release or requeue names,
	// so that no single entry holds up the log; callers send several.
	MaxTargets = 10_000
	// MaxPastMeant bounds the members of an array that are over and are still
	// meant, and answered for, when the array as a whole is named.
	MaxPastMeant = 100
	// MaxStarts bounds the starts in one plan, for the same reason.
	MaxStarts = 10_000
	// MaxReports bounds the allocation reports in one entry.
	MaxReports = 10_000
	// MaxPurge bounds the jobs one entry forgets.
	MaxPurge = 10_000
	// MaxLate bounds the jobs that one entry ends for their deadline.
	MaxLate = 10_000
	// MaxNodesPerCommand bounds the nodes one entry names; it is also the most
	// names a host list may have.
	MaxNodesPerCommand = 65_536
	// MaxCPUsPerNode and MaxDevicesPerNode bound what a node may claim to
	// have: several times the largest machine sold.
	MaxCPUsPerNode    = 8_192
	MaxDevicesPerNode = 1_024
	// MaxLeftOvers bounds the left-overs remembered per node; the rest is in
	// the node's own log.
	MaxLeftOvers = 64
	// MaxFormerBoots is how many boots of a machine are remembered, to know what
	// was sent before the last one.
	MaxFormerBoots = 8
	// MaxPartitions bounds the policy; a snapshot for the scheduler lists the
	// nodes of each.
	MaxPartitions = 1_024
	// MaxLicenses and MaxSwitches bound the policy too: each waiting job is
	// held against them.
	MaxLicenses = 1_024
	MaxSwitches = 4_096
	// MaxOwners bounds the accounts that own nodes.
	MaxOwners = 4_096
	// MaxNameBytes bounds names of nodes, partitions, users and the like.
	MaxNameBytes = 256
	// MaxTextBytes bounds free text: comments, reasons, paths.
	MaxTextBytes = 4_096
	// MaxListEntries bounds the arguments, groups, features and ranges of one
	// job.
	MaxListEntries = 65_536
	// MaxGroupsPerArray bounds the records of one array that hold several
	// tasks (after holding or cancelling ranges of it), because finding a task
	// looks through them.
	MaxGroupsPerArray = 1_024
	// MaxDependencySearch bounds the search for a loop of jobs that wait for
	// one another.
	MaxDependencySearch = 10_000
	// MaxRemembered and RememberMS bound the request ids that are remembered,
	// by count and by age in log time: a client that has not reached a
	// controller for an hour gave up long ago.
	MaxRemembered = 200_000
	RememberMS    = 60 * 60 * 1000
	// KeptRemembered are remembered however old they are, so that a clock that
	// jumps ahead does not let a retry that is under way take effect twice.
	KeptRemembered = 4_096
	// MaxRememberedResults bounds the per-job results kept with them.
	MaxRememberedResults = 1_000_000
	// MaxHistoryBytes bounds the runs that wait for the databases of history, which
	// are kept in memory and in each snapshot: some 500,000 runs.
	MaxHistoryBytes = 256 << 20
	// MaxMailBytes, MaxUserMails and MailKeptMS bound the mails that wait to be handed
	// over: who had a hundred mails waits for none, and a mail about a job that ended
	// days ago helps nobody.
	MaxMailBytes = 16 << 20
	MaxUserMails = 100
	MailKeptMS   = 3 * 24 * 3600 * 1000
	// MaxSteps bounds the steps that one allocation tells of, and MaxStepsBytes those of
	// a run, on all its nodes: 256 KiB are some 5,000.
	MaxSteps      = 1_000
	MaxStepsBytes = 256 << 10
	// MaxJobID is the last job number. Numbers are not used again: a late
	// report of a forgotten job must not meet a new one.
	MaxJobID = 1<<32 - 2
	// MaxAccounts, MaxAssociations, MaxUsers and MaxQOS bound accounting: the
	// scheduler's snapshot lists them all.
	MaxAccounts     = 20_000
	MaxAssociations = 200_000
	MaxUsers        = 100_000
	MaxQOS          = 1_000
	// MaxAccountDepth bounds how deep accounts lie below the root: each job
	// counts at every one above it.
	MaxAccountDepth = 32
	// MaxAccountChanges bounds one ChangeAccounts, and MaxCoordinators those of
	// one account.
	MaxAccountChanges = 10_000
	MaxCoordinators   = 1_000
	// MaxShares, MaxLimitCount and MaxLimitAmount are what a share, a number
	// of jobs or minutes, and an amount of a TRES may be, so that products and
	// sums of them stay within 64 bits.
	MaxShares      = 1_000_000_000
	MaxLimitCount  = 1 << 31
	MaxLimitAmount = 1 << 60
)
