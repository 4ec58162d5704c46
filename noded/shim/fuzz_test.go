package shim

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle/bundletest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// FuzzAlloc: whatever lies in an allocation's directory as its order and settings, it
// is refused, or a supervisor can be made of it.
func FuzzAlloc(f *testing.F) {
	bundletest.Seed(f)
	parent := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, order, settings []byte) {
		d, ok := bundletest.Write(t, parent, name, order, settings)
		if !ok {
			return
		}
		p, err := newAlloc(d, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer p.relay.Close()
		if killWait(p.order) < 0 {
			t.Errorf("waits %v before it kills", killWait(p.order))
		}
	})
}

// FuzzSupervisor: whatever gnoded asks of a supervisor whose container is not
// there, the answer is a refusal in words.
func FuzzSupervisor(f *testing.F) {
	alloc12 := &pb.AllocId{Job: 12, Epoch: 1}
	seeds := []proto.Message{
		&pb.ReleaseBatch{Alloc: alloc12}, &pb.EndAlloc{Alloc: alloc12, GraceS: math.MaxUint32}, &pb.SignalAlloc{Signal: 9, Full: true},
		&pb.Connect{Alloc: alloc12, Channel: "c", Controller: "unix:///nowhere/x"}, &pb.LeaseRenewed{SentBoottimeNs: math.MaxInt64, LeaseMs: math.MaxUint32}, &pb.ShimUsageRequest{},
		&pb.SetTimeLimit{Alloc: alloc12, TimeLimitS: 9}, &pb.SuspendAlloc{Alloc: alloc12, Number: 1, Suspended: true},
	}
	for which, seed := range seeds {
		f.Add(byte(which), prototest.Marshal(seed))
		for _, data := range prototest.Spoiled(seed) {
			f.Add(byte(which), data)
		}
	}
	d := bundle.Dir(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(d.Path(bundle.RunDir), 0o700); err != nil {
		f.Fatal(err)
	}
	settings, err := json.Marshal(&bundle.Settings{Node: "n1", CgroupParent: "/gleaner-nowhere/n1", Controllers: []string{"unix:///nowhere/c"}})
	if err == nil {
		err = errors.Join(os.WriteFile(d.Path(bundle.SettingsFile), settings, 0o600), os.WriteFile(d.Path(bundle.OrderFile), bundle.Seal(prototest.Marshal(bundletest.Order())), 0o600))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		p, err := newAlloc(d, slog.New(slog.DiscardHandler))
		must(t, err)
		defer p.relay.Close()
		p.core.Ready = which >= 128
		s := &service{alloc: p}
		switch ctx := context.Background(); which % 8 {
		case 0:
			_, err = ask(ctx, s.StartBatch, data)
		case 1:
			_, err = ask(ctx, s.End, data)
		case 2:
			_, err = ask(ctx, s.Signal, data)
		case 3:
			_, err = ask(ctx, s.JoinTunnel, data)
		case 4:
			_, err = ask(ctx, s.Renew, data)
		case 5:
			_, err = ask(ctx, s.ShowUsage, data)
		case 6:
			_, err = ask(ctx, s.SetLimit, data)
		case 7:
			_, err = ask(ctx, s.Suspend, data)
		}
		if s, ok := status.FromError(err); err != nil && (!ok || s.Message() == "" || s.Code() == codes.Unknown) {
			t.Fatalf("not a refusal: %v", err)
		}
	})
}

func ask[Q any, P interface {
	*Q
	proto.Message
}, A any](ctx context.Context, method func(context.Context, P) (A, error), data []byte) (A, error) {
	request := P(new(Q))
	if proto.Unmarshal(data, request) != nil {
		var none A
		return none, nil
	}
	return method(ctx, request)
}
