package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container/programs"
)

// run is one run of a program as a job.
type run struct {
	name       string
	dir        string
	moves      []migration
	refusal    string // of a program that cannot be saved: the reason it was told
	outcome    outcome
	difference string // from the undisturbed run; empty if there is none
	err        error  // it was not run to its end
}

// Files of a run's directory.
const (
	outputFile     = "out"
	complaintsFile = "err"
)

// run runs a program to its end, and moves it at some moments.
func (c *cluster) run(ctx context.Context, p *programs.Program, name string, moments []moment) *run {
	r := &run{name: name, dir: filepath.Join(c.user.HomeDir, p.Name+"-"+name)}
	job, err := c.submit(ctx, p, r.dir)
	if err != nil {
		r.err = err
		return r
	}
	if r.err = c.disturb(ctx, p, r, job, moments); r.err == nil {
		r.err = c.finish(ctx, p, r, job)
	}
	if r.err != nil {
		_, err := c.command(context.WithoutCancel(ctx), "/", "gcancel", job)
		r.err = errors.Join(fmt.Errorf("job %s, in %s: %w", job, r.dir, r.err), err)
	}
	return r
}

// submit makes the run's directory and submits the job.
func (c *cluster) submit(ctx context.Context, p *programs.Program, dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := p.Put(ctx, dir); err != nil {
		return "", err
	}
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, c.uid, c.gid))
	})
	if err != nil {
		return "", err
	}
	words := []string{
		"gsubmit", "--parsable", "--job-name=" + p.Name, "--output=" + outputFile, "--error=" + complaintsFile,
		"--mem=" + p.Memory, "--cpus-per-task=1", "--time=30", fmt.Sprintf("--nodes=%d", p.Nodes),
		"--gpus-per-node=1", // whose files, numbers and names are others on each node
	}
	if p.Private {
		words = append(words, "--network=private")
	}
	return c.command(ctx, dir, append(append(words, p.Options...), programs.Script)...)
}

// disturb waits until the program is at its work, and moves it.
func (c *cluster) disturb(ctx context.Context, p *programs.Program, r *run, job string, moments []moment) error {
	for i, m := range moments {
		if i == 0 {
			if err := c.begun(ctx, r, job, m.early); err != nil {
				return err
			}
		}
		if err := pause(ctx, m.after); err != nil {
			return err
		}
		verb := "migrate"
		if p.Nodes > 1 { // where it would continue had to be said
			verb = "checkpoint"
		}
		moved, err := c.save(ctx, verb, job)
		if err != nil {
			return err
		}
		if p.Refused != nil {
			return c.refused(ctx, p, r, job, moved)
		}
		r.moves = append(r.moves, moved)
	}
	return c.begun(ctx, r, job, false)
}

// begun waits until the job runs, and until the program says that it is ready
// unless that is early enough.
func (c *cluster) begun(ctx context.Context, r *run, job string, early bool) error {
	return until(ctx, "it is ready", func() (bool, error) {
		if !early && r.ready() {
			return true, nil
		}
		s, err := c.state(ctx, job)
		if err == nil && s.over() {
			err = fmt.Errorf("it is over already: %s, exit status %s; it printed %s", s.name, s.exit, r.lastWords())
		}
		return early && s.name == "RUNNING", err
	})
}

func (r *run) ready() bool {
	text, err := os.ReadFile(filepath.Join(r.dir, outputFile))
	return err == nil && strings.Contains("\n"+string(text), "\n"+programs.Ready+"\n")
}

// lastWords is the end of what the job printed.
func (r *run) lastWords() string {
	const most = 400
	var text string
	for _, name := range []string{outputFile, complaintsFile} {
		data, _ := os.ReadFile(filepath.Join(r.dir, name)) // it may not be there
		text += string(data[max(0, len(data)-most):])
	}
	return fmt.Sprintf("%q", text)
}

// refused looks at the answer to a migration of what cannot be saved. What has
// several parts is requeued instead, and all of them begin again.
func (c *cluster) refused(ctx context.Context, p *programs.Program, r *run, job string, m migration) error {
	if m.Done || !p.Refused.MatchString(m.Error) {
		return fmt.Errorf("it should have been refused because of %q, and was answered: moved %t, %q", p.Refused, m.Done, m.Error)
	}
	r.refusal = m.Error
	if p.Nodes == 1 {
		return nil
	}
	if _, err := c.command(ctx, "/", "gcontrol", "requeue", job); err != nil {
		return err
	}
	return until(ctx, "all its parts run again", func() (bool, error) {
		s, err := c.state(ctx, job)
		return s.restarts == 1 && s.name == "RUNNING" && r.ready(), err
	})
}

// finish lets the program come to its end, and looks at what it leaves.
func (c *cluster) finish(ctx context.Context, p *programs.Program, r *run, job string) error {
	if p.Refused == nil && len(r.moves) == 0 {
		if err := errors.Join(c.begun(ctx, r, job, false), pause(ctx, time.Second)); err != nil {
			return err
		}
	} else if err := c.begun(ctx, r, job, false); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, programs.Go), nil, 0o644); err != nil {
		return err
	}
	var end state
	err := until(ctx, "it ends", func() (over bool, err error) {
		end, err = c.state(ctx, job)
		return end.over(), err
	})
	if err != nil {
		return err
	}
	r.outcome, err = outcomeOf(r.dir, end)
	return err
}

// over reports whether the job is.
func (s state) over() bool {
	switch s.name {
	case "PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "REQUEUED", "":
		return false
	}
	return true
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
