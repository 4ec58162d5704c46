package reclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// reclaiming is a controller that has nodes, and shows them further on each time it is
// asked; the last ones stay.
type reclaiming struct {
	pb.UnimplementedControllerServer
	mu    sync.Mutex
	asked []*pb.ReclaimNodesRequest
	shows [][]*pb.Node // first the answer of the command
	away  int          // of the questions, how many are not answered
	lists int
}

func (c *reclaiming) ReclaimNodes(_ context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, request)
	return &pb.ReclaimNodesResponse{Nodes: c.shows[0]}, nil
}

func (c *reclaiming) ListNodes(_ *pb.ListNodesRequest, stream grpc.ServerStreamingServer[pb.ListNodesResponse]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists++; c.lists <= c.away {
		return status.Error(codes.Unavailable, "no controller leads yet")
	}
	if len(c.shows) > 1 {
		c.shows = c.shows[1:]
	}
	return stream.Send(&pb.ListNodesResponse{Nodes: c.shows[0]})
}

// impatient makes greclaim look often, and give up soon after the deadline.
func impatient(t *testing.T) {
	every, report := lookEvery, reportTime
	lookEvery, reportTime = 5*time.Millisecond, 200*time.Millisecond
	t.Cleanup(func() { lookEvery, reportTime = every, report })
}

// begin is when all reclaims of these tests began: long ago by this machine's clock, as
// when that is wrong.
const begin = 1_000_000

func reclaimed(name string, guests ...*pb.ReclaimedGuest) *pb.Node {
	return &pb.Node{Name: name, Reclaim: &pb.Reclaim{Number: 7, By: "ada", AtMs: begin, DeadlineMs: begin + 1000, Guests: guests}}
}

// reclaimedGPUs is a node of which two GPUs are taken back.
func reclaimedGPUs(guests ...*pb.ReclaimedGuest) *pb.Node {
	node := reclaimed("n1", guests...)
	node.Inventory = &pb.Inventory{}
	for i := range uint32(4) {
		node.Inventory.Devices = append(node.Inventory.Devices, &pb.Device{Id: fmt.Sprint("gpu", i), Index: i, Model: "a100"})
	}
	node.Reclaim.Devices = []string{"gpu0", "gpu2"}
	return node
}

func guest(job uint32, fate pb.GuestFate, freed int64) *pb.ReclaimedGuest {
	return &pb.ReclaimedGuest{Id: &pb.JobId{Job: job}, Job: job, User: "bob", Cpus: 2, Gpus: 1, Fate: fate, FreedMs: freed}
}

const (
	park    = pb.GuestFate_GUEST_FATE_PARK
	requeue = pb.GuestFate_GUEST_FATE_REQUEUE
)

func TestReclaimWaits(t *testing.T) {
	impatient(t)
	open := []*pb.Node{reclaimed("n1", guest(1, park, 0), guest(2, requeue, 0))}
	half := []*pb.Node{reclaimed("n1", guest(1, park, begin+180), guest(2, requeue, 0))}
	free := []*pb.Node{reclaimed("n1", guest(1, park, begin+180), guest(2, requeue, begin+215))}
	late := []*pb.Node{reclaimed("n1", guest(1, park, begin+180), guest(2, requeue, begin+1001))}
	lent := []*pb.Node{{Name: "n1"}}
	other := []*pb.Node{reclaimed("n1", guest(1, park, begin+180))}
	other[0].Reclaim.Number = 8
	stuck := []*pb.Node{reclaimed("n1", guest(1, park, 0))}
	stuck[0].Reclaim.Guests[0].Detail = "process 77 does not\x1b[2J die"
	silent := []*pb.Node{reclaimed("n1", guest(1, park, 0))}
	silent[0].NotResponding = true
	two := []*pb.Node{reclaimed("n1", guest(1, park, begin+10)), reclaimed("n2")}
	gpus, gpusFree := []*pb.Node{reclaimedGPUs(guest(1, park, 0))}, []*pb.Node{reclaimedGPUs(guest(1, park, begin+180))}
	for name, row := range map[string]struct {
		line   string
		shows  [][]*pb.Node
		away   int
		status int
		says   []string
		not    string
	}{
		"all leave": {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, open, half, half, free}, 0, 0, []string{
			"n1: job 1 (bob) was parked after 0.18 s\nn1: job 2 (bob) left after 0.21 s\nall hardware of n1 is yours after 0.21 s; the promise was 1s\n"}, "error"},
		"all had left":           {"greclaim n1 --within=1s --wait", [][]*pb.Node{free}, 0, 0, []string{"all hardware of n1 is yours after 0.21 s"}, "error"},
		"no guest":               {"greclaim n2 --within=1s --wait", [][]*pb.Node{{reclaimed("n2")}}, 0, 0, []string{"no guest holds anything there: all hardware is yours", "all hardware of n2 is yours after 0.00 s"}, "error"},
		"two nodes":              {"greclaim n[1-2] --within=1s --wait", [][]*pb.Node{two}, 0, 0, []string{"of n1 is yours after 0.01 s", "of n2 is yours after 0.00 s"}, "error"},
		"quietly":                {"greclaim n1 --within=1s --wait -q", [][]*pb.Node{open, free}, 0, 0, nil, "n1"},
		"too late":               {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, late}, 0, 1, []string{"greclaim: error: all hardware of n1 is yours after 1.00 s, too late: the promise was 1s"}, ""},
		"not at all":             {"greclaim n1 --within=1s --wait", [][]*pb.Node{stuck}, 0, 1, []string{"n1: job 1 (bob) still holds 2 CPUs and 1 GPU; the promise was 1s: process 77 does not?[2J die"}, "\x1b"},
		"the node is silent":     {"greclaim n1 --within=1s --wait", [][]*pb.Node{silent}, 0, 1, []string{"n1 does not respond, and whether its hardware is yours is not known"}, ""},
		"somebody lends it":      {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, lent}, 0, 1, []string{"n1 is lent again: somebody has ended the reclaim"}, "is yours after"},
		"and reclaims it":        {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, other}, 0, 1, []string{"n1 is lent again"}, "is yours after"},
		"the node is forgotten":  {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, {}}, 0, 1, []string{"n1 is lent again"}, ""},
		"nobody leads meanwhile": {"greclaim n1 --within=1s --wait", [][]*pb.Node{open, free}, 3, 0, []string{"all hardware of n1 is yours after 0.21 s"}, "error"},
		"without a terminal":     {"greclaim n1 --within=1s", [][]*pb.Node{open, free}, 0, 0, []string{"greclaim n1 --wait waits for them"}, "is yours after"},
		"JSON has the end":       {"greclaim n1 --within=1s --wait --json", [][]*pb.Node{open, free}, 0, 0, []string{`"free_after_ms":215`, `"kept":true`}, "was parked"},
		"JSON of a broken one":   {"greclaim n1 --within=1s --wait --json", [][]*pb.Node{open, late}, 0, 1, []string{`"free":true`, `"kept":false`}, "was parked"},
		"GPUs only": {"greclaim --gpus=2 --within=1s --wait", [][]*pb.Node{gpus, gpusFree}, 0, 0, []string{
			"n1: reclaimed by ada; gpu:a100:2(IDX:0,2) is yours by", "gpu:a100:2(IDX:0,2) of n1 is yours after 0.18 s; the promise was 1s"}, "all hardware"},
	} {
		t.Run(name, func(t *testing.T) {
			controller := &reclaiming{shows: row.shows, away: row.away}
			target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
			got := stage.Command(t, target, "", nil, strings.Fields(row.line)...)
			out := got.Stdout + got.Stderr
			for _, want := range row.says {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if got.Status != row.status || row.not != "" && strings.Contains(out, row.not) {
				t.Errorf("status %d, want %d, without %q:\n%s", got.Status, row.status, row.not, out)
			}
			if strings.Contains(row.line, "--json") && !json.Valid([]byte(got.Stdout)) {
				t.Errorf("this is no JSON: %s", got.Stdout)
			}
			if len(controller.asked) != 1 || controller.asked[0].RequestId == "" || controller.asked[0].WithinS != 1 {
				t.Errorf("asked for %v", controller.asked)
			}
		})
	}
}

