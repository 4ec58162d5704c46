package ctld

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md from the registry")

// metricsDocument explains the metrics; the table in it is the registry's.
var metricsDocument = filepath.Join("..", "docs", "metrics.md")

const (
	tableBegin = "<!-- written by go test ./ctld -run TestMetricsDocument -rewrite -->\n"
	tableEnd   = "<!-- end -->\n"
)

// TestMetricsDocument: the page names every metric that a controller has, as
// the registry has it.
func TestMetricsDocument(t *testing.T) {
	server := startServer(t, configIn(shortDir(t)))
	registry, err := server.registry("test")
	if err != nil {
		t.Fatal(err)
	}
	conn := connectTo(t, server.Addresses()[0], "")
	submit(t, conn, job())
	if err := server.cluster.peer.Snapshot(); err != nil { // there is an age of one now
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "gleaner_") {
			continue
		}
		labels := []string{}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()), strings.Join(labels, ", "), family.GetHelp()))
	}
	slices.Sort(rows)
	text, err := os.ReadFile(metricsDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", metricsDocument)
	}
	want := before + tableBegin + "| metric | type | labels | what it says |\n|---|---|---|---|\n" + strings.Join(rows, "") + tableEnd + after
	if *rewrite {
		if err := os.WriteFile(metricsDocument, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s does not say what the registry has: run go test ./ctld -run TestMetricsDocument -rewrite", metricsDocument)
	}
	for _, path := range []string{"../contrib/grafana/gleaner.json", "../contrib/prometheus/gleaner.rules.yml"} {
		checkNamesIn(t, path, want)
	}
}

// checkNamesIn fails for a metric in a file that the page does not name.
func checkNamesIn(t *testing.T, path, document string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`gleaner_[a-z0-9_]+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Errorf("%s names no metric", path)
	}
	for _, name := range names {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !strings.Contains(document, "`"+name+"`") {
			t.Errorf("%s uses %s, which is no metric", path, name)
		}
	}
}

func scrape(t *testing.T, server *Server) string {
	t.Helper()
	answer, err := http.Get("http://" + server.web.Address().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
	return string(text)
}

// sample is the value of one series, "" when it is not there.
func sample(text, series string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return value
		}
	}
	return ""
}

// TestMetrics: a job's way from its submission to its end can be counted.
func TestMetrics(t *testing.T) {
	config := configIn(shortDir(t))
	config.MetricsListen = "127.0.0.1:0"
	server := startServer(t, config)
	conn := connectTo(t, server.Addresses()[0], "")
	submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Hold = true }))
	done := submit(t, conn, job())
	wantSamples(t, server, map[string]string{
		`gleaner_jobs{partition="main",state="waiting"}`: "2", `gleaner_jobs_held`: "1", `gleaner_raft_is_leader`: "1", `gleaner_raft_voters`: "1",
		`gleaner_raft_leader_known`: "1", `gleaner_raft_last_contact_seconds`: "0", `gleaner_raft_disk_full`: "0", `gleaner_nodes{state="registered"}`: "0",
		`gleaner_api_requests_total{code="OK",method="Submit"}`: "2", `gleaner_api_request_seconds_count{method="Submit"}`: "2",
	})
	node := newFakeNode(t, "n1", time.Millisecond)
	stop := node.connect(conn)
	waitState(t, conn, done, pb.JobState_JOB_STATE_COMPLETED)
	wantSamples(t, server, map[string]string{
		`gleaner_jobs{partition="main",state="waiting"}`: "1", `gleaner_jobs{partition="main",state="running"}`: "0", `gleaner_jobs_remembered`: "1",
		`gleaner_nodes{state="registered"}`: "1", `gleaner_nodes{state="connected"}`: "1", `gleaner_scheduler_starts_total`: "1",
	})
	wantSamples(t, server, map[string]string{
		`gleaner_saves_begun_total{purpose="move"}`: "0", `gleaner_saves_done_total`: "0", `gleaner_save_standing_seconds_count`: "0",
		`gleaner_restores_failed_total`: "0", `gleaner_images`: "0", `gleaner_image_bytes`: "0",
	})
	stop()
	client := pb.NewControllerClient(conn)
	if _, err := client.UpdateNode(soon(t), &pb.UpdateNodeRequest{Names: "n1", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateNode(soon(t), &pb.UpdateNodeRequest{Names: "nosuch", Action: pb.NodeAction_NODE_ACTION_DRAIN, Reason: "test"}); err == nil {
		t.Error("a node that nobody has was drained")
	}
	wantSamples(t, server, map[string]string{
		`gleaner_nodes{state="drained"}`: "1", `gleaner_api_node_updates_total{action="drain"}`: "1", `gleaner_api_node_updates_total{action="fenced"}`: "0",
		`gleaner_api_requests_total{code="NotFound",method="UpdateNode"}`: "1",
	})
	text := scrape(t, server)
	for _, some := range []string{"gleaner_raft_commit_seconds_count", "gleaner_raft_log_write_seconds_count", "gleaner_scheduler_pass_seconds_count", "gleaner_raft_applied_index", "process_open_fds", "go_goroutines"} {
		if value := sample(text, some); value == "" || value == "0" {
			t.Errorf("%s is %q", some, value)
		}
	}
	bounded := []string{"action", "bound", "cause", "code", "health", "le", "method", "partition", "peer", "purpose", "quantile", "state", "version"}
	for _, label := range regexp.MustCompile(`(?m)^[^#][^{\n]*\{.*\}`).FindAllString(text, -1) {
		for _, name := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(label, -1) {
			if !slices.Contains(bounded, name[1]) {
				t.Errorf("%s has a label that is not known to be bounded", label)
			}
		}
	}
}

