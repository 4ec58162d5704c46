package leader

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// saveMetrics count what becomes of saves and restores while this controller
// leads: only reports that changed something, so nothing counts twice.
type saveMetrics struct {
	begun          *prometheus.CounterVec
	done, failed   prometheus.Counter
	standing       prometheus.Histogram
	restored       prometheus.Counter
	restoresFailed prometheus.Counter
}

func newSaveMetrics() saveMetrics {
	return saveMetrics{
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gleaner_saves_begun_total", Help: "Saves of jobs that were ordered, by what for: interval, asked, move, preemption. Beside those that ended as done or failed some are under way, and some were over with their job."}, []string{"purpose"}),
		done: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_saves_done_total", Help: "Images of jobs that were made."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_saves_failed_total", Help: "Saves of which there is no image: the node said why, or nothing in time."}),
		standing: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gleaner_save_standing_seconds", Help: "For how long jobs were frozen for an image that was made. Those that leave are frozen until it is durable.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 17)}),
		restored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_restores_done_total", Help: "Runs that resumed from an image."}),
		restoresFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_restores_failed_total", Help: "Runs that were to resume from an image and could not: another node, or the image before, is tried."}),
	}
}

func (m *saveMetrics) collectors() []prometheus.Collector {
	for purpose := state.SaveInterval; purpose <= state.SavePreemption; purpose++ {
		m.begun.WithLabelValues(purpose.String())
	}
	return []prometheus.Collector{m.begun, m.done, m.failed, m.standing, m.restored, m.restoresFailed}
}

// ordered counts the saves that a command has begun.
func (m *saveMetrics) ordered(view *state.View, result *state.Result) {
	count := func(id uint32) {
		if job, known := view.Job(id); known && job.Saving() != nil {
			m.begun.WithLabelValues(job.Saving().Purpose.String()).Inc()
		}
	}
	switch result.Kind {
	case state.KindSaveJobs:
		for i := range result.Jobs {
			if result.Jobs[i].Code == state.OK && !result.Repeated {
				count(result.Jobs[i].Job)
			}
		}
	case state.KindPreemptJobs:
		for i := range result.Preemptions {
			if result.Preemptions[i].Saving {
				count(result.Preemptions[i].Job)
			}
		}
	}
}

// reported counts committed reports; view is from before the commit.
func (m *saveMetrics) reported(view *state.View, saved []state.SaveReport, ready []state.AllocRef, ended []state.AllocReport) {
	for i := range saved {
		if saved[i].Digest == (state.Digest{}) {
			m.failed.Inc()
			continue
		}
		m.done.Inc()
		stood := saved[i].StandingMS
		if saved[i].Frozen {
			stood = max(stood, saved[i].PackMS)
		}
		m.standing.Observe(float64(stood) / 1000)
	}
	for _, ref := range ready {
		if job, alloc := view.LiveAlloc(ref); alloc != nil && job.Run.Restore != nil {
			m.restored.Inc()
		}
	}
	for i := range ended {
		if ended[i].Cause == pb.EndCause_END_CAUSE_RESTORE_FAILED {
			m.restoresFailed.Inc()
		}
	}
}
