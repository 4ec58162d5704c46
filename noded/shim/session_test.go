package shim

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// sessionAt attaches to process 1 from the host.
func (s *started) sessionAt(ask step.Message) (*step.Attachment, *step.Attached) {
	t := s.b.t
	t.Helper()
	conn, err := socket.DialJob(context.Background(), s.inside(bundle.RunDir, pid1.StepSocket), testUID, container.HostIDBase)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(prototest.Patience)))
	at := step.NewAttachment(conn)
	t.Cleanup(func() { at.Close() })
	hello, err := at.Begin(ask)
	must(t, err)
	return at, hello
}

// TestSavedSession: a shell at a terminal, with a job in its foreground, resumes
// elsewhere; what it wrote neither skips nor repeats.
func TestSavedSession(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	at, hello := first.sessionAt(&step.Open{
		Name: "name", Client: "client", Window: &step.Window{Rows: 30, Columns: 90}, Cwd: "/",
		Argv: step.Strings{"bash", "--norc", "-i"}, Env: step.Strings{"PATH=/usr/bin:/bin", "TERM=dumb", "PS1=$ "},
	})
	var out strings.Builder
	has := hello.Output
	until := func(want string) {
		t.Helper()
		for !strings.Contains(out.String(), want) {
			m, err := at.Next()
			if err != nil {
				t.Fatalf("%v after %q, before %q", err, out.String(), want)
			}
			if o, ok := m.(*step.Output); ok {
				out.Write(o.Data)
				has += uint64(len(o.Data))
			}
		}
	}
	say := func(text string) { must(t, at.Send(&step.Input{All: true, Data: []byte(text)})) }
	until("$ ")
	// It waits in the shell itself: a shell whose child ends just as ^C comes continues.
	say("kept=here; exec 9<> <(:); i=0; (while :; do i=$((i+1)); echo [$i]; read -rt 0.01 -u 9; done)\n")
	until("[20]\r\n")
	at.Close()
	second := first.move(1)
	b.countsOn()
	// The supervisor reaches process 1 as before.
	_, err := second.client().Signal(context.Background(), &pb.SignalAlloc{Alloc: second.order.Alloc, Signal: 28, Full: true})
	must(t, err)
	at, hello = second.sessionAt(&step.Attach{Step: 0, Name: "name", Client: "client", Output: &has, Window: &step.Window{Rows: 40, Columns: 100}})
	if hello.Output != has || !hello.Terminal {
		t.Errorf("attached to %+v, which has %d", hello, has)
	}
	until("[60]\r\n")
	say("\x03")
	until("^C\r\n$ ")
	say("echo $kept; stty size; tty\n")
	until("here\r\n40 100\r\n/dev/pts/0\r\n")
	for i, line := range strings.Split(out.String()[strings.Index(out.String(), "[1]\r\n"):strings.LastIndex(out.String(), "]\r\n")], "\r\n") {
		if want := "[" + strconv.Itoa(i+1); strings.TrimSuffix(line, "]") != want {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	_, err = second.client().End(context.Background(), endOrder(second))
	must(t, err)
	second.wait()
}
