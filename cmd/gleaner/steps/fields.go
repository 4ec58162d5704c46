package steps

import (
	"cmp"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Format is that of squeue -s.
const Format = "%.15i %.8j %.9P %.8u %.9M %N"

// running is the state of all of them.
const running = "RUNNING"

// Table is what can be shown of a step. Letters, names and headers are those of squeue(1)
// for steps.
var Table = format.NewTable([]format.Field[*Row]{
	number('A', "TASKS", func(r *Row) uint64 { return uint64(r.Step.Tasks) }, "NumTasks"),
	text('i', "STEPID", (*Row).ID, "StepID"),
	text('j', "NAME", (*Row).name, "StepName", "Name"),
	{Letter: 'l', Whole: true, Names: []string{"TimeLimit"}, Header: "TIME_LIMIT", Value: func(*Row) string { return spec.FormatTime(spec.Unlimited) }},
	{Letter: 'M', Whole: true, Names: []string{"TimeUsed"}, Header: "TIME", Value: func(r *Row) string { return spec.FormatTime(uint32(r.elapsed())) },
		Compare: func(a, b *Row) int { return cmp.Compare(a.elapsed(), b.elapsed()) }},
	text('N', "NODELIST", (*Row).nodes, "Nodes", "NodeList"),
	text('P', "PARTITION", func(r *Row) string { return r.Job.GetPartition() }, "Partition"),
	text(0, "STATE", func(*Row) string { return running }, "StepState"),
	text('b', "TRES_PER_JOB", func(*Row) string { return show.OrNull("") }, "tres-per-job"),
	{Letter: 'S', Names: []string{"StartTime"}, Header: "START_TIME", Value: func(r *Row) string { return r.view.Stamp(r.Step.StartMS, "N/A") },
		Compare: func(a, b *Row) int { return cmp.Compare(a.Step.StartMS, b.Step.StartMS) }},
	text('u', "USER", func(r *Row) string { return r.Job.GetOwner().GetUser() }, "UserName"),
	number('U', "UID", func(r *Row) uint64 { return uint64(r.Job.GetOwner().GetUid()) }, "UserID"),
	number(0, "JOBID", func(r *Row) uint64 { return uint64(r.Job.GetId().GetJob()) }, "JobID"),
})

func text(letter byte, header string, value func(*Row) string, names ...string) format.Field[*Row] {
	return format.Field[*Row]{Letter: letter, Names: names, Header: header, Value: value}
}

func number(letter byte, header string, value func(*Row) uint64, names ...string) format.Field[*Row] {
	return format.Field[*Row]{Letter: letter, Names: names, Header: header,
		Value:   func(r *Row) string { return show.Digits(value(r)) },
		Compare: func(a, b *Row) int { return cmp.Compare(value(a), value(b)) }}
}

func (r *Row) elapsed() int64 {
	return min(max(0, r.view.NowMS-r.Step.StartMS)/1000, int64(spec.Unlimited)-1)
}

func (r *Row) nodes() string { return spec.FormatHostList(r.Step.Nodes) }

// name is that of its program; the batch script's is batch, as in Slurm.
func (r *Row) name() string { return cmp.Or(r.Step.Name, r.Step.ID()) }

// Record is what scontrol show step shows.
func (r *Row) Record() *show.Record {
	step, record := r.Step, new(show.Record)
	record.Line(show.Item("StepId", r.ID()), show.Item("UserId", show.Digits(r.Job.GetOwner().GetUid())),
		show.Item("StartTime", r.view.Stamp(step.StartMS, "Unknown")), "TimeLimit=UNLIMITED")
	record.Line("State="+running, show.Item("Partition", r.Job.GetPartition()), show.Item("NodeList", r.nodes()))
	record.Line(show.Item("Nodes", show.Digits(len(step.Nodes))), show.Item("CPUs", show.Digits(step.CPUs)), show.Item("Tasks", show.Digits(step.Tasks)),
		show.Item("Name", r.name()), "Network=(null)")
	record.Line(show.Item("TRES", show.OrNull(r.tres())))
	record.Line("ResvPorts=(null)")
	record.Line("CPUFreqReq=Default")
	record.Line("SrunHost:Pid=(null):0")
	return record
}

// tres is what it was given; the batch script holds nothing.
func (r *Row) tres() string {
	if r.IsBatch() {
		return ""
	}
	text := "cpu=" + show.Digits(r.Step.CPUs) + ",node=" + show.Digits(len(r.Step.Nodes))
	if r.Step.GPUs > 0 {
		text += ",gres/gpu=" + show.Digits(r.Step.GPUs)
	}
	return text
}
