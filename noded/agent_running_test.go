package noded

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestSignal(t *testing.T) {
	_, s, shims, _ := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	signal := func(alloc *pb.AllocId, token string) *pb.SignalResult {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SignalAlloc{
			SignalAlloc: &pb.SignalAlloc{Alloc: alloc, Signal: 10, Token: token},
		}})
		return expect(s, "SignalResult", (*pb.NodeMessage).GetSignalResult)
	}
	if got := signal(order.Alloc, "a"); got.Token != "a" || got.Error != "" || shim.count("signal") != 1 {
		t.Errorf("answer %v after %d signals", got, shim.count("signal"))
	}
	shim.signalErr = status.Error(codes.FailedPrecondition, "the script is over")
	if got := signal(order.Alloc, "b"); got.Token != "b" || got.Error != "the script is over" {
		t.Errorf("answer %v", got)
	}
	if got := signal(&pb.AllocId{Job: 1, Epoch: 1}, "c"); got.Token != "c" || got.Error == "" {
		t.Errorf("answer %v", got)
	}
}

// TestSetTimeLimit: it reaches the supervisor, after what was ordered before; of
// an allocation that is not here nothing is said.
func TestSetTimeLimit(t *testing.T) {
	_, s, shims, _ := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	for _, alloc := range []*pb.AllocId{{Job: 1, Epoch: 1}, order.Alloc} {
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SetTimeLimit{
			SetTimeLimit: &pb.SetTimeLimit{Alloc: alloc, TimeLimitS: 120},
		}})
	}
	eventually(t, "the supervisor has its limit", func() bool { return shim.count("limit 120") == 1 })
}

func TestTunnelNamesTheController(t *testing.T) {
	_, s, shims, n := setUp(t)
	order := startOrder(12, 1)
	s.start(order)
	shim := shims.get(12, 1)
	shim.ready()
	s.ready()
	s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_Connect{
		Connect: &pb.Connect{Alloc: order.Alloc, Channel: "x"},
	}})
	eventually(t, "the tunnel is joined", func() bool { return shim.count("join") == 1 })
	if got := shim.connects[0]; got.Channel != "x" || got.Controller != "unix://"+n.socket {
		t.Errorf("joined %v", got)
	}
}
