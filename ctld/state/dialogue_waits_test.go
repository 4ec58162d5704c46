package state

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// moment reads seconds from now, "begin=+60"; 0 when it is not given.
func (d *dialogue) moment(a arguments, key string) int64 {
	if a.values[key] == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(a.values[key], 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.nowMS + seconds*1000
}

// update reads "update 3 by=1000 time=120 dependency=afterok:1".
func (d *dialogue) update(a arguments) Command {
	m := &pb.JobChange{}
	number := func(key string) *uint32 {
		if _, given := a.values[key]; !given {
			return nil
		}
		return proto.Uint32(a.number(key))
	}
	text := func(key string) *string {
		if value, given := a.values[key]; given {
			return proto.String(strings.ReplaceAll(value, " ", "_"))
		}
		return nil
	}
	m.TimeLimitS, m.Priority, m.CpusPerTask, m.MaxRunning = number("time"), number("priority"), number("cpus"), number("throttle")
	m.TimeMinS = number("time-min")
	m.MinNodes, m.MaxNodes, m.Tasks = number("nodes"), number("nodes"), number("tasks")
	m.Dependency, m.Name, m.NodeList, m.Comment, m.Constraint = text("dependency"), text("name"), text("nodelist"), text("comment"), text("constraint")
	m.Account, m.Qos, m.Licenses = text("account"), text("qos"), text("licenses")
	if add := a.values["add"]; add != "" {
		m.AddTimeS, _ = strconv.ParseInt(add, 10, 64)
	}
	if nice := a.values["nice"]; nice != "" {
		n, _ := strconv.ParseInt(nice, 10, 32)
		m.Nice = proto.Int32(int32(n))
	}
	if list := a.values["partition"]; list != "" {
		m.Partitions = strings.Split(list, ",")
	}
	if _, given := a.values["begin"]; given {
		m.BeginMs = proto.Int64(d.moment(a, "begin"))
	}
	if _, given := a.values["deadline"]; given {
		m.DeadlineMs = proto.Int64(d.moment(a, "deadline"))
	}
	change, err := ChangeFromMessage(m)
	if err != nil {
		d.refused = err.Error()
	}
	return UpdateJobs{Targets: d.targets(a), UID: a.number("by"), Privileged: a.is("privileged"), Coordinator: a.values["coordinator"], Change: change}
}

// describeWaits is what dialogues show of what a job waits for.
func (d *dialogue) describeWaits(job *Job, message *pb.Job) string {
	var out strings.Builder
	if text := message.Spec.GetDependency(); text != "" {
		fmt.Fprintf(&out, " dependency=%s", text)
	}
	for _, moment := range []struct {
		word string
		ms   int64
	}{{"begin", job.BeginMS}, {"deadline", job.DeadlineMS}} {
		if moment.ms != 0 {
			fmt.Fprintf(&out, " %s=%+ds", moment.word, (moment.ms-d.nowMS)/1000)
		}
	}
	if job.FixedPriority != 0 {
		fmt.Fprintf(&out, " priority=%d", job.FixedPriority)
	}
	if message.SpecialExit {
		out.WriteString(" special-exit")
	}
	return out.String()
}

// ages shows how long each waiting job has been eligible, and since when.
func (d *dialogue) ages() string {
	var out strings.Builder
	for job := range d.state.View().LiveJobs() {
		if job.Phase != Waiting {
			continue
		}
		fmt.Fprintf(&out, "%d age %ds", job.ID, job.AgeMS(d.nowMS)/1000)
		if from, is := job.eligible(); !is {
			out.WriteString(", stands still")
		} else if from > d.nowMS {
			fmt.Fprintf(&out, ", from %+ds on", (from-d.nowMS)/1000)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// EnforcesLimits shows the time limits that a node has been, or is to be, told.
func (d *dialogue) timeLimits(node string) string {
	v := d.state.View()
	var out strings.Builder
	for _, w := range v.WantedAllocs(node) {
		order, err := v.StartAlloc(w.Job, node)
		if err != nil {
			d.t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d.%d starts with %s", w.Job, w.Epoch, spec.FormatTime(order.TimeLimitS))
		if w.TimeLimitS != 0 {
			fmt.Fprintf(&out, ", told %s", spec.FormatTime(w.TimeLimitS))
		}
		out.WriteString("\n")
	}
	return out.String()
}
