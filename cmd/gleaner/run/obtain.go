package run

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// obtain gets the step's part of the job, and waits for it if others have it. The
// connection, to process 1 of the batch host, is what holds the part.
func (r *stepRunner) obtain(ctx context.Context) error {
	holder, err := r.dialer.dial(ctx, r.shape.nodes[0])
	if err != nil {
		return err
	}
	granted, err := r.await(holder)
	if err == nil {
		r.number = granted.Step
		r.plan, err = r.shape.laidOut(granted)
	}
	if err != nil {
		_ = holder.Close()
		return err
	}
	r.holder = holder
	if !r.inv.Given(jobspec.OptQuiet) {
		for _, warning := range granted.Warnings {
			r.say("warning: %s", warning)
		}
	}
	return nil
}

// await asks for the part.
func (r *stepRunner) await(holder *step.Client) (*grant.Grant, error) {
	type answer struct {
		granted *grant.Grant
		err     error
	}
	answers, waits := make(chan answer, 1), make(chan struct{}, 1)
	go func() {
		granted, err := holder.Allocate(r.request, func() { waits <- struct{}{} })
		answers <- answer{granted, err}
	}()
	late := time.After(startTime)
	immediate, err := r.immediate()
	if err != nil {
		return nil, err
	}
	waited := false
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return nil, r.refused(a.err.Error())
			}
			if waited && !r.inv.Given(jobspec.OptQuiet) {
				r.say("Step created for job %s", r.shape.job)
			}
			return a.granted, nil
		case <-waits:
			waited, late = true, nil
			if immediate == nil && !r.inv.Given(jobspec.OptQuiet) {
				r.say("Job %s step creation temporarily disabled, retrying (Requested nodes are busy)", r.shape.job)
			}
		case <-immediate:
			return nil, r.refused("Requested nodes are busy")
		case <-late:
			return nil, r.refused("no answer within " + startTime.String())
		case sig := <-r.signals:
			number, _ := sig.(syscall.Signal)
			r.say("Cancelled pending job step with signal %d", int(number))
			return nil, r.refused("Job/step already completing or completed")
		}
	}
}

// refused has what nodes say as the rest of Slurm's sentence; what has a sentence of
// its own keeps it.
func (r *stepRunner) refused(text string) error {
	var nodes, asked int
	if n, _ := fmt.Sscanf(text, "Only allocated %d nodes asked for %d", &nodes, &asked); n == 2 {
		return option.Fail(1, "%s", text)
	}
	return option.Fail(1, "Unable to create step for job %s: %s", r.shape.job, text)
}

// immediateS is what --immediate alone means.
const immediateS = 1

// immediate ends the patience of a step that was asked for with --immediate; nil = it
// has no end.
func (r *stepRunner) immediate() (<-chan time.Time, error) {
	if !r.inv.Given("immediate") {
		return nil, nil
	}
	seconds := uint64(immediateS)
	if text := r.inv.Text("immediate"); text != "" {
		var err error
		if seconds, err = strconv.ParseUint(text, 10, 31); err != nil {
			return nil, r.inv.Fail("Invalid --immediate specification: %.40q: type a number of seconds", text)
		}
	}
	return time.After(time.Duration(seconds) * time.Second), nil
}

// releaseTime is how long process 1 has to say that the part is back.
const releaseTime = 5 * time.Second

// release gives the part back, so that the next step of a script finds it.
func (r *stepRunner) release() {
	if r.holder == r.clients[0] {
		return // it is back before the node says that it is done
	}
	_ = within(releaseTime, r.holder, r.holder.Release)
}

// connect reaches every node of the step.
func (r *stepRunner) connect(ctx context.Context) error {
	for _, place := range r.plan {
		if len(r.plan) == 1 && place.jobIndex == 0 {
			r.clients = append(r.clients, r.holder)
			break
		}
		client, err := r.dialer.dial(ctx, place.node)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, client)
	}
	if r.inv.Given(jobspec.OptVerbose) {
		for _, place := range r.plan {
			r.say("step %s.%d: %s: %s", r.shape.job, r.number, place.node, taskWords(place.ranks))
		}
	}
	return nil
}

// workDirectory is where the tasks start.
func (r *stepRunner) workDirectory() error {
	var err error
	if r.directory, err = os.Getwd(); err != nil {
		return fmt.Errorf("the current directory cannot be told: %w; name one with --chdir", err)
	}
	if given := r.inv.Text(jobspec.OptChdir); given != "" {
		r.directory = inDirectory(r.directory, given)
	}
	return nil
}
