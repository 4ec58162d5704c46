package diag

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// writeJSON prints the figures.
func (d *diagnosis) writeJSON(inv *option.Invocation, s show.JSONShape) error {
	return console.Output(show.WriteJSONObject(inv, s, "statistics", d.statistics(s)))
}

// statistics are the figures under the names that slurmrestd has for them.
func (d *diagnosis) statistics(s show.JSONShape) map[string]any {
	type requests = []map[string]any
	types, users := requests{}, requests{}
	for _, r := range d.types {
		types = append(types, map[string]any{"message_type": r.name, "type_id": r.id, "count": r.count, "average_time": s.Count(r.average()), "total_time": r.total,
			"queued": 0, "dropped": 0, "cycle_last": 0, "cycle_max": 0})
	}
	for _, r := range d.users {
		users = append(users, map[string]any{"user": r.name, "user_id": r.id, "count": r.count, "average_time": s.Count(r.average()), "total_time": r.total})
	}
	statistics := map[string]any{
		"req_time": s.Moment(d.GetNowMs()), "req_time_start": s.Moment(d.GetSinceMs()), "job_states_ts": s.Moment(d.GetNowMs()),
		"server_thread_count": d.GetRequestsNow(), "agent_queue_size": d.GetOrdersWaiting(), "agent_count": d.GetNodesConnected(),
		"agent_thread_count": d.GetNodesConnected(), "dbd_agent_queue_size": d.GetRunsWaiting(),
		"jobs_submitted": d.GetSubmitted(), "jobs_started": d.GetStarted(), "jobs_completed": d.GetCompleted(), "jobs_canceled": d.GetCancelled(),
		"jobs_failed": d.GetFailed(), "jobs_pending": d.GetPending(), "jobs_running": d.GetRunning(),
		"schedule_cycle_last": d.GetLastUs(), "schedule_cycle_max": d.GetMaxUs(), "schedule_cycle_sum": d.GetTotalUs(), "schedule_cycle_total": d.GetPasses(),
		"schedule_cycle_mean": d.meanUS(), "schedule_cycle_mean_depth": d.meanDepth(), "schedule_cycle_depth": d.GetDepths(),
		"schedule_cycle_per_minute": d.perMinute(), "schedule_queue_length": d.GetDepth(),
		"bf_backfilled_jobs": d.GetBackfilledEver(), "bf_last_backfilled_jobs": d.GetBackfilled(), "bf_backfilled_het_jobs": 0,
		"bf_cycle_counter": d.GetPasses(), "bf_cycle_last": d.GetLastUs(), "bf_cycle_max": d.GetMaxUs(), "bf_cycle_sum": d.GetTotalUs(), "bf_cycle_mean": d.meanUS(),
		"bf_last_depth": d.GetDepth(), "bf_last_depth_try": d.GetDepth(), "bf_depth_sum": d.GetDepths(), "bf_depth_mean": d.meanDepth(), "bf_depth_mean_try": d.meanDepth(),
		"bf_queue_len": d.GetDepth(), "bf_queue_len_sum": d.GetDepths(), "bf_queue_len_mean": d.meanDepth(), "bf_when_last_cycle": s.Moment(d.GetLastMs()), "bf_active": false,
		"rpcs_by_message_type": types, "rpcs_by_user": users,
		// What no cycle counts here.
		"parts_packed": 0, "gettimeofday_latency": 0, "bf_depth_try_sum": d.GetDepths(), "bf_table_size": 0, "bf_table_size_sum": 0, "bf_table_size_mean": 0,
		"schedule_exit": zeroes("end_job_queue", "default_queue_depth", "max_job_start", "max_rpc_cnt", "max_sched_time", "licenses"),
		"bf_exit":       zeroes("end_job_queue", "bf_max_job_start", "bf_max_job_test", "bf_max_time", "bf_node_space_size", "state_changed"),
		"pending_rpcs":  requests{}, "pending_rpcs_by_hostlist": requests{},
	}
	return statistics
}

func zeroes(names ...string) map[string]int {
	counts := map[string]int{}
	for _, name := range names {
		counts[name] = 0
	}
	return counts
}
