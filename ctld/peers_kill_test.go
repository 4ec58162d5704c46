package ctld

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// processes are the controllers of a cluster as processes of their own.
type processes struct {
	*testCluster
	running map[string]*exec.Cmd
}

// startProcesses makes a cluster of three and starts it again as processes.
func startProcesses(t *testing.T, change ...func(*Config)) *processes {
	t.Helper()
	if testing.Short() {
		t.Skip("needs several seconds: it waits for elections")
	}
	p := &processes{testCluster: startCluster(t, 3, func(config *Config) { config.ElectionTimeout = "1s"; config.LogLevel = "error" }), running: make(map[string]*exec.Cmd)}
	for _, name := range p.names() {
		p.stop(name)
	}
	for name, config := range p.configs {
		for _, do := range change {
			do(&config)
		}
		p.configs[name] = config
		p.launch(name)
	}
	return p
}

func (p *processes) launch(name string) {
	p.t.Helper()
	text, err := toml.Marshal(p.configs[name])
	if err != nil {
		p.t.Fatal(err)
	}
	path := filepath.Join(p.dir, name+".toml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "--config", path)
	command.Env = append(os.Environ(), asMain+"=1")
	log, err := os.OpenFile(p.log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	command.Stderr = log
	if err := command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = command.Process.Kill()
		_, _ = command.Process.Wait()
		if text, _ := os.ReadFile(p.log(name)); p.t.Failed() {
			p.t.Logf("%s says:\n%s", name, text)
		}
	})
	p.running[name] = command
}

func (p *processes) log(name string) string { return filepath.Join(p.dir, name+".log") }

func (p *processes) kill(name string) {
	p.t.Helper()
	if err := p.running[name].Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_, _ = p.running[name].Process.Wait()
	delete(p.running, name)
}

// leads waits until one of them says that another one than those given leads.
func (p *processes) leads(except ...string) (leader string) {
	p.t.Helper()
	p.eventually("another one leads", func() bool {
		for name := range p.running {
			if slices.Contains(except, name) {
				continue
			}
			answer, err := p.client(name).Ping(soon(p.t), &pb.PingRequest{})
			if err == nil && answer.GetLeader() == name && !slices.Contains(except, name) {
				leader = name
				return true
			}
		}
		return false
	})
	return leader
}

// TestKilledLeaderLosesNothing kills the controller that leads again and again
// while jobs are submitted: every number that was told is there afterwards,
// once, every job runs once, and who wanted to hear of its end does.
func TestKilledLeaderLosesNothing(t *testing.T) {
	p := startProcesses(t)
	var targets []string
	for _, config := range p.configs {
		targets = append(targets, "unix://"+config.Socket)
	}
	slices.Sort(targets)
	conn, err := dial.Dial(targets, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	node := newFakeNode(t, "n1", time.Millisecond)
	defer keepConnectedTo(node, targets)()

	mailed := os.Geteuid() == 0 // who may change the policy
	if mailed {
		p.sendMail()
	}

	const jobs, clients, kills = 300, 6, 4
	client := pb.NewControllerClient(conn)
	told := make(map[uint32]string)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range jobs / clients {
				request := job(func(r *pb.SubmitRequest) {
					if mailed && rand.IntN(4) == 0 { // a user gets 100 mails in an hour
						r.Spec.MailTypes, r.Spec.Name = uint32(spec.MailEnd), "told"
					}
				})
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
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
			}
		})
	}
	for range kills {
		leader := p.leads()
		begin := time.Now()
		p.kill(leader)
		p.submit(p.leads(leader), job(func(r *pb.SubmitRequest) { r.Spec.Hold = true; r.Spec.Name = "probe" }))
		t.Logf("killed %s: a submission succeeds after %v", leader, time.Since(begin).Round(time.Millisecond))
		p.launch(leader)
		time.Sleep(time.Duration(200+rand.IntN(500)) * time.Millisecond)
	}
	group.Wait()
	p.leads()
	for id := range told {
		waitState(t, conn, id, pb.JobState_JOB_STATE_COMPLETED)
	}
	known := 0
	var awaited []uint32
	for _, job := range list(t, conn, all()) {
		if job.GetSpec().GetName() == "told" {
			awaited = append(awaited, job.GetId().GetJob())
		}
		if job.GetSpec().GetName() != "probe" {
			known++
		}
	}
	if known != jobs || len(told) != jobs {
		t.Errorf("%d jobs were submitted, %d numbers told, %d jobs are known", jobs, len(told), known)
	}
	for id, begun := range node.begun() {
		if begun != 1 {
			t.Errorf("job %d was begun %d times", id, begun)
		}
	}
	if mailed {
		p.checkMail(awaited, kills)
	}
}

