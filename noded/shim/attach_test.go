package shim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// A client speaks to process 1 through a tunnel; before a save it is hung up on,
// once process 1 has closed its own end, and meanwhile nobody attaches.
func TestJoinSession(t *testing.T) {
	p, c, _ := relayed(t, uint32(os.Getuid()))
	p.questions = semaphore.NewWeighted(maxQuestions)
	listener, err := listen(p.dir.path(runDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	order := &pb.Connect{Part: p.order.Part, Channel: "channel", Client: true}
	if err := p.joinTunnel(deadline(t), order); status.Code(err) != codes.Unavailable {
		t.Errorf("before the container is up: %v", err)
	}
	p.ready = true
	join := func() net.Conn {
		t.Helper()
		must(t, p.joinTunnel(deadline(t), order))
		if open := <-c.opened; open.Channel != "channel" || open.Part.GetJob() != 12 || open.FromNode != "n1" {
			t.Errorf("opened %v", open)
		}
		conn, err := listener.Accept()
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(prototest.Patience)))
		return conn
	}
	conn := join()
	_, err = conn.Write([]byte("heard back"))
	must(t, err)
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "heard back" {
		t.Errorf("%q, %v", got, err)
	}
	hung := make(chan bool)
	go func() { hung <- p.attached.hangUp(prototest.Patience) }()
	if n, err := conn.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("hung up on: %d, %v", n, err)
	}
	select {
	case <-hung:
		t.Fatal("it is said to be gone while process 1 has its end open")
	case <-time.After(50 * time.Millisecond):
	}
	conn.Close()
	if !<-hung {
		t.Error("a client that is gone is waited for")
	}

	stays := join()
	defer stays.Close()
	if p.attached.hangUp(10 * time.Millisecond) {
		t.Error("a process 1 that keeps its end is not noticed")
	}
	must(t, p.questions.Acquire(deadline(t), maxQuestions))
	if err := p.joinTunnel(deadline(t), order); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "being saved") {
		t.Errorf("while the job is saved: %v", err)
	}
}

// sessionAt attaches to process 1 from the host.
func (s *started) sessionAt(ask step.Message) (*step.Attachment, *step.Attached) {
	t := s.b.t
	t.Helper()
	conn, err := dialJobSocket(context.Background(), s.dir.path(runDir, pid1.StepSocket), testUID, container.HostIDBase)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(prototest.Patience)))
	at := step.NewAttachment(conn)
	t.Cleanup(func() { at.Close() })
	hello, err := at.Begin(ask)
	must(t, err)
	return at, hello
}

// TestSavedSession: a shell at a terminal, with a job in its foreground, goes on
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
	// It waits in the shell itself: a shell whose child ends just as ^C comes goes on.
	say("kept=here; exec 9<> <(:); i=0; (while :; do i=$((i+1)); echo [$i]; read -rt 0.01 -u 9; done)\n")
	until("[20]\r\n")
	at.Close()
	saved := first.save(&pb.SavePart{Number: 1, Then: stand})
	wantSaved(t, saved)
	_, err := first.client().End(context.Background(), endOrder(first))
	must(t, err)
	first.wait()

	second := b.launch(restored(order, saved.Image))
	second.ready()
	b.countsOn()
	// The supervisor reaches process 1 as before.
	_, err = second.client().Signal(context.Background(), &pb.SignalPart{Part: second.order.Part, Signal: 28, Full: true})
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
