package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// testJob is a job over some nodes, each with a stand-in for process 1 that
// speaks the step protocol and starts real processes.
type testJob struct {
	t       *testing.T
	sockets map[string]string // of each node
	target  string            // controller that joins tunnels
	mu      sync.Mutex
	tickets uint64
	book    *grant.Book
	// refuse makes a node drop its connection after Launch.
	refuse map[string]bool
}

func newTestJob(t *testing.T, nodes ...string) *testJob {
	job := &testJob{t: t, sockets: map[string]string{}, refuse: map[string]bool{}}
	directory, err := os.MkdirTemp("", "gleaner")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	var all grant.Job
	for _, node := range nodes {
		all.Nodes = append(all.Nodes, grant.Node{Name: node, CPUs: 4})
		job.sockets[node] = filepath.Join(directory, node)
		listener, err := net.Listen("unix", job.sockets[node])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				go job.serve(node, connection)
			}
		}()
	}
	job.book = grant.NewBook(all)
	job.target = clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterNodeLinkServer(server, &tunnels{job: job}) })
	return job
}

// environ is the environment of the batch script on the first node.
func (j *testJob) environ(node string, more ...string) []string {
	base := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "SLURM_JOB_ID=7", "GLEANER_JOB_ID=7", "SLURM_JOB_NAME=test",
		fmt.Sprintf("SLURM_JOB_NODELIST=n[1-%d]", len(j.sockets)), fmt.Sprintf("SLURM_JOB_CPUS_PER_NODE=4(x%d)", len(j.sockets)),
		"SLURMD_NODENAME=" + node, "GLEANER_STEP_SOCKET=" + j.sockets[node],
	}
	return append(base, more...)
}

// run runs grun on the first node.
func (j *testJob) run(stdin string, arguments ...string) clienttest.Outcome {
	return command(j.t, j.target, stdin, j.environ("n1"), append([]string{"grun"}, arguments...)...)
}

func (j *testJob) serve(node string, connection net.Conn) {
	defer connection.Close()
	reader := step.NewReader(connection)
	for {
		message, err := reader.Read()
		if err != nil {
			return
		}
		switch message := message.(type) {
		case *step.Allocate:
			if node != "n1" {
				return
			}
			j.mu.Lock()
			j.tickets++
			ticket := j.tickets
			granted, err := j.book.Ask(ticket, &message.Request)
			for err == nil && granted == nil { // what was before is about to end
				j.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				j.mu.Lock()
				j.book.Leave(ticket)
				granted, err = j.book.Ask(ticket, &message.Request)
			}
			j.mu.Unlock()
			defer func() {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.book.Leave(ticket)
			}()
			if err != nil {
				_ = step.Write(connection, &step.Failed{Text: err.Error(), Code: 1})
				return
			}
			_ = step.Write(connection, &step.Granted{Grant: *granted})
		case *step.Port:
			_ = step.Write(connection, &step.Failed{Text: "it has none", Code: 1})
		case *step.Release:
			_ = step.Write(connection, &step.OK{})
		case *step.Launch:
			if j.refuse[node] {
				return
			}
			(&nodeStep{connection: connection, node: node}).run(reader, message)
			return
		}
	}
}

// nodeStep is one step on one node.
type nodeStep struct {
	connection net.Conn
	node       string
	mu         sync.Mutex
	inputs     map[uint32]io.WriteCloser
	processes  []*exec.Cmd
}

func (s *nodeStep) send(message step.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = step.Write(s.connection, message)
}

func (s *nodeStep) run(reader *step.Reader, launch *step.Launch) {
	s.inputs = map[uint32]io.WriteCloser{}
	if _, err := exec.LookPath(launch.Argv[0]); err != nil {
		s.send(&step.Failed{Text: "execve(): " + launch.Argv[0] + ": No such file or directory", Code: 2})
		return
	}
	var tasks sync.WaitGroup
	for _, task := range launch.Tasks {
		process := exec.Command(launch.Argv[0], launch.Argv[1:]...)
		process.Dir = string(launch.Cwd)
		process.Env = append(append(append([]string{}, launch.Env...), task.Env...),
			"SLURMD_NODENAME="+s.node, fmt.Sprintf("SLURM_PROCID=%d", task.Rank), fmt.Sprintf("SLURM_LOCALID=%d", task.Local))
		process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if launch.Input == step.InputAll || launch.Input == step.InputTask && launch.InputTask == task.Rank {
			s.inputs[task.Rank], _ = process.StdinPipe()
		}
		process.Stdout = &taskWriter{s, task.Rank, step.Stdout}
		process.Stderr = &taskWriter{s, task.Rank, step.Stderr}
		if err := process.Start(); err != nil {
			s.send(&step.Failed{Text: err.Error(), Code: 1})
			return
		}
		s.processes = append(s.processes, process)
		tasks.Go(func() {
			_ = process.Wait()
			status := process.ProcessState.Sys().(syscall.WaitStatus)
			exited := &step.Exited{Rank: task.Rank, Code: max(status.ExitStatus(), 0)}
			if status.Signaled() {
				exited.Signal = int(status.Signal())
			}
			s.send(exited)
		})
	}
	s.send(&step.Started{})
	go s.listen(reader)
	tasks.Wait()
	s.send(&step.Done{})
}

func (s *nodeStep) listen(reader *step.Reader) {
	defer s.signal(syscall.SIGKILL)
	for {
		message, err := reader.Read()
		if err != nil {
			return
		}
		switch message := message.(type) {
		case *step.Signal:
			s.signal(syscall.Signal(message.Signal))
		case *step.Input:
			for rank, input := range s.inputs {
				if message.All || rank == message.Rank {
					_, _ = input.Write(message.Data)
				}
			}
			s.send(&step.InputCredit{Bytes: uint32(len(message.Data))})
		case *step.InputEnd:
			for rank, input := range s.inputs {
				if message.All || rank == message.Rank {
					_ = input.Close()
				}
			}
		}
	}
}

func (s *nodeStep) signal(number syscall.Signal) {
	for _, process := range s.processes {
		_ = syscall.Kill(-process.Process.Pid, number)
	}
}

type taskWriter struct {
	step   *nodeStep
	rank   uint32
	stream step.Stream
}

func (w *taskWriter) Write(data []byte) (int, error) {
	w.step.send(&step.Output{Rank: w.rank, Stream: w.stream, Data: data})
	return len(data), nil
}

// tunnels joins a tunnel to the node that it names.
type tunnels struct {
	pb.UnimplementedNodeLinkServer
	job *testJob
}

func (s *tunnels) Tunnel(stream grpc.BidiStreamingServer[pb.TunnelMessage, pb.TunnelMessage]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	connection, err := net.Dial("unix", s.job.sockets[first.GetOpen().GetTargetNode()])
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		<-ctx.Done()
		_ = connection.Close()
	}()
	go func() {
		for {
			message, err := stream.Recv()
			if err != nil {
				_ = connection.Close()
				return
			}
			_, _ = connection.Write(message.GetData())
		}
	}()
	buffer := make([]byte, 1000) // frames come in pieces
	for {
		n, err := connection.Read(buffer)
		if n > 0 {
			if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: buffer[:n]}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
		}
		if err != nil {
			return err
		}
	}
}

// sorted are the lines of a text in order, for output that tasks wrote at the
// same time.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "|")
}
