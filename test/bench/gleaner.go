package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// The node of either system promises 16 CPUs, however many there are, so that
// many small jobs fit; memory is as little as keeps sixteen of them apart.
const (
	gleanerPolicy = `min_job_age = 3600
# One user submits all that there is to measure, and asks without a pause.
max_submit_jobs_per_user = 2_000_000
max_job_count = 2_000_000
rl_enable = false
[[partition]]
name = "main"
nodes = "ALL"
default = true
def_mem_per_cpu = "64M"
allow_root_jobs = true
`
	controllerTOML = `name = "bench"
data_dir = %q
socket = %q
log_level = "warn"
`
	nodeTOML = `name = "` + hostName + `"
controllers = [%q]
state_dir = %q
ginit = %q
cpus = 16
memory = %q
cgroup_parent = %q
detect_gpus = false
log_level = "warn"
`
)

var gleanerPrograms = map[verb]string{
	submitVerb: "gsubmit", queueVerb: "gqueue", infoVerb: "ginfo", controlVerb: "gcontrol",
	accountVerb: "gacctmgr", reclaimVerb: "greclaim", releaseVerb: "grelease", historyVerb: "gacct",
}

// site is what differs between clusters.
type site struct {
	accounts []string // arguments of gacctmgr, one command each
	policy   string   // cluster.toml
	memory   string   // of the node
}

// gleaner is a running gctld and gnoded.
type gleaner struct {
	binaries  string
	directory string
	parent    string    // control group
	daemons   []*daemon // the controller first
}

// startGleaner starts a cluster in a new directory on the disk, with the
// programs in the folder binaries and its jobs below the control group parent.
func startGleaner(ctx context.Context, binaries, directory, parent string, s site) (_ *gleaner, err error) {
	g := &gleaner{binaries: binaries, directory: directory, parent: parent}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w%s", err, lastWords(g.path("gctld.log"), g.path("gnoded.log"))), g.stop())
		}
	}()
	files := map[string]string{
		"gctld.toml":   fmt.Sprintf(controllerTOML, g.path("gctld"), g.path("gctld.sock")),
		"gnoded.toml":  fmt.Sprintf(nodeTOML, g.target(), g.path("gnoded"), filepath.Join(binaries, "ginit"), s.memory, parent+"/"+hostName),
		"cluster.toml": s.policy,
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(g.path(name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := g.startDaemon("gctld"); err != nil {
		return nil, err
	}
	err = until(ctx, "gctld to lead", startPatience, 20*time.Millisecond, func() (bool, error) {
		_, err := run(ctx, g, queueVerb)
		return err == nil, ctx.Err()
	})
	for _, words := range s.accounts {
		if err == nil {
			_, err = run(ctx, g, accountVerb, append([]string{"-iQ"}, strings.Fields(words)...)...)
		}
	}
	if err == nil {
		_, err = run(ctx, g, controlVerb, "apply", "--yes", "-f", g.path("cluster.toml"))
	}
	if err != nil {
		return nil, err
	}
	if err := g.startDaemon("gnoded"); err != nil {
		return nil, err
	}
	return g, untilUp(ctx, g, g.daemons)
}

func (g *gleaner) path(name string) string { return filepath.Join(g.directory, name) }

func (g *gleaner) target() string { return "unix://" + g.path("gctld.sock") }

// startDaemon starts one in a process group of its own, so that Ctrl-C reaches
// only the benchmark. If that is killed the kernel tells the daemon to end.
func (g *gleaner) startDaemon(name string) error {
	log, err := os.Create(g.path(name + ".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(filepath.Join(g.binaries, name), "--config", g.path(name+".toml"))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	d, err := startDaemon(command, g.launch)
	if err != nil {
		return err
	}
	g.daemons = append(g.daemons, d)
	return nil
}

func (g *gleaner) program(what verb, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(g.binaries, gleanerPrograms[what]), arguments...)
	command.Env = append([]string{dial.EnvironmentController + "=" + g.target()}, plainEnvironment...)
	command.Dir = "/"
	return command
}

func (g *gleaner) launch(command *exec.Cmd) error { return command.Start() }

func (g *gleaner) controller() int { return g.daemons[0].command.Process.Pid }

func (g *gleaner) submitMany(ctx context.Context, l load) (time.Duration, error) {
	return submitTo(ctx, []string{g.target()}, l)
}

// submitTo submits over gRPC on unix sockets, each client by a connection of
// its own, to one controller after another.
func submitTo(ctx context.Context, targets []string, l load) (time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for client := range l.clients {
		group.Go(func() error {
			connection, err := dial.Dial(targets[client%len(targets):][:1], "")
			if err != nil {
				return err
			}
			defer connection.Close()
			controller := pb.NewControllerClient(connection)
			for i := client; i < l.jobs; i += l.clients {
				if _, err := controller.Submit(ctx, smallJob(l, i)); err != nil {
					return fmt.Errorf("submit job %d: %w", i, err)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}

// smallJob is what libslurm/submit.c submits.
func smallJob(l load, number int) *pb.SubmitRequest {
	job := &pb.JobSpec{
		Name: "bench", Script: []byte("#!/bin/sh\nexec /bin/true\n"), Environment: []string{"PATH=/usr/bin:/bin"}, WorkDirectory: "/",
		StandardInput: os.DevNull, StandardOutput: os.DevNull, StandardError: os.DevNull,
		MinNodes: 1, MaxNodes: 1, Tasks: 1, TimeLimitS: 3600, Umask: 0o022, SubmitHost: hostName,
	}
	if l.names == different {
		job.Name = fmt.Sprintf("bench-%d", number)
	}
	if l.tasks > 0 {
		job.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 0, Last: uint32(l.tasks) - 1, Step: 1}}}
	}
	return &pb.SubmitRequest{RequestId: uuid.NewString(), Spec: job}
}

// stop ends the node, its jobs, the controller, and removes what the jobs'
// control groups were made in.
func (g *gleaner) stop() error {
	var all []error
	for i := len(g.daemons) - 1; i >= 0; i-- {
		all = append(all, g.daemons[i].end())
		if i > 0 {
			if output, err := exec.Command(filepath.Join(g.binaries, "gnoded"), "stop-jobs", "--config", g.path("gnoded.toml")).CombinedOutput(); err != nil {
				all = append(all, fmt.Errorf("end what runs on the node: %w: %s", err, output))
			}
		}
	}
	for _, path := range []string{g.parent + "/" + hostName, g.parent} {
		if group, err := cgroup.Open(path); err == nil {
			all = append(all, group.Remove())
		}
	}
	return errors.Join(all...)
}
