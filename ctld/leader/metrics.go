package leader

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// metrics count what the leader's loops do, and what the log did while this
// controller led. A sum over all controllers is the cluster's.
type metrics struct {
	pass     prometheus.Histogram
	starts   prometheus.Counter
	dropped  prometheus.Counter
	preempts prometheus.Counter
	requeues *prometheus.CounterVec
	losses   prometheus.Counter
	leases   prometheus.Counter
	saves    saveMetrics
}

func newMetrics() *metrics {
	return &metrics{
		saves: newSaveMetrics(),
		pass: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gleaner_scheduler_pass_seconds", Help: "Time of one scheduling pass: the snapshot and the plan, without its commit.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 17)}),
		starts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_scheduler_starts_total", Help: "Jobs started."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_scheduler_starts_dropped_total", Help: "Planned starts that no longer fitted when they were committed."}),
		preempts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_scheduler_preemptions_total", Help: "Jobs that made room for others: requeued, cancelled or suspended."}),
		requeues: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gleaner_scheduler_requeues_total", Help: "Jobs that wait again after a run, by what ended it: report (the nodes reported its end), node_lost_it (its node registered without it), fenced (somebody vouched that its node is off), lease (the leases of its silent node were ended), other."}, []string{"cause"}),
		leases: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_node_leases_ended_total", Help: "Times that a silent node's leases were ended: its jobs under lease_action fence are started elsewhere."}),
		losses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_node_losses_total", Help: "Times that a node was silent for a lease."}),
	}
}

// requeueCause names the command that made a job wait again.
var requeueCause = map[state.Kind]string{
	state.KindAllocsEnded: "report", state.KindRegisterNode: "node_lost_it", state.KindUpdateNodes: "fenced",
	state.KindLeasesEnded: "lease", state.KindRequeueJobs: "report",
}

// applied counts what one command did.
func (m *metrics) applied(view *state.View, result *state.Result) {
	m.saves.ordered(view, result)
	switch result.Kind {
	case state.KindSubmitJob, state.KindReleaseJobs, state.KindHoldJobs, state.KindPurgeJobs, state.KindCancelJobs, state.KindTopJobs:
		return // jobs that wait after these commands waited before
	case state.KindPlaceJobs:
		for i := range result.Starts {
			if result.Starts[i].Dropped == "" {
				m.starts.Inc()
			} else {
				m.dropped.Inc()
			}
		}
		return
	case state.KindPreemptJobs:
		for i := range result.Preemptions {
			if result.Preemptions[i].Dropped == "" {
				m.preempts.Inc()
			}
		}
		return
	case state.KindNodesLost:
		m.losses.Add(float64(len(result.ChangedNodes)))
	case state.KindLeasesEnded:
		if result.Refused == nil {
			m.leases.Inc()
		}
	}
	for _, id := range result.ChangedJobs {
		if job, known := view.Job(id); known && job.Phase == state.Waiting && job.Restarts > 0 {
			cause, named := requeueCause[result.Kind]
			if !named {
				cause = "other"
			}
			m.requeues.WithLabelValues(cause).Inc()
		}
	}
}

// Collectors are the metrics of this package.
func (l *Leader) Collectors() []prometheus.Collector {
	for _, cause := range requeueCause {
		l.metrics.requeues.WithLabelValues(cause)
	}
	return append(l.metrics.saves.collectors(),
		l.metrics.pass, l.metrics.starts, l.metrics.dropped, l.metrics.preempts, l.metrics.requeues, l.metrics.losses, l.metrics.leases)
}
