package replica

import (
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are a peer's own counters. raft has counters too, in a registry of
// the whole process and under names that hold other peers' addresses; an
// operator needs only these few.
type metrics struct {
	commit  prometheus.Histogram
	sync    prometheus.Histogram
	leaders prometheus.Counter
}

// diskSeconds are from a good NVMe's fsync to a disk about to fail.
var diskSeconds = prometheus.ExponentialBuckets(0.0001, 2, 16)

func newMetrics() *metrics {
	return &metrics{
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gleaner_raft_commit_seconds", Help: "Time from a command's proposal on the leader until it was on the disks of a majority and applied.", Buckets: diskSeconds}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gleaner_raft_log_write_seconds", Help: "Time of one transaction of the log file, with its fsync; one holds up to 256 commands.", Buckets: diskSeconds}),
		leaders: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gleaner_raft_leader_changes_total", Help: "How often this controller saw another leader, or none."}),
	}
}

// watch counts raft's events. It does so in the filter, which raft calls for
// each event; nothing is delivered.
func (m *metrics) watch(r *raft.Raft) {
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		if _, changed := o.Data.(raft.LeaderObservation); changed {
			m.leaders.Inc()
		}
		return false
	}))
}

// Descriptions of values that are looked up on request.
var (
	termDesc      = prometheus.NewDesc("gleaner_raft_term", "Raft's present term.", nil, nil)
	committedDesc = prometheus.NewDesc("gleaner_raft_commit_index", "Index of the last log entry known here to be committed.", nil, nil)
	appliedDesc   = prometheus.NewDesc("gleaner_raft_applied_index", "Index of the last log entry applied here.", nil, nil)
	leadsDesc     = prometheus.NewDesc("gleaner_raft_is_leader", "1 on the controller that leads, by its own word.", nil, nil)
	knownDesc     = prometheus.NewDesc("gleaner_raft_leader_known", "1 when this controller knows a leader.", nil, nil)
	contactDesc   = prometheus.NewDesc("gleaner_raft_last_contact_seconds", "Time since this controller heard of the leader; 0 on the leader, absent when never.", nil, nil)
	votersDesc    = prometheus.NewDesc("gleaner_raft_voters", "Controllers whose word counts for a majority.", nil, nil)
	ageDesc       = prometheus.NewDesc("gleaner_raft_snapshot_age_seconds", "Age of the newest snapshot; absent when there is none yet.", nil, nil)
	sizeDesc      = prometheus.NewDesc("gleaner_raft_snapshot_bytes", "Size of the newest snapshot.", nil, nil)
	roomDesc      = prometheus.NewDesc("gleaner_raft_disk_full", "1 while the disk has room only to bring to its end what was accepted.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Peer) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{termDesc, committedDesc, appliedDesc, leadsDesc, knownDesc, contactDesc, votersDesc, ageDesc, sizeDesc, roomDesc} {
		out <- desc
	}
	p.metrics.commit.Describe(out)
	p.metrics.sync.Describe(out)
	p.metrics.leaders.Describe(out)
}

// Collect implements prometheus.Collector.
func (p *Peer) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	gauge(termDesc, float64(p.Term()))
	gauge(committedDesc, float64(p.CommitIndex()))
	gauge(appliedDesc, float64(p.AppliedIndex()))
	gauge(leadsDesc, boolean(p.IsLeader()))
	gauge(knownDesc, boolean(p.Leader() != ""))
	if since := p.LastContact(); since >= 0 {
		gauge(contactDesc, since.Seconds())
	}
	if members := p.raft.GetConfiguration(); members.Error() == nil {
		voters := 0
		for _, server := range members.Configuration().Servers {
			if server.Suffrage == raft.Voter {
				voters++
			}
		}
		gauge(votersDesc, float64(voters))
	}
	if made, bytes, ok := p.newestSnapshot(); ok {
		gauge(ageDesc, time.Since(made).Seconds())
		gauge(sizeDesc, float64(bytes))
	}
	gauge(roomDesc, boolean(p.Room(0) != nil))
	p.metrics.commit.Collect(out)
	p.metrics.sync.Collect(out)
	p.metrics.leaders.Collect(out)
}

// newestSnapshot is when the newest snapshot was made, which raft keeps in its
// name alone (TERM-INDEX-MILLISECONDS), and its size.
func (p *Peer) newestSnapshot() (made time.Time, bytes int64, ok bool) {
	kept, err := p.snapshots.List()
	if err != nil || len(kept) == 0 {
		return time.Time{}, 0, false
	}
	ms, err := strconv.ParseInt(kept[0].ID[strings.LastIndexByte(kept[0].ID, '-')+1:], 10, 64)
	return time.UnixMilli(ms), kept[0].Size, err == nil
}

func boolean(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
