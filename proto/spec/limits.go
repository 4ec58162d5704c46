package spec

// Unlimited is the number of seconds that means no limit.
const Unlimited uint32 = 1<<32 - 1

// Limits on what one request may hold. A controller keeps what it accepts in
// its log and its memory, so each bound is what an honest user never meets and
// what a hostile one cannot hurt with.
const (
	// MaxScriptBytes bounds a batch script: Slurm's default for
	// max_script_size, room for a script with a small archive in it.
	MaxScriptBytes = 4 << 20
	// MaxEnvironmentBytes bounds the sum of NAME=VALUE and their ends. Linux
	// passes at most a quarter of the stack limit to execve, 2 MiB by default,
	// for environment and arguments together.
	MaxEnvironmentBytes = 1 << 20
	// MaxEnvironmentEntries bounds the variables, since each has a cost beyond
	// its bytes.
	MaxEnvironmentEntries = 16384
	// MaxArguments bounds the script's arguments in number.
	MaxArguments = 16384
	// MaxArgumentBytes bounds their sum: what execve takes besides the
	// environment.
	MaxArgumentBytes = 512 << 10
	// MaxNameBytes bounds every name a user chooses (job, account, comment,
	// feature): enough for a sentence, little enough to keep 100,000 of them.
	MaxNameBytes = 1024
	// MaxHostNameBytes is the longest host name, RFC 1123.
	MaxHostNameBytes = 253
	// MaxHostListNames bounds what a host list expands to: the largest
	// machines have some 10,000 nodes.
	MaxHostListNames = 65536
	// MaxHostListBytes bounds the text of a host list before it is read.
	MaxHostListBytes = 1 << 20
	// MaxArrayIndex is the highest task index: Slurm's MaxArraySize may be
	// 4,000,001 at most.
	MaxArrayIndex = 4000000
	// MaxArrayRanges bounds the ranges of one array, since a controller walks
	// them each time a task starts.
	MaxArrayRanges = 4096
	// MaxJobTargets bounds the jobs that one command names.
	MaxJobTargets = 65536
	// MaxDependencies bounds the jobs that one job waits for: each of them is
	// looked at when one of them ends. An array counts once.
	MaxDependencies = 1024
	// MaxGPUs bounds a count of GPUs, so that sums of them stay far from
	// overflow.
	MaxGPUs = 1 << 20
	// MaxPathBytes is PATH_MAX of Linux.
	MaxPathBytes = 4096
	// MaxMessageBytes bounds one request or answer: a script, its environment and
	// arguments, and room for the rest.
	MaxMessageBytes = 16 << 20
	// MaxPieceBytes bounds one message that a user's program sends. gRPC keeps what has
	// come of a message before anybody can refuse it, for each call that is open: so
	// messages are small, and a larger request comes in pieces, whose sum is said first.
	MaxPieceBytes = 160 << 10
	// PieceBytes is from what size on a request is sent in pieces, and how much of it is
	// in each. The rest of a message is for what is beside the data.
	PieceBytes = 128 << 10
	// MaxUserBytes bounds what the jobs of one user keep in scripts, environments
	// and arguments, those included that are over and remembered: ten thousand
	// jobs with a script and an environment of 25 KB each, none like another.
	// Equal ones count once.
	MaxUserBytes = 512 << 20
)