// wantSamples waits until the metrics say what they should: some of it is
// counted a moment after a client has its answer.
func wantSamples(t *testing.T, server *Server, want map[string]string) {
	t.Helper()
	wrong := ""
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		text := scrape(t, server)
		wrong = ""
		for series, value := range want {
			if got := sample(text, series); got != value {
				wrong += fmt.Sprintf("%s is %q and should be %q\n", series, got, value)
			}
		}
		if wrong == "" {
			return
		}
	}
	t.Fatal(wrong)
}

// TestMetricsRequeue: what brings a job back to the queue is counted by its
// cause.
func TestMetricsRequeue(t *testing.T) {
	config := configIn(shortDir(t))
	config.MetricsListen = "127.0.0.1:0"
	server := startServer(t, config)
	conn := connectTo(t, server.Addresses()[0], "")
	node := newFakeNode(t, "n1", time.Hour)
	defer node.connect(conn)()
	id := submit(t, conn, job(func(r *pb.SubmitRequest) { r.Spec.Requeue = true }))
	waitState(t, conn, id, pb.JobState_JOB_STATE_RUNNING)
	answer, err := pb.NewControllerClient(conn).Control(soon(t), &pb.ControlRequest{Verb: pb.ControlVerb_CONTROL_VERB_REQUEUE, Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}}})
	if err != nil || len(answer.GetResults()) != 1 || answer.GetResults()[0].GetError() != "" {
		t.Fatal(answer, err)
	}
	wantSamples(t, server, map[string]string{`gleaner_scheduler_requeues_total{cause="report"}`: "1", `gleaner_scheduler_requeues_total{cause="fenced"}`: "0"})
}

// TestMetricsAddress: what is in the way is said with its key, and what a
// client does there costs little.
func TestMetricsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := configIn(shortDir(t))
	config.MetricsListen = taken.Addr().String()
	if _, err := Start(config, "test", silentLog()); err == nil || !strings.Contains(err.Error(), "another metrics_listen") {
		t.Errorf("a taken address: %v", err)
	}
	config.MetricsListen = "nonsense"
	if err := config.Check(); err == nil || !strings.Contains(err.Error(), "metrics_listen") {
		t.Errorf("no address: %v", err)
	}
	config.MetricsListen = "127.0.0.1:0"
	server := startServer(t, config)
	for _, request := range []string{
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"GET /debug/pprof/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", server.web.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, request)
		head := make([]byte, 12)
		if _, err := io.ReadFull(conn, head); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 4") && !strings.HasPrefix(string(head), "HTTP/1.1 5") {
			t.Errorf("%.30q is answered %q, %v", request, head, err)
		}
		_ = conn.Close()
	}
	scrape(t, server)
}

func silentLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
