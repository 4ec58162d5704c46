package noded

import (
	"fmt"
	"os"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// heardOutput is what came through a tunnel, to its end.
func heardOutput(t *testing.T, tunnel *fakeTunnel) string {
	t.Helper()
	defer close(tunnel.over)
	var text strings.Builder
	for {
		message, err := tunnel.stream.Recv()
		switch {
		case err != nil:
			t.Errorf("the tunnel broke after %q: %v", text.String(), err)
			return text.String()
		case message.GetHalfClose():
			return text.String()
		case message.GetRefused() != nil:
			fmt.Fprintf(&text, "refused: %s", message.GetRefused().GetReason())
		case message.GetOutputFrom() != nil:
			fmt.Fprintf(&text, "[%d]", message.GetOutputFrom().GetOffset())
		default:
			text.Write(message.GetData())
		}
	}
}

// TestSendOutput: a job's file goes through a tunnel as its user reads it, also when the
// node does not have the job any more; what is in the way is said there.
func TestSendOutput(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: reads as other users")
	}
	dir, err := os.MkdirTemp("", "gleaner-reading-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.WriteFile(dir+"/out", []byte("one\ntwo\n"), 0o600), os.Chown(dir+"/out", 4242, 4242),
		os.WriteFile(dir+"/roots", []byte("x"), 0o644), os.Mkdir(dir+"/hidden", 0o755), os.WriteFile(dir+"/hidden/out", []byte("x"), 0o666), os.Chmod(dir+"/hidden/out", 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	controller, s, _, n := setUp(t, func(m *machine) { m.config.StateDir, m.config.Hide = dir+"/state", []string{dir + "/hidden"} })
	ann := &pb.Identity{Uid: 4242, Gid: 4242, User: "gleaner-ann", Group: "gleaner-ann"}
	one := uint32(1)
	ask := func(change func(*pb.SendOutput)) string {
		t.Helper()
		order := &pb.SendOutput{Alloc: &pb.AllocId{Job: 7, Epoch: 1}, Channel: "c1", Owner: ann, Path: dir + "/out", Read: &pb.ReadOutput{}}
		change(order)
		s.send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendOutput{SendOutput: order}})
		tunnel := prototest.Receive(t, "a tunnel", controller.tunnels)
		if open := tunnel.open; !open.GetOutput() || open.GetChannel() != "c1" || open.GetFromNode() != "n1" || open.GetAlloc().GetJob() != 7 {
			t.Errorf("opened %v", open)
		}
		return heardOutput(t, tunnel)
	}
	for _, c := range []struct {
		want   string
		change func(*pb.SendOutput)
	}{
		{"[0]one\ntwo\n", func(*pb.SendOutput) {}},
		{"[0]one\ntwo\n", func(o *pb.SendOutput) { o.Read.Follow = true }}, // it does not run here
		{"[4]two\n", func(o *pb.SendOutput) { o.Read.Lines = &one }},
		{"[5]wo\n", func(o *pb.SendOutput) { o.Read.Had, o.Read.Last = 5, []byte("t") }},
		{"refused: the request is of no use: it names more of the file than it had", func(o *pb.SendOutput) { o.Read.Had, o.Read.Last = 1, []byte("tt") }},
		{"refused: " + dir + "/none is gone: it was removed or renamed since the job wrote it, or the job never began to write", func(o *pb.SendOutput) { o.Path = dir + "/none" }},
		{"refused: " + dir + "/roots belongs to somebody else, and the job's user may not write to it", func(o *pb.SendOutput) { o.Path = dir + "/roots" }},
		{"refused: " + dir + "/hidden/out lies where jobs on this node do not see it", func(o *pb.SendOutput) { o.Path = dir + "/hidden/out" }},
		{"refused: /dev/zero is no file: what goes to a pipe or a device is kept nowhere", func(o *pb.SendOutput) { o.Path = "/dev/zero" }},
		{"refused: " + dir + ": is a directory", func(o *pb.SendOutput) { o.Path = dir }},
	} {
		if got := ask(c.change); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	stranger := &pb.Identity{Uid: 4242, Gid: 4242, User: "root", Group: "gleaner-ann"}
	if got := ask(func(o *pb.SendOutput) { o.Owner = stranger }); !strings.HasPrefix(got, `refused: user name "root" is somebody else's on this node`) {
		t.Errorf("somebody else by name: %q", got)
	}
	idle := func() {
		t.Helper()
		prototest.Eventually(t, "no reader is left", func() bool {
			n.agent.readers.mu.Lock()
			defer n.agent.readers.mu.Unlock()
			return n.agent.readers.all == 0 && len(n.agent.readers.open) == 0
		})
	}
	idle()
	for range maxReadersOf {
		if err := n.agent.readers.enter(4242); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(func(*pb.SendOutput) {}); !strings.HasPrefix(got, "refused: this node sends 16 outputs of jobs, 16 of this user's") {
		t.Errorf("too many: %q", got)
	}
	for range maxReadersOf {
		n.agent.readers.leave(4242)
	}
	if got := ask(func(*pb.SendOutput) {}); got != "[0]one\ntwo\n" {
		t.Errorf("with room again: %q", got)
	}
	idle()
}
