package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func fuzzOrder() *pb.StartPart {
	task := uint32(3)
	return &pb.StartPart{
		Part: &pb.PartId{Job: 12, Epoch: 1}, Id: &pb.JobId{Job: 12, ArrayTask: &task}, ArrayJobId: 10, RestartCount: 1,
		Array: &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: 7, Step: 2}}},
		Spec: &pb.JobSpec{Name: "train", WorkDirectory: "/home/ann", Environment: []string{"A=1", "SLURM_SUBMIT_DIR=/x"}, StandardOutput: "%x-%A_%a.out",
			Tasks: 4, TasksPerNode: 2, CpusPerTask: 2, MemoryPerCpuBytes: 1 << 20, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 2, Model: "m"}}},
		Owner:      &pb.Identity{Uid: 1000, Gid: 100, User: "ann", Home: "/home/ann"},
		Allocation: []*pb.NodeAllocation{{Node: "n0", CpuIds: []uint32{1}, Tasks: 2}, {Node: "n1", CpuIds: []uint32{0, 1}, Devices: []*pb.AllocatedDevice{{DeviceId: "g", Index: 3}}}},
		Node:       "n1", BatchHost: "n1", KillWaitS: math.MaxUint32, LeaseAction: lease.Fence,
	}
}

// FuzzPart: whatever lies in a part's directory as its order and settings, it
// is refused, or a supervisor can be made of it, whose environment and files
// have bounds, and from which process 1 takes its orders.
func FuzzPart(f *testing.F) {
	settings, err := json.Marshal(&Settings{StateDir: "/s", Node: "n1", CgroupParent: "/gleaner/n1", Controllers: []string{"unix:///x"},
		RealCPUs: []int{0, 1}, DeviceFiles: []DeviceFile{{Path: "/dev/null", ContainerPath: "/dev/g0", Type: 'c', Major: 1, Minor: 3, Access: "rw"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("12.1", prototest.Marshal(fuzzOrder()), settings)
	f.Add("0.0", []byte{}, []byte("{}"))
	f.Add("12.1", prototest.Marshal(fuzzOrder())[:30], []byte(`{"real_cpus":[-1],"device_files":[{"type":-5,"major":-1}],"max_processes":-9}`))
	for _, data := range prototest.Spoiled(fuzzOrder()) {
		f.Add("12.1", data, settings)
	}
	for _, data := range prototest.Hostile[pb.StartPart]() {
		f.Add("1.1", data, settings)
	}
	parent := f.TempDir()
	f.Fuzz(func(t *testing.T, name string, order, settings []byte) {
		if !partName.MatchString(name) {
			return
		}
		d := directory(filepath.Join(parent, name))
		must(t, os.MkdirAll(string(d), 0o700))
		must(t, os.WriteFile(d.path(orderFile), seal(bytes.Clone(order)), 0o600))
		must(t, os.WriteFile(d.path(settingsFile), settings, 0o600))
		h, err := open(d)
		if err != nil {
			return
		}
		if h.Order().GetPart().GetJob() == 0 || partID(h.Order().Part) != name {
			t.Fatalf("%s is taken for part %v", name, h.Order().GetPart())
		}
		p, err := newPart(d, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer p.relay.close()
		checkEnvironment(t, p)
		for _, pattern := range []string{p.order.Spec.GetStandardOutput(), p.defaultOutput()} {
			if path, err := p.expand(pattern); err == nil && len(path) > 2*spec.MaxPathBytes+len(p.order.Spec.GetWorkDirectory()) {
				t.Errorf("a path of %d bytes", len(path))
			}
		}
		if killWait(p.order) < 0 {
			t.Errorf("waits %v before it kills", killWait(p.order))
		}
	})
}

func checkEnvironment(t *testing.T, p *part) {
	batch := &pid1.Batch{Argv: append([]string{"/s"}, p.order.Spec.GetArguments()...), Env: p.batchEnvironment(), Cwd: bytesOf(p.order.Spec.GetWorkDirectory()), Stdout: "/o"}
	filter := pid1.Filter{Program: []unix.SockFilter{{}}}
	var orders bytes.Buffer
	must(t, pid1.WriteOrders(&orders, filter.Encode(), &pid1.Config{Batch: batch, StepEnv: p.stepEnvironment()}))
	_, config, err := pid1.ReadOrders(&orders)
	if err != nil {
		t.Fatalf("process 1 does not take what it is given: %v", err)
	}
	if len(config.Batch.Env) != len(batch.Env) || config.Batch.Cwd != batch.Cwd {
		t.Fatal("process 1 reads something else")
	}
	seen := map[string]bool{}
	for _, entry := range batch.Env {
		name, _, _ := strings.Cut(entry, "=")
		if seen[name] {
			t.Fatalf("%q is set twice", name)
		}
		seen[name] = true
	}
}

// FuzzReports: whatever a job leaves in the files that it can write, and
// whatever lies there as a result, it decides nothing but its own exit status,
// and the words for its user are plain and short.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"code":256,"signal":-1,"start_ms":0,"detail":"\u001b[2J\u009b\u202e"}`), []byte(`{"start_ms":-1}`), []byte{})
	f.Add([]byte(`{"code":3,"start_ms":9223372036854775807}`), []byte(`[]`), prototest.Marshal(&pb.PartEnded{Part: &pb.PartId{Job: 12, Epoch: 1}, ExitCode: 7}))
	f.Add([]byte(`{"code":1e99}`), []byte(`null`), prototest.Marshal(&pb.PartEnded{Part: &pb.PartId{Job: 13}}))
	f.Add([]byte(strings.Repeat("[", 70000)), []byte(nil), []byte("\xff"))
	d := directory(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(d.path(runDir), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, exit, start, ended []byte) {
		must(t, os.WriteFile(d.path(runDir, pid1.ExitFile), exit, 0o600))
		must(t, os.WriteFile(d.path(runDir, pid1.StartFile), start, 0o600))
		must(t, os.WriteFile(d.path(resultFile), seal(bytes.Clone(ended)), 0o600))
		_ = d.startMS()
		if result, err := d.result(); err == nil && partID(result.Part) != "12.1" {
			t.Errorf("a result of part %v", result.Part)
		}
		report := d.exit()
		if report == nil {
			return
		}
		result := &pb.PartEnded{}
		report.fill(result)
		if result.ExitCode > 255 || result.ExitSignal > 127 || len(result.Detail) > 1024 {
			t.Errorf("%v", result)
		}
		if strings.ContainsFunc(result.Detail, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q", result.Detail)
		}
		if _, err := proto.Marshal(result); err != nil {
			t.Errorf("a report that cannot be sent: %v", err)
		}
	})
}

// carried is one end of a relayed tunnel.
type carried struct {
	grpc.ClientStream
	grpc.ServerStream
	first []byte
	sent  [][]byte
}

func (c *carried) Context() context.Context { return context.Background() }
func (c *carried) RecvMsg(m any) error {
	if c.first == nil {
		return io.EOF
	}
	m.(*rawMessage).data, c.first = c.first, nil
	return nil
}

func (c *carried) SendMsg(m any) error {
	c.sent = append(c.sent, m.(*rawMessage).data)
	return nil
}

type (
	incomingEnd struct{ *carried }
)

func (i incomingEnd) Context() context.Context { return i.carried.Context() }
func (i incomingEnd) RecvMsg(m any) error      { return i.carried.RecvMsg(m) }
func (i incomingEnd) SendMsg(m any) error      { return i.carried.SendMsg(m) }

// FuzzSupervisor: whatever gnoded asks of a supervisor whose container is not
// there, and whatever a job opens a tunnel with, the answer is a refusal in
// words; and a tunnel that is opened is one from this part.
func FuzzSupervisor(f *testing.F) {
	part12 := &pb.PartId{Job: 12, Epoch: 1}
	seeds := []proto.Message{
		&pb.ReleaseBatch{Part: part12}, &pb.EndPart{Part: part12, GraceS: math.MaxUint32}, &pb.SignalPart{Signal: 9, Full: true},
		&pb.Connect{Part: part12, Channel: "c", Controller: "unix:///nowhere/x"}, &pb.LeaseRenewed{SentBoottimeNs: math.MaxInt64, LeaseMs: math.MaxUint32}, &pb.ShimUsageRequest{},
		&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Part: &pb.PartId{Job: 99}, FromNode: "x", TargetNode: "n0", Channel: "steal"}}},
	}
	for which, seed := range seeds {
		f.Add(byte(which), prototest.Marshal(seed))
		for _, data := range prototest.Spoiled(seed) {
			f.Add(byte(which), data)
		}
	}
	d := directory(filepath.Join(f.TempDir(), "12.1"))
	if err := os.MkdirAll(d.path(runDir), 0o700); err != nil {
		f.Fatal(err)
	}
	settings, err := json.Marshal(&Settings{Node: "n1", CgroupParent: "/gleaner-nowhere/n1", Controllers: []string{"unix:///nowhere/c"}})
	if err == nil {
		err = errors.Join(os.WriteFile(d.path(settingsFile), settings, 0o600), os.WriteFile(d.path(orderFile), seal(prototest.Marshal(fuzzOrder())), 0o600))
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		p, err := newPart(d, slog.New(slog.DiscardHandler))
		must(t, err)
		defer p.relay.close()
		p.ready = which >= 128
		s := &service{part: p}
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
		case 7:
			_, err = ask(ctx, s.SetLimit, data)
		case 6:
			var target string
			if target, err = targetOf(incomingEnd{&carried{first: append([]byte{}, data...)}}); (err == nil) != (target != "") {
				t.Fatalf("target %q, %v", target, err)
			}
		}
		if s, ok := status.FromError(err); err != nil && (!ok || s.Message() == "" || s.Code() == codes.Unknown) {
			t.Fatalf("not a refusal: %v", err)
		}
		if len(p.relay.calls) != 0 || len(p.relay.tunnels) != 0 {
			t.Fatal("a place stays taken")
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

func checkOpened(t *testing.T, sent [][]byte, err error) {
	t.Helper()
	if (err == nil) != (len(sent) == 1) {
		t.Fatalf("%d messages are passed on, %v", len(sent), err)
	}
	for _, data := range sent {
		m := &pb.TunnelMessage{}
		must(t, proto.Unmarshal(data, m))
		if open := m.GetOpen(); open.GetFromNode() != "n1" || partID(open.GetPart()) != "12.1" || open.GetTargetNode() == "" || open.GetChannel() != "" {
			t.Fatalf("a job opens the tunnel %v", open)
		}
	}
}
