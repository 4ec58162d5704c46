package queue

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxWhy bounds for how many jobs one command asks: each answer costs the controller
// many plans.
const maxWhy = 16

// whyRun is gqueue --why: why jobs wait, and what would have them start sooner.
type whyRun struct {
	inv    *option.Invocation
	client *client.Client
	view   *show.View
	out    *bufio.Writer
	json   *show.JSONStream // nil = text
	shape  show.JSONShape
}

func runWhy(inv *option.Invocation) error {
	ids, err := whyIDs(inv)
	if err != nil {
		return err
	}
	run := &whyRun{inv: inv, out: bufio.NewWriter(inv.Stdout)}
	if run.shape, err = show.JSONShapeOf(inv); err != nil {
		return err
	}
	if run.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer run.client.Close()
	if run.shape != show.JSONNone {
		run.json = show.NewJSONStream(run.out, "jobs", run.shape)
	}
	for at, id := range ids {
		if at > 0 && run.json == nil {
			fmt.Fprintln(run.out)
		}
		if err := run.one(inv.Context, id); err != nil {
			return err
		}
	}
	if run.json != nil {
		if err := run.json.End(inv); err != nil {
			return console.Output(err)
		}
	}
	return console.Output(run.out.Flush())
}

// whyIDs are the jobs that are asked about: numbers, and single tasks of arrays.
func whyIDs(inv *option.Invocation) ([]*pb.JobId, error) {
	if len(inv.Operands) > 0 {
		return nil, inv.Fail("Unrecognized option: %s\nSeveral jobs are separated by commas: --why=%s,%s", inv.Operands[0], inv.Text("why"), inv.Operands[0])
	}
	targets, err := spec.ParseJobTargets(inv.Text("why"))
	if err != nil {
		return nil, inv.Fail("%w", err)
	}
	if len(targets) > maxWhy {
		return nil, inv.Fail("%d jobs are too many for --why: name at most %d", len(targets), maxWhy)
	}
	var ids []*pb.JobId
	for _, target := range targets {
		id := &pb.JobId{Job: target.Job}
		if target.HasTasks {
			if len(target.Tasks) != 1 || target.Tasks[0].GetFirst() != target.Tasks[0].GetLast() {
				return nil, inv.Fail("%s is several tasks, which wait alike: name one of them, or the array", target)
			}
			task := target.Tasks[0].GetFirst()
			id.ArrayTask = &task
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (run *whyRun) one(ctx context.Context, id *pb.JobId) error {
	answer, err := client.AskOne(ctx, run.client, run.client.ExplainWait, &pb.ExplainWaitRequest{Id: id})
	if err != nil {
		return client.LoadError(run.inv, client.LoadJobs, err)
	}
	if answer.GetJob() == nil {
		return option.Fail(1, "the controller's answer names no job: ask again, and report this as a fault of gctld")
	}
	run.view = show.NewView(run.inv.Getenv, console.Clock())
	return show.JobRows(answer.GetJob(), nil, run.view, func(row *show.JobRow) error {
		if run.json != nil {
			return console.Output(run.json.Add(run.record(row, answer)))
		}
		run.print(answer)
		return nil
	})
}

// print writes an answer as sentences, and the commands that help.
func (run *whyRun) print(answer *pb.ExplainWaitResponse) {
	job := answer.GetJob()
	name := format.Printable(fmt.Sprintf("Job %s (%s) of %s", whyTarget(job).String(), job.GetSpec().GetName(), job.GetOwner().GetUser()))
	if !show.Pending(job) {
		fmt.Fprintf(run.out, "%s does not wait: it is %s\n", name, show.StateName(job))
		return
	}
	fmt.Fprintf(run.out, "%s waits: %s\n", name, format.Printable(job.GetReason()))
	for _, sentence := range append([]string{job.GetReasonDetail()}, answer.GetBecause()...) {
		if sentence != "" {
			fmt.Fprintf(run.out, "  %s\n", format.Printable(sentence))
		}
	}
	if answer.Start == nil {
		return // the controller makes no plans now
	}
	fmt.Fprintf(run.out, "Start: %s\n", run.start(answer.Start))
	switch {
	case answer.Start.GetNow():
	case !answer.GetAsked():
		fmt.Fprintln(run.out, "What would help is told to those who may change the job.")
	case len(answer.GetAdvice()) == 0 && answer.GetWhole():
		fmt.Fprintln(run.out, "No single change of the job that was tried would have it start sooner.")
	case len(answer.GetAdvice()) > 0:
		fmt.Fprintln(run.out, "Each of these would have it start sooner:")
		for _, advice := range answer.GetAdvice() {
			fmt.Fprintf(run.out, "  %s\n    %s\n", format.Printable(command(job, advice)), run.start(advice.GetStart()))
		}
	}
	if answer.GetAsked() && !answer.GetWhole() {
		fmt.Fprintln(run.out, "The controller had no time to try everything: ask again.")
	}
}

// start says when and where a job starts.
func (run *whyRun) start(start *pb.PlannedStart) string {
	where := ""
	if start.GetNodeList() != "" {
		where = " on " + start.GetNodeList()
	}
	if start.GetPartition() != "" {
		where += " in partition " + start.GetPartition()
	}
	switch {
	case start.GetNow() && start.GetFillsHole():
		return format.Printable("now" + where + ", until what it has is needed: then it is saved, and waits again")
	case start.GetNow():
		return "now" + format.Printable(where)
	case start.GetStartMs() == 0:
		return "not known"
	}
	in := min((max(start.GetStartMs()-run.view.NowMS, 0)+999)/1000, int64(spec.Unlimited)-1)
	return format.Printable(fmt.Sprintf("%s, in %s%s", run.view.Stamp(start.GetStartMs(), "N/A"), spec.FormatDuration(uint32(in)), where))
}

// plain is a value that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.,:+/-]*$`)

// command is what to type so that a change is made.
func command(job *pb.Job, advice *pb.WaitAdvice) string {
	id := whyTarget(job).String()
	if strings.ContainsAny(id, "[]") {
		id = console.Quoted(id)
	}
	change := advice.GetChange()
	if change == nil {
		return "gcontrol release " + id
	}
	var words strings.Builder
	set := func(given bool, key, value string) {
		if !given {
			return
		}
		if !plain.MatchString(value) {
			value = console.Quoted(value)
		}
		words.WriteString(" " + key + "=" + value)
	}
	set(change.TimeLimitS != nil, "TimeLimit", spec.FormatTime(change.GetTimeLimitS()))
	set(change.BeginMs != nil, "StartTime", "")
	set(change.Checkpoint != nil, "Checkpoint", change.GetCheckpoint())
	set(change.Reservations != nil, "ReservationName", change.GetReservations())
	set(change.NodeList != nil, "ReqNodeList", change.GetNodeList())
	set(change.Constraint != nil, "Features", change.GetConstraint())
	set(change.Licenses != nil, "Licenses", change.GetLicenses())
	set(change.Dependency != nil, "Dependency", change.GetDependency())
	set(len(change.GetPartitions()) > 0, "Partition", strings.Join(change.GetPartitions(), ","))
	set(change.MinNodes != nil, "NumNodes", fmt.Sprint(change.GetMinNodes()))
	set(change.Qos != nil, "QOS", change.GetQos())
	set(change.Account != nil, "Account", change.GetAccount())
	if gpus := change.GetGpus().GetRequests(); len(gpus) > 0 {
		key := "Gres"
		if gpus[0].GetScope() != pb.GpuScope_GPU_SCOPE_NODE {
			key = "TresPerJob"
		}
		set(true, key, spec.FormatGres(gpus))
	}
	return "gcontrol update JobId=" + id + words.String()
}

// whyTarget names a job that waits, and of an array only the tasks that do: an update of
// the whole array would change those that run too.
func whyTarget(job *pb.Job) spec.JobTarget {
	id := job.GetId()
	switch {
	case id != nil && id.ArrayTask != nil:
		return spec.JobTarget{Job: job.GetArrayJobId(), HasTasks: true, Tasks: []*pb.ArrayRange{{First: id.GetArrayTask(), Last: id.GetArrayTask(), Step: 1}}}
	case job.GetArrayJobId() != 0:
		return spec.JobTarget{Job: job.GetArrayJobId(), HasTasks: true, Tasks: job.GetWaitingTasks().GetRanges()}
	}
	return spec.JobTarget{Job: id.GetJob()}
}

// whyJSON is an answer as JSON.
type whyJSON struct {
	Job     any          `json:"job"`
	Because []string     `json:"because"`
	Start   *startJSON   `json:"start"` // null = no plan is made
	Advice  []adviceJSON `json:"advice"`
	Asked   bool         `json:"asked"` // changes were tried
	Whole   bool         `json:"whole"` // all of them
}

type startJSON struct {
	Now       bool   `json:"now"`
	StartMS   int64  `json:"start_ms"` // 0 = not known
	Nodes     string `json:"nodes"`
	Partition string `json:"partition"`
	CPUs      uint32 `json:"cpus"`
	FillsHole bool   `json:"fills_hole"` // it is saved when what it has is needed
}

type adviceJSON struct {
	Command string     `json:"command"`
	Start   *startJSON `json:"start"`
}

func (run *whyRun) record(row *show.JobRow, answer *pb.ExplainWaitResponse) whyJSON {
	run.view.Cluster = run.inv.ClusterName()
	out := whyJSON{Job: run.shape.Job(row), Because: append([]string{}, answer.GetBecause()...), Start: startRecord(answer.Start), Advice: []adviceJSON{}, Asked: answer.GetAsked(), Whole: answer.GetWhole()}
	for _, advice := range answer.GetAdvice() {
		out.Advice = append(out.Advice, adviceJSON{Command: command(answer.GetJob(), advice), Start: startRecord(advice.GetStart())})
	}
	return out
}

func startRecord(start *pb.PlannedStart) *startJSON {
	if start == nil {
		return nil
	}
	return &startJSON{Now: start.GetNow(), StartMS: start.GetStartMs(), Nodes: start.GetNodeList(), Partition: start.GetPartition(), CPUs: start.GetCpus(), FillsHole: start.GetFillsHole()}
}
