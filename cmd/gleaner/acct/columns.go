package acct

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// row is a line with what its words depend on.
type row struct {
	past.Row
	view *show.View
	unit byte // of --units; 0 = the largest that fits
	// window is that of --truncate; nil = times are as they were.
	window *window
}

// column is a column of gacct. Names and widths are those of sacct(1).
type column struct {
	name  string
	width int // less than 0: the blanks come after the value
	value func(*row) string
	job   bool // only lines of jobs have it
	step  bool // only lines of steps have it
	// of names what of a run the value is made of, beside what every line needs and the
	// steps; nil = it may be anything.
	of []string
}

// The columns, in the order of sacct --helpformat. What no job here ever has is empty, as
// it is in Slurm where it is not recorded.
var columns = withEmpty([]column{
	{name: "Account", width: 10, value: func(r *row) string { return r.Job().GetSpec().GetAccount() }, of: []string{"job.spec.account"}},
	{name: "AllocCPUS", width: 10, value: func(r *row) string { return show.Digits(r.CPUs()) }, of: []string{"job.cpus"}},
	{name: "AllocNodes", width: 10, value: (*row).allocatedNodes, of: []string{"job.nodes"}},
	{name: "AllocTRES", width: 10, value: (*row).allocated},
	{name: "AveCPU", width: 10, step: true, value: func(r *row) string { return show.Clock(uint32(r.averageCPU() / 1e9)) }},
	{name: "AveDiskRead", width: 14, step: true, value: func(r *row) string { return r.disk(func(s *past.Step) uint64 { return s.ReadBytes }) }},
	{name: "AveDiskWrite", width: 14, step: true, value: func(r *row) string { return r.disk(func(s *past.Step) uint64 { return s.WriteBytes }) }},
	{name: "AveRSS", width: 10, step: true, value: (*row).averageMemory},
	{name: "Borrowed", width: 20, job: true, value: func(r *row) string { return r.Borrowed() }},
	{name: "Cluster", width: 10, value: func(r *row) string { return r.view.Cluster }, of: nothingMore},
	{name: "Comment", width: 14, job: true, value: func(r *row) string { return r.Job().GetSpec().GetComment() }, of: []string{"job.spec.comment"}},
	{name: "Constraints", width: 19, job: true, value: func(r *row) string { return r.Job().GetSpec().GetConstraint() }, of: []string{"job.spec.constraint"}},
	{name: "CPUTime", width: 10, value: func(r *row) string { return show.Clock(r.cpuSeconds()) }, of: []string{"job.cpus", "ran_ms"}},
	{name: "CPUTimeRAW", width: 10, value: func(r *row) string { return show.Digits(r.cpuSeconds()) }, of: []string{"job.cpus", "ran_ms"}},
	{name: "DerivedExitCode", width: 15, job: true, value: func(r *row) string { return "0:0" }, of: nothingMore},
	{name: "Elapsed", width: 10, value: func(r *row) string { return show.Clock(r.ElapsedS()) }, of: []string{"ran_ms"}},
	{name: "ElapsedRaw", width: 10, value: func(r *row) string { return show.Digits(r.ElapsedS()) }, of: []string{"ran_ms"}},
	{name: "Eligible", width: 19, job: true, value: func(r *row) string { return r.view.Stamp(r.Job().GetEligibleMs(), "Unknown") }, of: []string{"job.eligible_ms"}},
	{name: "End", width: 19, value: (*row).end, of: nothingMore},
	{name: "ExitCode", width: 8, value: func(r *row) string { code, signal := r.Exit(); return show.Digits(code) + ":" + show.Digits(signal) }, of: []string{"job.exit_code"}},
	{name: "GID", width: 6, job: true, value: func(r *row) string { return show.Digits(r.Job().GetOwner().GetGid()) }, of: []string{"job.owner.gid"}},
	{name: "Group", width: 9, job: true, value: func(r *row) string { return r.Job().GetOwner().GetGroup() }, of: []string{"job.owner.group"}},
	{name: "JobID", width: -12, value: func(r *row) string { return r.name(r.view.JobName(r.Job())) }, of: nothingMore},
	{name: "JobIDRaw", width: -12, value: func(r *row) string { return r.name(show.Digits(r.Job().GetId().GetJob())) }, of: nothingMore},
	{name: "JobName", width: 10, value: (*row).title, of: []string{"job.spec.name"}},
	{name: "KeptGPUSeconds", width: 14, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Job().GetSaved().GetKeptGpuMs(), 0) / 1000)) }},
	{name: "LostGPUSeconds", width: 14, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Run.GetLostGpuMs(), 0) / 1000)) }},
	{name: "MaxDiskRead", width: 12, step: true, value: func(r *row) string { return r.mostDisk(func(s *past.Step) past.Most { return s.MostRead }) }},
	{name: "MaxDiskWrite", width: 12, step: true, value: func(r *row) string { return r.mostDisk(func(s *past.Step) past.Most { return s.MostWritten }) }},
	{name: "MaxRSS", width: 10, step: true, value: (*row).peakMemory, of: []string{"job.usage"}},
	{name: "MaxRSSNode", width: 10, step: true, value: (*row).peakNode},
	{name: "MaxRSSTask", width: 10, step: true, value: (*row).peakTask},
	{name: "MinCPU", width: 10, step: true, value: (*row).leastCPU},
	{name: "MinCPUNode", width: 10, step: true, value: (*row).leastNode},
	{name: "MinCPUTask", width: 10, step: true, value: (*row).leastTask},
	{name: "NCPUS", width: 10, value: func(r *row) string { return show.Digits(r.CPUs()) }, of: []string{"job.cpus"}},
	{name: "NNodes", width: 8, value: (*row).nodes, of: []string{"job.nodes"}},
	{name: "NodeList", width: 15, value: (*row).nodeList, of: []string{"job.node_list", "job.batch_host"}},
	{name: "NTasks", width: 8, step: true, value: (*row).tasks},
	{name: "Partition", width: 10, job: true, value: func(r *row) string { return r.Job().GetPartition() }, of: []string{"job.partition"}},
	{name: "Preemptions", width: 11, job: true, value: func(r *row) string { return show.Digits(r.Run.GetPreemptions()) }},
	{name: "Priority", width: 10, job: true, value: func(r *row) string { return show.Digits(r.Job().GetPriority()) }, of: []string{"job.priority"}},
	{name: "QOS", width: 10, job: true, value: func(r *row) string { return show.QosOf(r.Job()) }, of: []string{"job.spec.qos"}},
	{name: "Reason", width: 22, job: true, value: func(r *row) string { return r.Job().GetReason() }, of: []string{"job.reason"}},
	{name: "ReqCPUS", width: 8, value: (*row).askedCPUs, of: []string{"job.cpus"}},
	{name: "ReqMem", width: 10, job: true, value: func(r *row) string { return r.size(show.MemoryBytes(r.Job()), 'M') }},
	{name: "ReqNodes", width: 8, job: true, value: func(r *row) string { return show.Digits(r.Job().GetNodes()) }, of: []string{"job.nodes"}},
	{name: "ReqTRES", width: 10, job: true, value: func(r *row) string { return r.view.AskedTRES(r.Job()) }},
	{name: "Reservation", width: 20, job: true, value: func(r *row) string { return strings.Join(r.Job().GetSpec().GetReservations(), ",") }},
	{name: "Reserved", width: 10, job: true, value: (*row).waited, of: []string{"job.eligible_ms", "job.submit_ms"}},
	{name: "Planned", width: 10, job: true, value: (*row).waited, of: []string{"job.eligible_ms", "job.submit_ms"}},
	{name: "Restarts", width: 8, job: true, value: func(r *row) string { return show.Digits(r.Job().GetRestartCount()) }, of: []string{"job.restart_count"}},
	{name: "Start", width: 19, value: (*row).start, of: nothingMore},
	{name: "State", width: 10, value: (*row).state, of: nothingMore},
	{name: "StdErr", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardError() }},
	{name: "StdIn", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardInput() }},
	{name: "StdOut", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardOutput() }},
	{name: "Submit", width: 19, value: func(r *row) string { return r.view.Stamp(cmp.Or(stepStart(r), r.Job().GetSubmitMs()), "Unknown") }, of: []string{"job.submit_ms"}},
	{name: "Suspended", width: 10, value: func(r *row) string { return show.Clock(r.SuspendedS()) }, of: []string{"ran_ms"}},
	{name: "Timelimit", width: 10, job: true, value: (*row).limit, of: []string{"job.time_limit_s"}},
	{name: "TimelimitRaw", width: 12, job: true, value: (*row).limitMinutes, of: []string{"job.time_limit_s"}},
	{name: "SystemCPU", width: 10, step: true, value: func(r *row) string { return r.stepCPU(func(s *past.Step) uint64 { return s.SystemUS }) }},
	{name: "TotalCPU", width: 10, value: func(r *row) string { return show.CPUClock(r.cpuNS()) }, of: []string{"job.usage"}},
	{name: "TRESUsageInAve", width: 14, step: true, value: (*row).usedAverage},
	{name: "TRESUsageInMax", width: 14, step: true, value: (*row).usedMost},
	{name: "TRESUsageInMaxNode", width: 18, step: true, value: (*row).usedMostNode},
	{name: "TRESUsageInTot", width: 14, step: true, value: (*row).usedInAll},
	{name: "UID", width: 6, job: true, value: func(r *row) string { return show.Digits(r.Job().GetOwner().GetUid()) }, of: []string{"job.owner.uid"}},
	{name: "UndoneSeconds", width: 13, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Job().GetSaved().GetUndoneMs(), 0) / 1000)) }},
	{name: "User", width: 9, job: true, value: func(r *row) string { return r.Job().GetOwner().GetUser() }, of: []string{"job.owner.user"}},
	{name: "UserCPU", width: 10, step: true, value: func(r *row) string { return r.stepCPU(func(s *past.Step) uint64 { return s.UserUS }) }},
	{name: "WCKey", width: 10, job: true, value: func(r *row) string { return r.Job().GetSpec().GetWckey() }},
	{name: "WorkDir", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetWorkDirectory() }, of: []string{"job.spec.work_directory"}},
})

