// Package run is grun, Slurm's srun: it starts the tasks of a step on the nodes of
// its job, passes on their input, output and signals, and ends with their exit
// status.
//
// From outside of the job a step is a session, which package session attends.
// Whatever a node says, grun comes to an end, and failure is never success.
package run

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// runStep is grun.
func runStep(inv *option.Invocation) error {
	inEnvironment, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	typed := inv.Values
	inv.Values = inv.Over(inEnvironment)
	if inv.Text(optMPI) == mpiList {
		return listMPI(inv)
	}
	if wantsSession(inv) {
		return runSession(inv)
	}
	shape, err := readShape(inv.Getenv)
	if err != nil {
		return err
	}
	if len(inv.Operands) == 0 {
		return option.Fail(1, option.Fatal+"No command given to execute.")
	}
	ofAnAllocation(inv, typed)
	request, err := readStepRequest(inv, typed)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, session.Forwarded...)
	defer signal.Stop(signals)
	bind, err := jobspec.ReadGPUBind(inv.Text(jobspec.OptGPUBind))
	if err != nil {
		return err
	}
	if bind.Kind == "" && request.GPUs.Per == grant.PerTask {
		bind = jobspec.GPUBind{Kind: jobspec.GPUBindEach, Count: request.GPUs.Count}
	}
	lines, err := readPrograms(inv)
	if err != nil {
		return err
	}
	wait, err := readWait(inv)
	if err != nil {
		return err
	}
	runner := &stepRunner{
		programs: lines, waitAfter: wait,
		inv: inv, shape: shape, request: request, gpuBind: bind, signals: signals,
		dialer: &stepDialer{shape: shape, controller: inv.Text(option.Controller)},
	}
	// A signal is for the tasks to end by, not for grun to leave them with.
	return runner.run(context.WithoutCancel(inv.Context))
}

// readWait reads --wait; 0 = for ever.
func readWait(inv *option.Invocation) (time.Duration, error) {
	text := inv.Text(jobspec.OptWait)
	if text == "" {
		return 0, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, inv.Fail("Invalid --%s specification: %.40q: type a number of seconds, 0 to wait for ever", jobspec.OptWait, text)
	}
	return time.Duration(seconds) * time.Second, nil
}

// prepareStreams opens what the tasks read and write.
func (r *stepRunner) prepareStreams(number uint32) (input streamMode, err error) {
	tasks := r.tasks()
	input = parseStream(r.inv.Text(jobspec.OptInput), tasks)
	output := parseStream(r.inv.Text(jobspec.OptOutput), tasks)
	failure := parseStream(r.inv.Text(jobspec.OptError), tasks)
	if !r.inv.Given(jobspec.OptError) && output.kind == streamFile {
		failure = output
	}
	r.outputs = &outputs{
		modes:      map[step.Stream]streamMode{step.Stdout: output, step.Stderr: failure},
		writers:    map[step.Stream]io.Writer{step.Stdout: r.inv.Stdout, step.Stderr: r.inv.Stderr},
		unbuffered: r.inv.Given(optUnbuffered) || tasks == 1,
	}
	if r.inv.Given(optLabel) {
		r.outputs.labelWidth = labelWidth(tasks)
	}
	name := func(pattern string, rank uint32) (string, error) {
		path, err := spec.ExpandFileName(pattern, r.fileNames(number, rank))
		return inDirectory(r.directory, path), err
	}
	if err := r.outputs.open(tasks, strings.HasPrefix(r.inv.Text(jobspec.OptOpenMode), "a"), name); err != nil {
		return input, err
	}
	r.inputs, err = openInputs(input, r.inv.Stdin, tasks, name)
	return input, err
}

// fileNames is what the symbols of a file name mean.
func (r *stepRunner) fileNames(number, rank uint32) spec.FileNames {
	place := r.plan[r.nodeOf(rank)]
	count := func(name string) uint32 {
		value, _ := strconv.ParseUint(r.inv.Getenv(name), 10, 32) // absent: 0
		return uint32(value)
	}
	_, isArray := r.inv.Lookup("SLURM_ARRAY_TASK_ID")
	names := spec.FileNames{
		JobID: count("SLURM_JOB_ID"), ArrayJobID: count("SLURM_ARRAY_JOB_ID"), ArrayTask: count("SLURM_ARRAY_TASK_ID"), IsArray: isArray,
		JobName: r.inv.Getenv("SLURM_JOB_NAME"), User: r.inv.Getenv("USER"),
		Node: place.node, NodeIndex: uint32(place.jobIndex), Task: rank, Step: number, InStep: true,
	}
	if names.User == "" {
		names.User, _ = console.UserName(strconv.Itoa(console.UID())) // unknown: none
	}
	return names
}

// environment is what all tasks of the step get; each node adds its own.
func (r *stepRunner) environment(number, umask uint32) ([]string, error) {
	exported, err := jobspec.StepEnvironment(r.inv.Environ, r.inv.Text(jobspec.OptExport))
	if err != nil {
		return nil, err
	}
	var names []string
	var counts []int
	for _, place := range r.plan {
		names = append(names, place.node)
		counts = append(counts, len(place.ranks))
	}
	tasks, nodes, perNode := strconv.Itoa(r.tasks()), strconv.Itoa(len(r.plan)), formatCounts(counts)
	id := strconv.FormatUint(uint64(number), 10)
	distribution := cmp.Or(r.request.Distribution.Kind, grant.Block)
	var all jobspec.Environment
	all.Merge(withoutPMI(exported))
	for _, pair := range [][2]string{
		{"STEP_ID", id}, {"STEPID", id}, {"STEP_NODELIST", spec.FormatHostList(names)}, {"STEP_NUM_NODES", nodes},
		{"STEP_NUM_TASKS", tasks}, {"STEP_TASKS_PER_NODE", perNode}, {"NNODES", nodes}, {"NTASKS", tasks}, {"NPROCS", tasks},
		{"TASKS_PER_NODE", perNode}, {"DISTRIBUTION", distribution}, {"UMASK", fmt.Sprintf("%04o", umask)},
	} {
		all.Set("SLURM_" + pair[0] + "=" + pair[1])
		all.Set("GLEANER_" + pair[0] + "=" + pair[1])
	}
	if cpus := r.inv.Text(jobspec.OptCPUsPerTask); cpus != "" {
		all.Set("SLURM_CPUS_PER_TASK=" + cpus)
		all.Set("GLEANER_CPUS_PER_TASK=" + cpus)
	}
	r.meeting(&all)
	return all.Entries, all.Check()
}
