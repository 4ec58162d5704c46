package policy

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

// TestDefaultPolicyIsTheOneDocumented: contrib/cluster.toml says what each key
// is when it is left out; a new cluster begins with just that. Only the memory
// of jobs that ask for none is other: without a policy it is Slurm's default,
// all of the node.
func TestDefaultPolicyIsTheOneDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../contrib/cluster.toml")
	if err != nil {
		t.Fatal(err)
	}
	var documented map[string]any
	if err := toml.Unmarshal(text, &documented); err != nil {
		t.Fatal(err)
	}
	p := Default()
	main, rate := p.Partitions[0], p.Rate.InForce()
	if main.DefaultMemoryPerCPU != 0 {
		t.Errorf("a new cluster gives jobs %d bytes per CPU: say so in contrib/cluster.toml", main.DefaultMemoryPerCPU)
	}
	up := map[bool]string{true: "up", false: "down"}
	want := map[string]any{
		"cluster_name": p.ClusterName, "administrators": []any{},
		"min_job_age": int64(p.MinJobAgeS), "kill_wait": int64(p.KillWaitS), "lease": int64(p.LeaseS), "lease_margin": int64(p.MarginS()), "image_wait": int64(p.ImageWaitS()),
		"max_array_size": int64(p.MaxArraySize), "max_job_count": int64(p.MaxJobCount),
		"max_submit_jobs_per_user": int64(p.MaxSubmitJobs()),
		"rl_enable":                !rate.Off, "rl_bucket_size": int64(rate.Bucket), "rl_refill_rate": int64(rate.Refill),
		"rl_refill_period": int64(rate.PeriodS), "rl_table_size": int64(rate.Table), "rl_log_freq": int64(rate.LogFreqS),
		"partition": []any{map[string]any{
			"name": main.Name, "nodes": main.Nodes, "default": main.Default, "state": up[main.Up],
			"max_time": "UNLIMITED", "default_time": "", "priority_tier": int64(main.PriorityTier),
			"def_mem_per_cpu": "2G", "def_mem_per_gpu": "", "allow_root_jobs": main.AllowRootJobs, "lease_action": main.LeaseAction,
			"allow_groups": []any{}, "allow_accounts": []any{}, "allow_qos": []any{},
			"priority_job_factor": int64(main.jobFactor()), "tres_billing_weights": "", "qos": main.QOS,
			"preempt_mode": "", "grace_time": int64(main.GraceTimeS), "exclusive": "", "network": "", "network_allow": []any{}, "network_rate": "", "bf_checkpoint": main.BfCheckpoint, "nested_containers": main.NestedContainers,
		}},
		"priority": map[string]any{
			"weight_age": int64(p.Priority.WeightAge), "weight_assoc": int64(p.Priority.WeightAssociation),
			"weight_fair_share": int64(p.Priority.WeightFairShare), "weight_job_size": int64(p.Priority.WeightJobSize),
			"weight_partition": int64(p.Priority.WeightPartition), "weight_qos": int64(p.Priority.WeightQOS),
			"weight_tres": map[string]any{}, "max_age": clockOf(p.Priority.maxAgeS()), "decay_half_life": clockOf(p.Priority.HalfLifeS()),
			"favor_small": p.Priority.FavorSmall, "small_relative_to_time": p.Priority.SmallRelativeToTime, "max_tres": p.Priority.MaxTRES,
			"usage_reset_period": p.Priority.UsageReset.String(),
		},
		"preempt": map[string]any{"type": preemptTypeWord(p.Preempt.Type), "mode": "off", "exempt_time": int64(p.Preempt.ExemptTimeS), "guest_exempt_time": int64(p.Preempt.GuestExemptTimeS)},
		"scheduler": map[string]any{
			"type": p.Scheduler.word(), "bf_job_part_count_reserve": int64(p.Scheduler.Scheduled().PartJobs), "bf_max_job_test": int64(p.Scheduler.Scheduled().MaxJobs),
			"bf_max_job_array_resv": int64(p.Scheduler.Scheduled().ArrayTasks), "bf_shortest_first": p.Scheduler.ShortestFirst,
			"replay_runs": int64(p.Scheduler.KeptRuns()), "replay_age": "28-0", "predict": "none", "enable_user_top": p.Scheduler.UserTop,
		},
		"accounting":   map[string]any{"enforce": []any{}},
		"private_data": []any{}, "def_mem_per_cpu": "", "def_mem_per_gpu": "", "network": p.SiteNetwork().String(), "network_allow": []any{}, "network_rate": "",
		"gang_range": p.GangRange.Prefixes().V4.String(), "gang_range6": p.GangRange.Prefixes().V6.String(),
	}
	if d := cmp.Diff(want, documented); d != "" {
		t.Error(d)
	}
}