// Whoever stops waiting stops nothing else, and is told so.
func TestReclaimInterrupted(t *testing.T) {
	impatient(t)
	controller := &reclaiming{shows: [][]*pb.Node{{reclaimed("n1", guest(1, park, 0))}}}
	target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	got := stage.CommandIn(ctx, t, target, "", nil, "greclaim", "n1", "--wait")
	if got.Status != 130 || !strings.Contains(got.Stderr, "no longer waiting; n1 stays reclaimed") {
		t.Errorf("%+v", got)
	}
}

// Controllers that stay away do not end the promise: the node keeps it.
func TestReclaimUnheard(t *testing.T) {
	impatient(t)
	clienttest.Impatient(t)
	before := client.QueryTime
	client.QueryTime = 300 * time.Millisecond
	t.Cleanup(func() { client.QueryTime = before })
	controller := &reclaiming{shows: [][]*pb.Node{{reclaimed("n1", guest(1, park, 0))}}, away: 1 << 30}
	target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
	got := stage.Command(t, target, "", nil, "greclaim", "n1", "--wait")
	if got.Status != 1 || !strings.Contains(got.Stderr, "n1 is reclaimed, and its node keeps the deadline; whether all guests have left is not known") {
		t.Errorf("%+v", got)
	}
}

// What is asked for is what was typed.
func TestReclaimAsks(t *testing.T) {
	clienttest.FixTime(t)
	controller := &reclaiming{shows: [][]*pb.Node{{}}}
	target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
	for line, want := range map[string]*pb.ReclaimNodesRequest{
		"greclaim n1":                            {Names: "n1"},
		"greclaim n2,n1,n3 --kill":               {Names: "n[1-3]", Kill: true},
		"greclaim --mine --within 90s --for=4h":  {WithinS: 90, ForS: 4 * 3600},
		"greclaim n1 -n --until=now+1hour":       {Names: "n1", DryRun: true, UntilMs: clienttest.StubNow.Add(time.Hour).UnixMilli()},
		"greclaim --gpus=2":                      {Gpus: 2},
		"greclaim n[1-2] --gpus gpu:a100:3":      {Names: "n[1-2]", Gpus: 3, Model: "a100"},
		"greclaim --mine --gpus A100:1":          {Gpus: 1, Model: "a100"},
		"greclaim n1 --within=24h --until 18:00": {Names: "n1", WithinS: 24 * 3600, UntilMs: clienttest.StubNow.Add(6 * time.Hour).UnixMilli()},
	} {
		controller.asked = nil
		got := stage.Command(t, target, "", nil, strings.Fields(line)...)
		if len(controller.asked) != 1 || got.Status != 0 {
			t.Errorf("%s: %+v", line, got)
			continue
		}
		asked := controller.asked[0]
		want.RequestId = asked.RequestId
		if asked.String() != want.String() {
			t.Errorf("%s asks for %v, want %v", line, asked, want)
		}
	}
}
