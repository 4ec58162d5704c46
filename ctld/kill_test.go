package ctld

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// startProcess runs gctld as a process of its own and waits until it answers.
func startProcess(t *testing.T, config Config) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], "--data-dir", config.DataDir, "--socket", config.Socket, "--name", config.Name, "--log-level", "error")
	command.Env = append(os.Environ(), asMain+"=1")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _, _ = command.Process.Wait() })
	return command
}

// TestKillLosesNothing kills the controller again and again while jobs are
// submitted: every number that a client was told is there afterwards, once,
// and every job runs once.
func TestKillLosesNothing(t *testing.T) {
	config := configIn(shortDir(t))
	process := startProcess(t, config)
	conn, err := dial.Dial([]string{"unix://" + config.Socket}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pb.NewControllerClient(conn)
	node := newFakeNode(t, "n1", time.Millisecond)
	stopNode := keepConnected(t, node, config)
	defer stopNode()

	const jobs, clients, kills = 400, 8, 6
	var mu sync.Mutex
	told := make(map[uint32]string)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range jobs / clients {
				request := job()
				for {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					answer, err := client.Submit(ctx, request)
					cancel()
					if err == nil {
						mu.Lock()
						if other, twice := told[answer.GetJobId()]; twice {
							t.Errorf("job %d was given to two requests: %s and %s", answer.GetJobId(), other, request.GetRequestId())
						}
						told[answer.GetJobId()] = request.GetRequestId()
						mu.Unlock()
						time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for range kills {
		time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, _ = process.Process.Wait()
		process = startProcess(t, config)
	}
	group.Wait()
	for id := range told {
		waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
	}
	known := list(t, conn, all())
	if len(known) != jobs || len(told) != jobs {
		t.Errorf("%d jobs were submitted, %d numbers told, %d jobs are known", jobs, len(told), len(known))
	}
	runs := pastRuns(t, conn, &pb.ListRunsRequest{Duplicates: true})
	for _, run := range runs {
		if told[run.GetJob().GetId().GetJob()] == "" || run.GetJob().GetState() != pb.JobState_JOB_STATE_COMPLETED {
			t.Errorf("history has %v", run)
		}
		delete(told, run.GetJob().GetId().GetJob())
	}
	if len(runs) != jobs || len(told) != 0 {
		t.Errorf("history has %d runs of %d jobs, and not those of %v", len(runs), jobs, told)
	}
	for id, begun := range node.begun() {
		if begun != 1 {
			t.Errorf("job %d was begun %d times", id, begun)
		}
	}
}

// keepConnected connects a node again whenever it loses its controller.
func keepConnected(t *testing.T, node *fakeNode, config Config) (stop func()) {
	t.Helper()
	conn, err := dial.Dial([]string{"unix://" + config.Socket}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if stream, err := node.open(ctx, conn); err == nil {
				node.serve(stream)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done; _ = conn.Close() }
}