// empty are the fields of sacct(1) that nothing here has a value for.
const empty = "AdminComment AssocID AveCPUFreq AvePages AveVMSize BlockID ConsumedEnergy ConsumedEnergyRaw Container DBIndex Flags Layout " +
	"MaxDiskReadNode MaxDiskReadTask MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel " +
	"QOSRAW ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReservationId ResvCPU ResvCPURAW SubmitLine SystemComment TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask " +
	"TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot WCKeyID"

func withEmpty(columns []column) []column {
	for _, name := range strings.Fields(empty) {
		columns = append(columns, column{name: name, width: max(10, min(len(name), 20)), value: func(*row) string { return "" }, of: nothingMore})
	}
	return columns
}

// The formats of gacct, those of sacct(1).
const (
	defaultFormat = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	briefFormat   = "JobID,State,ExitCode"
	longFormat    = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,AllocTRES,TRESUsageInAve,TRESUsageInMax,TRESUsageInTot"
)

// text is the value of a column in a row.
func (c *column) text(r *row) string {
	if c.job && r.Step != past.Whole || c.step && r.Step == past.Whole {
		return ""
	}
	return c.value(r)
}

// all are the columns, as they are printed.
func all() []table.Column[*row] {
	made := make([]table.Column[*row], len(columns))
	for i := range columns {
		made[i] = table.Column[*row]{Name: columns[i].name, Width: columns[i].width, Value: columns[i].text}
	}
	return made
}

