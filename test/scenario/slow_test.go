package scenario

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func init() {
	commands["submitheld"] = submitHeld
	commands["badclients"] = badClients
	commands["toolarge"] = tooLarge
}

// Of each kind of bad client so many come at once.
const badOnes = 100

// handMade is a client that keeps no limit of its own.
func handMade(ts *testscript.TestScript) *grpc.ClientConn {
	conn, err := grpc.NewClient(ts.Getenv("GLEANER_CONTROLLER"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30)))
	ts.Check(err)
	return conn
}

func heldJob(name string) *pb.SubmitRequest {
	return &pb.SubmitRequest{RequestId: uuid.NewString(), AsUser: "alice", Spec: &pb.JobSpec{
		Name: name, Script: []byte("#!/bin/sh\ntrue\n"), WorkDirectory: "/tmp", Hold: true, Comment: strings.Repeat("long ", 200),
	}}
}

// submitHeld is `submitheld COUNT`: submits held jobs for alice, past gsubmit.
func submitHeld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: submitheld COUNT")
	}
	var count int
	_, err := fmt.Sscan(args[0], &count)
	ts.Check(err)
	conn := handMade(ts)
	defer conn.Close()
	client := pb.NewControllerClient(conn)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const clients = 100
	failures := make(chan error, clients)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range count / clients {
				if _, err := client.Submit(ctx, heldJob("held")); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failures)
	ts.Check(<-failures)
}

// badClients is `badclients SOCKET HOST:PORT PIDFILE SECONDS`: clients that ask
// and never read, connect and say nothing, stop in the middle of a handshake,
// or speak something else. Others are served meanwhile; the controller stays
// small; and within the seconds all of them are cut off.
func badClients(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: badclients SOCKET HOST:PORT PIDFILE SECONDS")
	}
	seconds, err := time.ParseDuration(args[3] + "s")
	ts.Check(err)
	process := "/proc/" + strings.TrimSpace(ts.ReadFile(args[2]))
	before, files := residentBytes(ts, process), openFiles(ts, process)
	deadline := time.Now().Add(patience(seconds))

	over := make(chan error)
	waiting := 0
	start := func(kind string, client func() error) {
		for range badOnes {
			waiting++
			go func() {
				if err := client(); err != nil {
					over <- fmt.Errorf("a client that %s: %w", kind, err)
					return
				}
				over <- nil
			}()
		}
	}
	connect := func(network, address, text string) func() error {
		return func() error { return untilCut(network, address, text, deadline) }
	}
	start("says nothing", connect("unix", args[0], ""))
	start("says nothing over TCP", connect("tcp", args[1], ""))
	start("sends garbage", connect("unix", args[0], "\x00\xff\x80garbage\r\n\r\n"))
	start("speaks HTTP/1", connect("unix", args[0], "GET / HTTP/1.1\r\nHost: gctld\r\n\r\n"))
	start("speaks HTTP/1 over TCP", connect("tcp", args[1], "GET / HTTP/1.1\r\nHost: gctld\r\n\r\n"))
	start("stops in its handshake", connect("tcp", args[1], "\x16\x03\x01\x02\x00\x01\x00"))
	start("shows no certificate", func() error { return withoutCertificate(args[1], deadline) })
	start("never reads", func() error { return neverReads(ts.Getenv("GLEANER_CONTROLLER"), deadline) })

	time.Sleep(time.Second) // all are there now, and none that only dawdles is cut off
	out, err := quietly(ts, "timeout", "120", "gqueue", "-h", "-j", "1", "-o", "%i")
	ts.Check(err)
	if strings.TrimSpace(out) != "1" {
		ts.Fatalf("gqueue beside bad clients: %s", out)
	}
	grown := residentBytes(ts, process) - before
	ts.Logf("%d bad clients of each kind: the controller has grown by %d MiB, to %d descriptors from %d",
		badOnes, grown>>20, openFiles(ts, process), files)
	if grown > badOnes*4<<20 { // a message in the making for each that asked, and what is not yet collected
		ts.Fatalf("the controller has grown by %d MiB", grown>>20)
	}
	for range waiting {
		ts.Check(<-over)
	}
	for openFiles(ts, process) > files+5 {
		if time.Now().After(deadline) {
			ts.Fatalf("%d descriptors are open, before there were %d", openFiles(ts, process), files)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// untilCut sends a text and waits until the other end hangs up.
func untilCut(network, address, text string, deadline time.Time) error {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil // cut already
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it is still connected")
	}
	return nil
}

func withoutCertificate(address string, deadline time.Time) error {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return nil
	}
	defer conn.Close()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("it was let in")
	}
	return nil
}

// neverReads asks for all jobs and reads nothing of the answer until it is
// over.
func neverReads(target string, deadline time.Time) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	stream, err := pb.NewControllerClient(conn).ListJobs(ctx, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true}})
	if err != nil {
		return err
	}
	for state := conn.GetState(); state.String() == "READY" || state.String() == "CONNECTING"; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return errors.New("it is still connected")
		}
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return errors.New("it got all, in no time")
		} else if err != nil {
			return nil
		}
	}
}

func residentBytes(ts *testscript.TestScript, process string) int64 {
	text, err := os.ReadFile(filepath.Join(process, "statm"))
	ts.Check(err)
	var size, resident int64
	_, err = fmt.Sscan(string(text), &size, &resident)
	ts.Check(err)
	return resident * int64(os.Getpagesize())
}

func openFiles(ts *testscript.TestScript, process string) int {
	entries, err := os.ReadDir(filepath.Join(process, "fd"))
	ts.Check(err)
	return len(entries)
}

// tooLarge sends messages over the limits past gsubmit and gnoded, and once as
// they do, and writes what comes back into the file "answers".
func tooLarge(ts *testscript.TestScript, neg bool, args []string) {
	conn := handMade(ts)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leastPatience)
	defer cancel()
	var answers strings.Builder
	note := func(what string, err error) {
		fmt.Fprintf(&answers, "%s: %s: %s\n", what, status.Code(err), status.Convert(err).Message())
	}
	own, err := dial.Dial([]string{ts.Getenv("GLEANER_CONTROLLER")}, "")
	ts.Check(err)
	defer own.Close()
	script := func(conn *grpc.ClientConn, bytes int) error {
		request := heldJob("large")
		request.Spec.Script = append(request.Spec.Script, make([]byte, bytes)...)
		for i := range request.Spec.Script[15:] {
			request.Spec.Script[15+i] = '#'
		}
		_, err := pb.NewControllerClient(conn).Submit(ctx, request)
		return err
	}
	note("script", script(conn, spec.MaxScriptBytes))
	note("message", script(conn, spec.MaxMessageBytes))
	note("message of one's own", script(own, spec.MaxMessageBytes))
	stream, err := pb.NewNodeLinkClient(conn).Session(ctx)
	ts.Check(err)
	register := &pb.Register{Node: "giant", Instance: uuid.NewString(), Inventory: &pb.Inventory{Features: make([]string, 2<<20)}}
	for i := range register.Inventory.Features {
		register.Inventory.Features[i] = fmt.Sprintf("feature-%d", i)
	}
	if err := stream.Send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: register}}); err != nil && !errors.Is(err, io.EOF) {
		note("send", err)
	}
	_, err = stream.Recv()
	note("registration", err)
	if code := status.Code(err); code == codes.OK {
		ts.Fatalf("a giant node was registered")
	}
	ts.Check(os.WriteFile(ts.MkAbs("answers"), []byte(answers.String()), 0o644))
}
