package acct

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// row is a line with what its words depend on.
type row struct {
	past.Row
	view *show.View
	unit byte // of --units; 0 = the largest that fits
}

// column is a column of gacct. Names and widths are those of sacct(1).
type column struct {
	name  string
	width int // less than 0: the blanks come after the value
	value func(*row) string
	job   bool // only lines of jobs have it
	step  bool // only lines of steps have it
}

// The columns, in the order of sacct --helpformat. What no job here ever has is empty, as
// it is in Slurm where it is not recorded.
var columns = withEmpty([]column{
	{name: "Account", width: 10, value: func(r *row) string { return r.Job().GetSpec().GetAccount() }},
	{name: "AllocCPUS", width: 10, value: func(r *row) string { return show.Digits(r.CPUs()) }},
	{name: "AllocNodes", width: 10, value: (*row).allocatedNodes},
	{name: "AllocTRES", width: 10, value: (*row).allocated},
	{name: "AveCPU", width: 10, step: true, value: func(r *row) string { return show.Clock(uint32(r.Job().GetUsage().GetCpuNs() / 1e9)) }},
	{name: "AveRSS", width: 10, step: true, value: (*row).peakMemory},
	{name: "Borrowed", width: 20, job: true, value: func(r *row) string { return r.Borrowed() }},
	{name: "Cluster", width: 10, value: func(*row) string { return "gleaner" }},
	{name: "Comment", width: 14, job: true, value: func(r *row) string { return r.Job().GetSpec().GetComment() }},
	{name: "Constraints", width: 19, job: true, value: func(r *row) string { return r.Job().GetSpec().GetConstraint() }},
	{name: "CPUTime", width: 10, value: func(r *row) string { return show.Clock(r.cpuSeconds()) }},
	{name: "CPUTimeRAW", width: 10, value: func(r *row) string { return show.Digits(r.cpuSeconds()) }},
	{name: "DerivedExitCode", width: 15, job: true, value: func(r *row) string { return "0:0" }},
	{name: "Elapsed", width: 10, value: func(r *row) string { return show.Clock(r.ElapsedS()) }},
	{name: "ElapsedRaw", width: 10, value: func(r *row) string { return show.Digits(r.ElapsedS()) }},
	{name: "Eligible", width: 19, job: true, value: func(r *row) string { return r.view.Stamp(r.Job().GetEligibleMs(), "Unknown") }},
	{name: "End", width: 19, value: (*row).end},
	{name: "ExitCode", width: 8, value: func(r *row) string { code, signal := r.Exit(); return fmt.Sprintf("%d:%d", code, signal) }},
	{name: "GID", width: 6, job: true, value: func(r *row) string { return show.Digits(r.Job().GetOwner().GetGid()) }},
	{name: "Group", width: 9, job: true, value: func(r *row) string { return r.Job().GetOwner().GetGroup() }},
	{name: "JobID", width: -12, value: func(r *row) string { return r.name(r.view.JobName(r.Job())) }},
	{name: "JobIDRaw", width: -12, value: func(r *row) string { return r.name(show.Digits(r.Job().GetId().GetJob())) }},
	{name: "JobName", width: 10, value: (*row).title},
	{name: "KeptGPUSeconds", width: 14, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Job().GetSaved().GetKeptGpuMs(), 0) / 1000)) }},
	{name: "LostGPUSeconds", width: 14, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Run.GetLostGpuMs(), 0) / 1000)) }},
	{name: "MaxRSS", width: 10, step: true, value: (*row).peakMemory},
	{name: "MaxRSSNode", width: 10, step: true, value: func(r *row) string { return r.Job().GetBatchHost() }},
	{name: "MaxRSSTask", width: 10, step: true, value: func(*row) string { return "0" }},
	{name: "MinCPU", width: 10, step: true, value: func(r *row) string { return show.Clock(uint32(r.Job().GetUsage().GetCpuNs() / 1e9)) }},
	{name: "NCPUS", width: 10, value: func(r *row) string { return show.Digits(r.CPUs()) }},
	{name: "NNodes", width: 8, value: (*row).nodes},
	{name: "NodeList", width: 15, value: (*row).nodeList},
	{name: "NTasks", width: 8, step: true, value: func(*row) string { return "1" }},
	{name: "Partition", width: 10, job: true, value: func(r *row) string { return r.Job().GetPartition() }},
	{name: "Preemptions", width: 11, job: true, value: func(r *row) string { return show.Digits(r.Run.GetPreemptions()) }},
	{name: "Priority", width: 10, job: true, value: func(r *row) string { return show.Digits(r.Job().GetPriority()) }},
	{name: "QOS", width: 10, job: true, value: func(r *row) string { return show.QosOf(r.Job()) }},
	{name: "Reason", width: 22, job: true, value: func(r *row) string { return r.Job().GetReason() }},
	{name: "ReqCPUS", width: 8, value: func(r *row) string { return show.Digits(r.Job().GetCpus()) }},
	{name: "ReqMem", width: 10, job: true, value: func(r *row) string { return r.size(show.MemoryBytes(r.Job()), 'M') }},
	{name: "ReqNodes", width: 8, job: true, value: func(r *row) string { return show.Digits(r.Job().GetNodes()) }},
	{name: "ReqTRES", width: 10, job: true, value: func(r *row) string { return r.view.AskedTRES(r.Job()) }},
	{name: "Reservation", width: 20, job: true, value: func(r *row) string { return strings.Join(r.Job().GetSpec().GetReservations(), ",") }},
	{name: "Reserved", width: 10, job: true, value: (*row).waited},
	{name: "Planned", width: 10, job: true, value: (*row).waited},
	{name: "Restarts", width: 8, job: true, value: func(r *row) string { return show.Digits(r.Job().GetRestartCount()) }},
	{name: "Start", width: 19, value: (*row).start},
	{name: "State", width: 10, value: (*row).state},
	{name: "StdErr", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardError() }},
	{name: "StdIn", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardInput() }},
	{name: "StdOut", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetStandardOutput() }},
	{name: "Submit", width: 19, value: func(r *row) string { return r.view.Stamp(cmp.Or(stepStart(r), r.Job().GetSubmitMs()), "Unknown") }},
	{name: "Suspended", width: 10, value: func(r *row) string { return show.Clock(r.SuspendedS()) }},
	{name: "Timelimit", width: 10, job: true, value: (*row).limit},
	{name: "TimelimitRaw", width: 12, job: true, value: (*row).limitMinutes},
	{name: "TotalCPU", width: 10, value: func(r *row) string { return cpuClock(r.Job().GetUsage().GetCpuNs()) }},
	{name: "TRESUsageInMax", width: 14, step: true, value: (*row).used},
	{name: "TRESUsageInTot", width: 14, step: true, value: (*row).used},
	{name: "UID", width: 6, job: true, value: func(r *row) string { return show.Digits(r.Job().GetOwner().GetUid()) }},
	{name: "UndoneSeconds", width: 13, job: true, value: func(r *row) string { return show.Digits(uint64(max(r.Job().GetSaved().GetUndoneMs(), 0) / 1000)) }},
	{name: "User", width: 9, job: true, value: func(r *row) string { return r.Job().GetOwner().GetUser() }},
	{name: "WCKey", width: 10, job: true, value: func(r *row) string { return r.Job().GetSpec().GetWckey() }},
	{name: "WorkDir", width: 20, job: true, value: func(r *row) string { return r.Job().GetSpec().GetWorkDirectory() }},
})