func (r *row) name(job string) string {
	if r.Step != past.Whole {
		return job + "." + r.Step
	}
	return job
}

func (r *row) title() string {
	if r.Of != nil {
		return r.Of.Name
	}
	return cmp.Or(r.Step, r.Job().GetSpec().GetName())
}

func (r *row) state() string {
	word, by := r.State()
	if by != "" {
		return word + " by " + by
	}
	return word
}

func (r *row) nodes() string {
	switch {
	case r.Of != nil:
		return show.Digits(uint32(len(r.Of.Nodes)))
	case r.Step == past.Batch:
		return "1"
	}
	return show.Digits(r.Job().GetNodes())
}

func (r *row) allocatedNodes() string {
	if r.Job().GetStartMs() == 0 {
		return "0"
	}
	return r.nodes()
}

func (r *row) nodeList() string {
	switch {
	case r.Of != nil:
		return spec.FormatHostList(r.Of.Nodes)
	case r.Step == past.Batch:
		return r.Job().GetBatchHost()
	}
	return cmp.Or(r.Job().GetNodeList(), "None assigned")
}

func (r *row) allocated() string {
	if r.Job().GetStartMs() == 0 {
		return ""
	}
	if r.Of != nil {
		return r.stepTRES()
	}
	return r.view.TRES(r.Job())
}

func (r *row) cpuSeconds() uint32 {
	return uint32(min(uint64(r.ElapsedS())*uint64(r.CPUs()), uint64(spec.Unlimited)-1))
}

// start of a run that was over before it began is None, as in Slurm.
func (r *row) start() string {
	if !r.Run.GetLive() && r.Job().GetEndMs() != 0 {
		return r.view.Stamp(r.StartMS(), "None")
	}
	return r.view.Stamp(r.StartMS(), "Unknown")
}

func (r *row) end() string {
	if r.Run.GetLive() && (r.Of == nil || r.Of.EndMS == 0) && !r.truncated() {
		return "Unknown"
	}
	return r.view.Stamp(r.EndMS(), "Unknown")
}

func (r *row) waited() string {
	if seconds, ok := r.WaitedS(); ok {
		return show.Clock(seconds)
	}
	return ""
}

func (r *row) limit() string {
	switch limit := r.Job().GetTimeLimitS(); limit {
	case 0:
		return "Partition_Limit"
	default:
		return show.Clock(limit)
	}
}

func (r *row) limitMinutes() string {
	switch limit := r.Job().GetTimeLimitS(); limit {
	case spec.Unlimited:
		return "UNLIMITED"
	default:
		return show.Digits((limit + 59) / 60)
	}
}

// size is an amount of memory in the unit of --units, or in the usual one of the field.
func (r *row) size(bytes uint64, usual byte) string {
	if bytes == 0 {
		return "0"
	}
	if r.unit == 0 {
		shift := map[byte]int{'K': 10, 'M': 20}[usual]
		whole := bytes >> shift
		if usual == 'M' && whole%1024 == 0 && whole > 0 {
			return show.Digits(whole>>10) + "G"
		}
		return show.Digits(whole) + string(usual)
	}
	number := float64(bytes) / float64(uint64(1)<<(10*(strings.IndexByte(units, r.unit)+1)))
	text := strconv.FormatFloat(number, 'f', 2, 64)
	return strings.TrimSuffix(text, ".00") + string(r.unit)
}

// units are those of --units, each 1024 of the one before.
const units = "KMGTP"

// stepStart is when the step was made, which is when it started; 0 for a job.
func stepStart(r *row) int64 {
	if r.Step == past.Whole {
		return 0
	}
	return r.Row.StartMS()
}