// sendMail lets the cluster send mail.
func (p *processes) sendMail() {
	p.t.Helper()
	program := filepath.Join(p.dir, "sendmail")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sed -n 's/^Subject: .*Job_id=\\([0-9]*\\) .*/\\1/p' >> "+p.mails()+"\n"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	// The leader may just have handed the lead over.
	p.eventually("mail is sent", func() bool {
		client := p.client(p.leads())
		config, err := client.ShowConfig(soon(p.t), &pb.ShowConfigRequest{})
		if err != nil {
			return false
		}
		config.GetPolicy().Mail = &pb.MailPolicy{Program: program}
		_, err = client.ApplyPolicy(soon(p.t), &pb.ApplyPolicyRequest{Policy: config.GetPolicy()})
		return err == nil
	})
}

// mails is the file with the numbers of the jobs that were told of.
func (p *processes) mails() string { return filepath.Join(p.dir, "mails") }

// checkMail waits until some jobs are told of, and counts the mails after so many changes
// of leader.
func (p *processes) checkMail(awaited []uint32, changes int) {
	p.t.Helper()
	const atOnce = 16 // mails of which the log does not know
	mails, missing := 0, map[uint32]bool{}
	p.eventually("all are told", func() bool {
		text, _ := os.ReadFile(p.mails())
		mails = 0
		for _, id := range awaited {
			missing[id] = true
		}
		for line := range strings.FieldsSeq(string(text)) {
			id, err := strconv.ParseUint(line, 10, 32)
			if err != nil {
				p.t.Fatal(err)
			}
			mails++
			delete(missing, uint32(id))
		}
		return len(missing) == 0
	})
	p.t.Logf("%d mails about %d jobs", mails, len(awaited))
	if len(awaited) == 0 || mails > len(awaited)+changes*atOnce {
		p.t.Errorf("%d mails about %d jobs", mails, len(awaited))
	}
}

// keepConnectedTo connects a node again, to any of several controllers,
// whenever it loses its own.
func keepConnectedTo(node *fakeNode, targets []string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			conn, err := dial.Dial([]string{targets[i%len(targets)]}, "")
			if err != nil {
				node.t.Error(err)
				return
			}
			if stream, err := node.open(ctx, conn); err == nil {
				node.serve(stream)
			}
			_ = conn.Close()
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-done }
}

// TestPausedLeaderAnswersNothingOld stops the process that leads, lets another
// one be elected and a job be accepted there, and lets the first continue with
// questions waiting: none may be answered from the state before.
func TestPausedLeaderAnswersNothingOld(t *testing.T) {
	p := startProcesses(t)
	hold := func(r *pb.SubmitRequest) { r.Spec.Hold = true }
	for round := range 4 {
		leader := p.leads()
		id := p.submit(leader, job(hold))
		process := p.running[leader].Process
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		later := p.submit(p.leads(leader), job(hold))
		const questions = 32
		type said struct {
			jobs []*pb.Job
			err  error
		}
		answers := make(chan said, questions)
		for range questions {
			go func() {
				jobs, err := tryList(t, p.conns[leader], &pb.ListJobsRequest{Filter: all()})
				answers <- said{jobs, err}
			}()
		}
		time.Sleep(50 * time.Millisecond) // they wait in its socket
		if err := process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range questions {
			answer := <-answers
			if status.Code(answer.err) == codes.Unavailable {
				refused++
				continue
			}
			if answer.err != nil {
				t.Fatalf("round %d: %v", round, answer.err)
			}
			if !slices.ContainsFunc(answer.jobs, func(job *pb.Job) bool { return job.GetId().GetJob() == later }) {
				t.Fatalf("round %d: %s, which led, lists job %d and not job %d, which was accepted meanwhile", round, leader, id, later)
			}
		}
		t.Logf("round %d: of %d questions %d were refused, the others answered as it is now", round, questions, refused)
		p.eventually("it follows", func() bool {
			answer, err := p.client(leader).Ping(soon(t), &pb.PingRequest{})
			return err == nil && answer.GetRole() == "follower" && answer.GetLeader() != ""
		})
	}
}

// TestKilledLeaderIsSucceededAtOnce: the others notice that the process is gone, long before
// they would for want of its heartbeats.
func TestKilledLeaderIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, func(config *Config) { config.ElectionTimeout, config.LogLevel = "8s", "info" })
	for range 3 { // on a busy machine the election timeout may come first
		leader := p.leads()
		p.kill(leader)
		if successor := p.leads(leader); p.says(successor, "the controller that led is gone") {
			return
		}
		p.launch(leader)
	}
	t.Error("nobody noticed it")
}

// TestPausedLeaderIsNotGone: a leader that is slow, or whose connections break, is left to
// the election timeout.
func TestPausedLeaderIsNotGone(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, func(config *Config) { config.ElectionTimeout, config.LogLevel = "1s", "info" })
	leader := p.leads()
	process := p.running[leader].Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	successor := p.leads(leader)
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if p.says(successor, "the controller that led is gone") {
		t.Error("it was said to be gone, and its process was there")
	}
}

func (p *processes) says(name, text string) bool {
	p.t.Helper()
	log, err := os.ReadFile(p.log(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Contains(string(log), text)
}
