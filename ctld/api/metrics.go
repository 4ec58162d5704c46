package api

import (
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// metrics count requests. Labels are a method of ours, one of gRPC's codes, a
// bound or an action by name: nothing that a client chooses.
type metrics struct {
	requests *prometheus.CounterVec
	passedOn *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	updates  *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gleaner_api_requests_total", Help: "Requests answered here, by method and gRPC code. Streams count when they end."}, []string{"method", "code"}),
		passedOn: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gleaner_api_requests_passed_on_total", Help: "Requests that the leader answered for this controller, by method."}, []string{"method"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gleaner_api_request_seconds", Help: "Time to answer, by method. Of streams only the lists: the others last as long as their client likes.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}, []string{"method"}),
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gleaner_api_node_updates_total", Help: "Words of administrators about nodes, by action: drain, resume, down, fenced."}, []string{"action"}),
	}
}

// refusals count what was refused before it became a request. Listeners have no
// server yet when they refuse, so it belongs to the process.
var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "gleaner_api_refusals_total",
	Help: "What was refused or cut off because of a bound: requests at once or too often, connections or bytes, of one user; handshakes under way, credentials of munge to decode, an answer that nobody read.",
}, []string{"bound"})

// Bounds, as the label names them.
const (
	boundRequests    = "user_requests"
	boundRate        = "user_rate"
	boundConnections = "user_connections"
	boundHandshakes  = "handshakes"
	boundUnread      = "unread_answer"
	boundMunge       = "munge"
	boundBytes       = "user_bytes"
)

// fill creates every series at the start: one that appears with its first event
// shows no increase.
func (m *metrics) fill() {
	for _, service := range []grpc.ServiceDesc{pb.Controller_ServiceDesc, pb.NodeLink_ServiceDesc, pb.PeerLink_ServiceDesc} {
		for _, method := range service.Methods {
			m.requests.WithLabelValues(method.MethodName, codes.OK.String())
			m.seconds.WithLabelValues(method.MethodName)
			m.passedOn.WithLabelValues(method.MethodName)
		}
		for _, stream := range service.Streams {
			m.requests.WithLabelValues(stream.StreamName, codes.OK.String())
		}
	}
	for number := range pb.NodeAction_name {
		if action := pb.NodeAction(number); action != pb.NodeAction_NODE_ACTION_UNSPECIFIED {
			m.updates.WithLabelValues(actionWord(action))
		}
	}
	for _, bound := range []string{boundRequests, boundRate, boundConnections, boundHandshakes, boundUnread, boundMunge, boundBytes} {
		refusals.WithLabelValues(bound)
	}
}

// Collectors are the metrics of this package.
func (s *Server) Collectors() []prometheus.Collector {
	s.metrics.fill()
	return []prometheus.Collector{s.metrics.requests, s.metrics.passedOn, s.metrics.seconds, s.metrics.updates, refusals}
}

// endless are the streams that their client ends.
var endless = map[string]bool{
	pb.Controller_Follow_FullMethodName: true, pb.NodeLink_Session_FullMethodName: true, pb.NodeLink_Tunnel_FullMethodName: true,
}

func (m *metrics) answered(l line) {
	name := path.Base(l.method)
	if l.leader != "" {
		m.passedOn.WithLabelValues(name).Inc()
		return
	}
	m.requests.WithLabelValues(name, status.Code(l.err).String()).Inc()
	if !endless[l.method] {
		m.seconds.WithLabelValues(name).Observe(time.Since(l.begin).Seconds())
	}
}
