package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// A client speaks to process 1 through a tunnel; before a save it is disconnected,
// once process 1 has closed its own end, and meanwhile nobody attaches.
func TestJoinSession(t *testing.T) {
	r, c, _ := relayed(t, uint32(os.Getuid()))
	listener, err := socket.Listen(r.Dir.Path(bundle.RunDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	order := &pb.Connect{Alloc: r.Order.Alloc, Channel: "channel", Client: true, Use: true, Measured: &pb.NodeSteps{Steps: []*pb.StepPart{{Step: 7}}}}
	join := func() net.Conn {
		t.Helper()
		must(t, r.Join(deadline(t), order))
		if open := <-c.opened; open.Channel != "channel" || open.Alloc.GetJob() != 12 || open.FromNode != "n1" {
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
	if measured := prototest.Receive(t, "what the node has measured", c.measured); measured.GetSteps()[0].GetStep() != 7 {
		t.Errorf("what the node has measured came as %v", measured)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "heard back" {
		t.Errorf("%q, %v", got, err)
	}
	hung := make(chan bool)
	go func() { hung <- r.attached.hangUp(prototest.Patience) }()
	if n, err := conn.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("disconnected: %d, %v", n, err)
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
	if r.attached.hangUp(10 * time.Millisecond) {
		t.Error("a process 1 that keeps its end is not noticed")
	}
	must(t, r.questions.Acquire(deadline(t), maxQuestions))
	if err := r.Join(deadline(t), order); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "being saved") {
		t.Errorf("while the job is saved: %v", err)
	}
	r.questions.Release(maxQuestions)
}

// TestHangUp: before a job is parked clients leave, and nobody attaches until it has its
// devices again; a process 1 that keeps its end delays it no longer than it may.
func TestHangUp(t *testing.T) {
	r, c, _ := relayed(t, uint32(os.Getuid()))
	listener, err := socket.Listen(r.Dir.Path(bundle.RunDir, pid1.StepSocket), os.Getuid(), os.Getgid())
	must(t, err)
	defer listener.Close()
	order := &pb.Connect{Alloc: r.Order.Alloc, Channel: "channel", Client: true}
	join := func() net.Conn {
		t.Helper()
		must(t, r.Join(deadline(t), order))
		<-c.opened
		conn, err := listener.Accept()
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(prototest.Patience)))
		return conn
	}
	conn := join()
	hung := make(chan bool)
	go func() { r.HangUp(prototest.Patience); close(hung) }()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("disconnected: %d, %v", n, err)
	}
	conn.Close()
	<-hung
	if err := r.Join(deadline(t), order); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "parked") {
		t.Errorf("while the job is parked: %v", err)
	}
	r.Admit()
	stays := join()
	defer stays.Close()
	begun := time.Now()
	r.HangUp(20 * time.Millisecond)
	if took := time.Since(begun); took > prototest.Patience/2 {
		t.Errorf("a process 1 that keeps its end delays it by %v", took)
	}
}
