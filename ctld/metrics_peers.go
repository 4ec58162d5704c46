package ctld

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gleaner-hpc/gleaner/ctld/peerlink"
)

// peersCollector asks the other controllers how far they are, when this one
// leads: there are a few, and each is asked once for a scrape.
type peersCollector struct {
	cluster *cluster
	peers   *peerlink.Peers
}

// askLimit bounds the wait for all of them.
const askLimit = 2 * time.Second

var (
	reachableDesc = prometheus.NewDesc("gleaner_peer_reachable", "1 when a controller answered the leader just now. Only the leader has it.", []string{"peer"}, nil)
	behindDesc    = prometheus.NewDesc("gleaner_peer_behind", "Commands that a controller has yet to apply, by its own word to the leader. Only the leader has it, of those that answer.", []string{"peer"}, nil)
)

// Describe implements prometheus.Collector.
func (c *peersCollector) Describe(out chan<- *prometheus.Desc) {
	out <- reachableDesc
	out <- behindDesc
}

// Collect implements prometheus.Collector.
func (c *peersCollector) Collect(out chan<- prometheus.Metric) {
	if !c.cluster.IsLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	list := c.peers.List(ctx)
	for _, peer := range list.GetPeers() {
		reachable := 0.0
		if peer.GetReachable() {
			reachable = 1
			behind := max(int64(list.GetAppliedIndex())-int64(peer.GetAppliedIndex()), 0)
			out <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(behind), peer.GetName())
		}
		out <- prometheus.MustNewConstMetric(reachableDesc, prometheus.GaugeValue, reachable, peer.GetName())
	}
}
