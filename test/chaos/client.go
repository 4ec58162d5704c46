package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// clientLimit bounds a user's command: longer than it tries by itself.
const clientLimit = 90 * time.Second

// as runs one of the user commands as a user would: from no node, over TLS or a
// socket, with some of the controllers in some order.
func (c *cluster) as(ctx context.Context, u user, r *rand.Rand, name string, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clientLimit)
	defer cancel()
	command := exec.CommandContext(ctx, c.program(name), words...)
	command.Dir = c.path(homeFolder, u.name)
	command.Env = []string{
		"PATH=" + c.options.binaries + ":/usr/bin:/bin", "HOME=" + command.Dir, "USER=" + u.name, "LOGNAME=" + u.name,
		"GLEANER_TLS_DIR=" + c.path(tlsFolder, u.name), "GLEANER_CONTROLLER=" + strings.Join(c.targets(r), ","),
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.id), Gid: uint32(u.id)}, Pdeathsig: syscall.SIGKILL}
	command.WaitDelay = 10 * time.Second
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	if err := command.Run(); err != nil {
		return strings.TrimSpace(out.String()), fmt.Errorf("%s %s: %w: %s", name, strings.Join(words, " "), err, strings.TrimSpace(errors.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// targets are at least one controller, in random order, each over TLS or its
// socket.
func (c *cluster) targets(r *rand.Rand) []string {
	var targets []string
	for _, i := range r.Perm(len(c.controllers))[:1+r.IntN(len(c.controllers))] {
		one := c.controllers[i]
		if r.IntN(2) == 0 {
			targets = append(targets, "unix://"+one.socket)
		} else {
			targets = append(targets, fmt.Sprintf("%s:%d", one.host.IP(), userPort))
		}
	}
	return targets
}

// submit submits a job and notes what is known of it.
func (c *cluster) submit(ctx context.Context, r *rand.Rand, number int, j job) (*history.Submission, user) {
	u := users[r.IntN(len(users))]
	return c.submitAs(ctx, r, u, []string{runOn, fenced}[r.IntN(2)], number, j)
}

func (c *cluster) submitAs(ctx context.Context, r *rand.Rand, u user, partition string, number int, j job) (*history.Submission, user) {
	s := &history.Submission{
		Name: fmt.Sprintf("%s-%d", j.kind, number), Kind: j.kind, Tasks: j.tasks, Nodes: j.nodes,
		Requeue: !j.noRequeue, Fence: partition == fenced, ExitCode: j.exit, TimeLimit: j.timeLimit.Microseconds(),
		After: j.after, Parent: j.parent, Licenses: j.licenses, Throttle: j.throttle, Urgent: j.urgent,
	}
	if j.counts {
		s.Counts = int(j.length / recordPulse)
	}
	words := append([]string{
		"--parsable", "-J", s.Name, "-p", partition, "-o", "/dev/null", "--mem=24M",
	}, j.options...)
	words = append(words, "--wrap="+c.script(j))
	c.journal.submitting(s)
	out, err := c.as(ctx, u, r, "gsubmit", words...)
	id, parseErr := strconv.ParseUint(out, 10, 32)
	if err != nil || parseErr != nil {
		c.journal.failed(s)
		c.out.note("submission %s: %v %q", s.Name, err, out)
		return s, u
	}
	c.journal.submitted(s, uint32(id))
	return s, u
}

// recordPath is where jobs see the folder of the records. It is not below /var, whose
// files belong to the system: there a job continues only where they are as they were.
const recordPath = "/srv"

// script is the job's script: record takes the place of the shell, and hears
// its signals.
func (c *cluster) script(j job) string {
	script := fmt.Sprintf("exec %s %s -dir %s -for %s -exit %d", c.options.recorder, j.record, recordPath, j.length, j.exit)
	if j.deaf {
		script += " -deaf"
	}
	return script
}

// follow asks what is to be asked about an accepted job.
func (c *cluster) follow(ctx context.Context, r *rand.Rand, u user, s *history.Submission, j job) {
	select {
	case <-ctx.Done():
		return // the end releases and cancels all that is left
	case <-time.After(j.thenAfter):
	}
	id := fmt.Sprint(s.Job)
	words := []string{"gcontrol", string(j.then), id}
	if j.then == history.Cancel {
		words = []string{"gcancel", id}
	}
	defer c.journal.requesting(j.then, s.Job)()
	if _, err := c.as(context.WithoutCancel(ctx), u, r, words[0], words[1:]...); err != nil {
		c.out.note("%v", err) // refused where the job is over already
	}
}
