package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// Compare replays a recording under the policy that was in force and under another.
func Compare(recorded *Recorded, name string, policy *pb.Policy, progress func(policy string, ended, of int) error) ([]*sim.Result, error) {
	cluster, err := recorded.Under(policy)
	if err != nil {
		return nil, err
	}
	if recorded.Keep(cluster); len(recorded.Jobs) == 0 {
		return nil, fmt.Errorf("none of the jobs that are recorded could run under %s: their partitions are gone, or too small for them", name)
	}
	var results []*sim.Result
	for _, side := range []struct {
		cluster sim.Cluster
		policy  sim.Policy
	}{{recorded.Cluster, Policy("in force", recorded.Policy)}, {cluster, Policy(name, policy)}} {
		result, err := sim.Run(recorded.Jobs, side.cluster, side.policy, func(ended, of int) error {
			return progress(side.policy.Name, ended, of)
		})
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// worseBy is from which change on an account is warned of: less is chance.
const worseBy = time.Minute

// Worse are the accounts that would have waited longer, in the 95th percentile of their
// jobs.
func Worse(before, after *sim.Result) []sim.Change {
	var worse []sim.Change
	for _, c := range sim.Changes(before, after, sim.ByAccount) {
		if c.After.P95 >= c.Before.P95+worseBy.Seconds() {
			worse = append(worse, c)
		}
	}
	return worse
}

// PrintReplay prints what Compare found, and how many runs it was about.
func PrintReplay(out io.Writer, recorded *Recorded, results []*sim.Result) {
	jobs := results[0].Jobs
	fmt.Fprintf(out, "Replayed: %d runs since %s", len(jobs), time.Unix(jobs[0].SubmitS, 0).UTC().Format("2006-01-02T15:04:05Z"))
	if recorded.LeftOut > 0 {
		fmt.Fprintf(out, "; %d are left out, for which there are no nodes now, or not under both policies", recorded.LeftOut)
	}
	fmt.Fprintln(out)
	Print(out, results)
	for _, c := range Worse(results[0], results[1]) {
		fmt.Fprintf(out, "warning: %s would have waited longer: 95 of 100 jobs up to %s, and not %s\n", orNone(c.Name), span(c.After.P95), span(c.Before.P95))
	}
}

// replayed are the parts of a policy that a replay knows, by the beginning of their
// paths.
var replayed = []string{"scheduler.type", "scheduler.bf_", "priority.weight_age", "priority.weight_job_size", "priority.weight_partition", "priority.max_age", "priority.favor_small", "priority.small_relative_to_time", "partitions.", "owners."}

// partial are the parts of a partition that it does not know.
var partial = []string{".allow_", ".network", ".lease_action", ".default", ".preempt_mode", ".grace_time", ".exclusive", ".qos", ".billing", ".bf_checkpoint", ".nested_containers", ".tres_billing"}

// NotReplayed are the paths of changes of which a replay shows nothing.
func NotReplayed(changes []*pb.PolicyChange) []string {
	var paths []string
	for _, change := range changes {
		known := false
		for _, prefix := range replayed {
			known = known || strings.HasPrefix(change.GetPath(), prefix)
		}
		for _, part := range partial {
			known = known && !strings.Contains(change.GetPath(), part)
		}
		if !known {
			paths = append(paths, format.Printable(change.GetPath()))
		}
	}
	return paths
}