// empty are the fields of sacct(1) that nothing here has a value for.
const empty = "AdminComment AssocID AveCPUFreq AveDiskRead AveDiskWrite AvePages AveVMSize BlockID ConsumedEnergy ConsumedEnergyRaw Container DBIndex Flags Layout " +
	"MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel MinCPUNode MinCPUTask " +
	"QOSRAW ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReservationId ResvCPU ResvCPURAW SubmitLine SystemComment SystemCPU TRESUsageInAve TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask " +
	"TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UserCPU WCKeyID"

func withEmpty(columns []column) []column {
	for _, name := range strings.Fields(empty) {
		columns = append(columns, column{name: name, width: max(10, min(len(name), 20)), value: func(*row) string { return "" }})
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

// parseFormat reads names with %width, a minus for blanks after the value.
func parseFormat(inv *option.Invocation, text string) ([]column, error) {
	var chosen []column
	for word := range strings.SplitSeq(text, ",") {
		name, size, sized := strings.Cut(strings.TrimSpace(word), "%")
		if name == "" {
			continue
		}
		if strings.EqualFold(name, "ALL") {
			chosen = append(chosen, columns...)
			continue
		}
		one, err := columnNamed(inv, name)
		if err != nil {
			return nil, err
		}
		if sized {
			width, err := strconv.Atoi(size)
			if err != nil || width == 0 || width > format.MaxWidth || width < -format.MaxWidth {
				return nil, inv.Fail("Invalid width %q of field %s: write a number, as in JobName%%30", size, name)
			}
			one.width = width
		}
		chosen = append(chosen, one)
	}
	if len(chosen) == 0 || len(chosen) > 2*format.MaxColumns {
		return nil, inv.Fail("--format needs 1 to %d fields; %s --helpformat lists them", 2*format.MaxColumns, inv.Command.Program())
	}
	return chosen, nil
}

// columnNamed takes a name, or the beginning of one, in any case, as sacct does.
func columnNamed(inv *option.Invocation, name string) (column, error) {
	var names []string
	found := -1
	for i := range columns {
		if strings.EqualFold(columns[i].name, name) {
			return columns[i], nil
		}
		if found < 0 && len(name) < len(columns[i].name) && strings.EqualFold(columns[i].name[:len(name)], name) {
			found = i
		}
		names = append(names, columns[i].name)
	}
	if found >= 0 {
		return columns[found], nil
	}
	advice := ""
	if meant := similar.Nearest(name, names); meant != "" && inv.Command.CalledAs == "" {
		advice = "; did you mean " + meant + "?"
	}
	return column{}, inv.Fail("Invalid field requested: %q%s", name, advice)
}

func (r *row) name(job string) string {
	if r.Step != past.Whole {
		return job + "." + r.Step
	}
	return job
}

func (r *row) title() string { return cmp.Or(r.Step, r.Job().GetSpec().GetName()) }

func (r *row) state() string {
	word, by := r.State()
	if by != "" {
		return word + " by " + by
	}
	return word
}

func (r *row) nodes() string {
	if r.Step == past.Batch {
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
	if r.Step == past.Batch {
		return r.Job().GetBatchHost()
	}
	return cmp.Or(r.Job().GetNodeList(), "None assigned")
}

func (r *row) allocated() string {
	if r.Job().GetStartMs() == 0 {
		return ""
	}
	return r.view.TRES(r.Job())
}

func (r *row) cpuSeconds() uint32 {
	return uint32(min(uint64(r.ElapsedS())*uint64(r.CPUs()), uint64(spec.Unlimited)-1))
}

// start of a run that was over before it began is None, as in Slurm.
func (r *row) start() string {
	if !r.Run.GetLive() && r.Job().GetEndMs() != 0 {
		return r.view.Stamp(r.Job().GetStartMs(), "None")
	}
	return r.view.Stamp(r.Job().GetStartMs(), "Unknown")
}

func (r *row) end() string {
	if r.Run.GetLive() {
		return "Unknown"
	}
	return r.view.Stamp(r.Job().GetEndMs(), "Unknown")
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

func (r *row) peakMemory() string { return r.size(r.Job().GetUsage().GetPeakMemoryBytes(), 'K') }

func (r *row) used() string {
	usage := r.Job().GetUsage()
	if usage == nil {
		return ""
	}
	return "cpu=" + show.Clock(uint32(usage.GetCpuNs()/1e9)) + ",mem=" + r.size(usage.GetPeakMemoryBytes(), 'K')
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

// cpuClock is time of CPUs as sacct writes it: MM:SS.mmm below an hour.
func cpuClock(ns uint64) string {
	seconds := ns / 1e9
	if seconds >= 3600 {
		return show.Clock(uint32(min(seconds, uint64(spec.Unlimited)-1)))
	}
	return fmt.Sprintf("%02d:%02d.%03d", seconds/60, seconds%60, ns/1e6%1000)
}

// stepStart is when the step was made, which is when it started; 0 for a job.
func stepStart(r *row) int64 {
	if r.Step == past.Whole {
		return 0
	}
	return r.Job().GetStartMs()
}
