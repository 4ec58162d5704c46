package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// development is a cluster of several controllers and nodes, as "gleaner
// dev" runs it: daemons that are killed are started again.
type development struct {
	binaries  string
	directory string
	targets   []string
	daemon    *daemon
}

func startDevelopment(ctx context.Context, binaries, directory string, controllers, nodes int, more ...string) (_ *development, err error) {
	d := &development{binaries: binaries, directory: directory}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(d.path("dev.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(filepath.Join(binaries, "gleaner"), "dev", "--dir", directory, "--controllers", strconv.Itoa(controllers),
		"--nodes", strconv.Itoa(nodes), "--gpus-per-node", "0", "--cpus-per-node", "16", "--log-level", "warn")
	command.Args = append(command.Args, more...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if d.daemon, err = startDaemon(command, d.launch); err != nil {
		return nil, err
	}
	err = until(ctx, "the controllers and their nodes", 2*startPatience, 20*time.Millisecond, func() (bool, error) {
		select {
		case <-d.daemon.ended:
			return false, errors.New("gleaner dev ended")
		default:
		}
		text, err := os.ReadFile(d.path("dev.log"))
		return bytes.Contains(text, []byte("ready\n")), err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w%s", err, lastWords(d.path("dev.log"))), d.stop())
	}
	for number := range controllers {
		d.targets = append(d.targets, "unix://"+d.path(d.label(fmt.Sprintf("c%d", number+1))+".sock"))
	}
	return d, nil
}

func (d *development) path(name string) string { return filepath.Join(d.directory, name) }

// label is what the files of a controller are called.
func (d *development) label(controller string) string {
	return "gctld" + strings.TrimPrefix(strings.TrimPrefix(controller, "c"), "1")
}

func (d *development) program(what verb, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(d.binaries, gleanerPrograms[what]), arguments...)
	command.Env = append([]string{dial.EnvironmentController + "=" + strings.Join(d.targets, ",")}, plainEnvironment...)
	command.Dir = "/"
	return command
}

func (d *development) launch(command *exec.Cmd) error { return command.Start() }

// controller is the process of the one that leads, 0 while none does.
func (d *development) controller() int {
	for _, target := range d.targets {
		answer := ping(context.Background(), target)
		if answer.GetRole() != "leader" {
			continue
		}
		text, err := os.ReadFile(d.path(d.label(answer.GetPeer()) + ".pid"))
		if err != nil {
			return 0
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
	}
	return 0
}

// answering counts the controllers that answer.
func (d *development) answering(ctx context.Context) int {
	count := 0
	for _, target := range d.targets {
		if ping(ctx, target) != nil {
			count++
		}
	}
	return count
}

func ping(ctx context.Context, target string) *pb.PingResponse {
	connection, err := dial.Dial([]string{target}, "")
	if err != nil {
		return nil
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := pb.NewControllerClient(connection).Ping(ctx, &pb.PingRequest{})
	if err != nil {
		return nil
	}
	return answer
}

// nodesAnswer reports whether both nodes have a session with the leader.
func (d *development) nodesAnswer(ctx context.Context) bool {
	connection, err := dial.Dial(d.targets, "")
	if err != nil {
		return false
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := pb.NewControllerClient(connection).Status(ctx, &pb.StatusRequest{})
	connected := 0
	for _, lease := range answer.GetLeases() {
		if lease.GetConnected() {
			connected++
		}
	}
	return err == nil && connected == 2
}

func (d *development) submitMany(ctx context.Context, l load) (time.Duration, error) {
	return submitTo(ctx, d.targets, l)
}

// stop ends all: gleaner dev complains when something is left.
func (d *development) stop() error {
	err := d.daemon.end()
	if code := d.daemon.command.ProcessState.ExitCode(); code != 0 && err == nil {
		err = fmt.Errorf("gleaner dev ended with status %d%s", code, lastWords(d.path("dev.log")))
	}
	return err
}

// jobsOf lists all jobs, also those that are over.
func (d *development) jobsOf(ctx context.Context) (jobs []*pb.Job, err error) {
	connection, err := dial.Dial(d.targets, "")
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	stream, err := pb.NewControllerClient(connection).ListJobs(ctx, &pb.ListJobsRequest{Filter: &pb.JobFilter{AllStates: true}})
	for err == nil {
		var answer *pb.ListJobsResponse
		if answer, err = stream.Recv(); err == nil {
			jobs = append(jobs, answer.GetJobs()...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return jobs, err
}

// drainNodes keeps jobs waiting.
func (d *development) drainNodes(ctx context.Context) error {
	_, err := run(ctx, d, controlVerb, "update", "nodename=n[1-2]", "state=drain", "reason=benchmark")
	return err
}

// takeMany lets one user submit all that there is to measure.
func (d *development) takeMany(ctx context.Context) error {
	policy := d.path("many.toml")
	if err := os.WriteFile(policy, []byte(gleanerPolicy), 0o644); err != nil {
		return err
	}
	_, err := run(ctx, d, controlVerb, "apply", "--yes", "-f", policy)
	return err
}

// peerLoad is so many clients, and the measure of what they reach.
type peerLoad struct {
	measure measure
	clients int
}

// peers submits to a cluster of one controller and to one of three, in turn, and to as many
// peers of raft alone.
func (b *bench) peers(ctx context.Context) {
	for round := range b.sizes.peerRounds {
		sizes := []int{1, 3}
		if round%2 == 1 {
			sizes = []int{3, 1}
		}
		for _, controllers := range sizes {
			loads := []peerLoad{{peersOne, b.sizes.loaders}, {crowdOne, b.sizes.crowd}}
			if controllers == 3 {
				loads = []peerLoad{{peersThree, b.sizes.loaders}, {crowdThree, b.sizes.crowd}}
			}
			b.peersAlone(ctx, round, controllers, loads)
			on := side{ours, func(ctx context.Context, directory string) (system, error) {
				return ignoreNil(startDevelopment(ctx, b.options.binaries, directory, controllers, 2))
			}}
			what := fmt.Sprintf("submissions to %d controllers, round %d of %d", controllers, round+1, b.sizes.peerRounds)
			b.on(ctx, on, what, []measure{loads[0].measure, loads[1].measure}, func(ctx context.Context, on system) error {
				d := on.(*development)
				if err := errors.Join(d.takeMany(ctx), d.drainNodes(ctx)); err != nil {
					return err
				}
				for _, of := range loads {
					jobs := 10 * b.sizes.manyCalls
					took, err := on.submitMany(ctx, load{jobs: jobs, clients: of.clients, names: alike})
					if err != nil {
						return err
					}
					b.table.add(round, of.measure, ours, float64(jobs)/took.Seconds())
				}
				return nil
			})
		}
	}
}

// background runs f until it is told to end and returns its error then.
func background(ctx context.Context, f func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var err error
	group.Go(func() { err = f(ctx) })
	return func() error { cancel(); group.Wait(); return err }
}
