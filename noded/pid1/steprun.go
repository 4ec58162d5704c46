package pid1

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

const (
	// outputGrace is how long the end of a task waits for the end of its
	// output, which a process it left behind may hold open.
	outputGrace = 100 * time.Millisecond
	// drainTimeout is how long Done waits for output after everything of the
	// step was killed.
	drainTimeout = 2 * time.Second
	readBytes    = 64 << 10
)

// stepRun is one step's tasks on this node, from Launch to Done.
type stepRun struct {
	number uint32
	conn   net.Conn
	write  sync.Mutex // one frame at a time on conn
	tasks  []*task    // in the order of Launch; fixed after start
	input  inputQueue
	pmi    *pmiServer  // nil = the tasks are not served
	pmix   *pmixServer // likewise, by PMIx
	over   func()

	mu     sync.Mutex // guards task.done, and record
	record step.Record
}

// task is one process of the step.
type task struct {
	rank    uint32
	child   *child
	stdin   *os.File // nil = reads /dev/null
	outputs [2]*os.File
	drained sync.WaitGroup // both outputs have ended
	done    bool
}

// runStep runs one step to its end. over is called when nothing of it runs here, before
// its client hears so.
func (p *process1) runStep(conn net.Conn, reader *step.Reader, launch *step.Launch, over func()) {
	run := &stepRun{number: launch.Step, conn: conn, over: over}
	run.input.init(step.InputWindow)
	run.pmi = newPMI(launch, run.send)
	defer run.pmi.close()
	defer func() { run.pmix.close() }()
	err := p.startPMIx(run, launch)
	if err == nil {
		err = p.startTasks(run, launch)
	}
	if err != nil {
		run.abort()
		run.send(failure(err))
		return
	}
	run.record = beginning(launch.Step, launch.Argv, len(launch.Tasks))
	if share := launch.Share; share != nil {
		run.record.CPUs, run.record.GPUs = len(share.CPUs), len(share.GPUs)
	}
	p.records.write(p.dir, &run.record)
	p.steps.add(run)
	defer p.steps.remove(run)
	started := &step.Started{}
	for _, t := range run.tasks {
		started.Tasks = append(started.Tasks, step.StartedTask{Rank: t.rank, Pid: t.child.pid})
	}
	run.send(started)

	var tasks sync.WaitGroup
	for _, t := range run.tasks {
		t.drained.Add(len(t.outputs))
		for i, stream := range []step.Stream{step.Stdout, step.Stderr} {
			go run.copyOutput(t, t.outputs[i], stream)
		}
		tasks.Go(func() { run.waitTask(t) })
	}
	run.pmi.serve()
	run.pmix.serve()
	go run.pumpInput()
	go run.readClient(p, reader)
	tasks.Wait()
	run.finish(p)
}

// startTasks starts all tasks, or fails; what was started is in run.tasks.
func (p *process1) startTasks(run *stepRun, launch *step.Launch) error {
	ranks := make([]string, len(launch.Tasks))
	for i := range launch.Tasks {
		ranks[i] = strconv.FormatUint(uint64(launch.Tasks[i].Rank), 10)
	}
	number := strconv.FormatUint(uint64(launch.Step), 10)
	gpus, ofStep, err := p.shareOf(launch)
	if err != nil {
		return err
	}
	bound, err := p.bindingOf(launch)
	if err != nil {
		return err
	}
	common := Overlay(launch.Env, p.config.StepEnv, ofStep, []string{
		"SLURM_STEP_ID=" + number, "SLURM_STEPID=" + number, "SLURM_GTIDS=" + strings.Join(ranks, ","),
	})
	for i := range launch.Tasks {
		t, err := p.startTask(run, launch, &launch.Tasks[i], bound, Overlay(common, gpus.ofTask(&launch.Tasks[i])))
		if err != nil {
			return err
		}
		run.tasks = append(run.tasks, t)
	}
	for i, t := range run.tasks {
		if err := t.child.started(programOf(launch, &launch.Tasks[i])[0]); err != nil {
			return err
		}
	}
	return nil
}

// programOf is what a task runs.
func programOf(launch *step.Launch, task *step.Task) []string {
	if len(task.Argv) > 0 {
		return task.Argv
	}
	return launch.Argv
}

func (p *process1) startTask(run *stepRun, launch *step.Launch, spec *step.Task, bound *binding, common []string) (*task, error) {
	cpus, err := bound.ofTask(int(spec.Local))
	if err != nil {
		return nil, err
	}
	env := Overlay(common, spec.Env, []string{
		"SLURM_PROCID=" + strconv.FormatUint(uint64(spec.Rank), 10),
		"SLURM_LOCALID=" + strconv.FormatUint(uint64(spec.Local), 10),
	})
	t := &task{rank: spec.Rank}
	var pmi *os.File
	if run.pmi != nil {
		if pmi, err = run.pmi.add(spec.Rank); err != nil {
			return nil, err
		}
		defer pmi.Close()
		env = Overlay(env, run.pmi.environment(spec, len(launch.Tasks)))
	}
	env = Overlay(env, run.pmix.environment(spec.Rank))
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if launch.Input == step.InputAll || launch.Input == step.InputTask && launch.InputTask == spec.Rank {
		theirs[0], t.stdin, err = os.Pipe()
	} else {
		theirs[0], err = os.Open(os.DevNull)
	}
	for i := range t.outputs {
		if err == nil {
			t.outputs[i], theirs[i+1], err = os.Pipe()
		}
	}
	if err == nil {
		t.child, err = p.start(&command{
			argv: programOf(launch, spec), env: Mirror(env), cwd: string(launch.Cwd), umask: launch.Umask,
			files: [3]uintptr{theirs[0].Fd(), theirs[1].Fd(), theirs[2].Fd()},
			pmi:   pmi, cpus: formatCPUs(cpus), report: bound.report(spec.Rank, spec.Local),
		})
	}
	if err != nil {
		t.closeFiles()
		return nil, err
	}
	return t, nil
}

func (t *task) closeFiles() {
	for _, f := range []*os.File{t.stdin, t.outputs[0], t.outputs[1]} {
		f.Close() // of a nil file it is an error, and no harm
	}
}

// failure puts err in the words of the protocol.
func failure(err error) *step.Failed {
	code := 1
	var exec *execError
	if errors.As(err, &exec) {
		code = int(exec.errno)
	}
	return &step.Failed{Text: err.Error(), Code: code}
}

// copyOutput sends what a task writes until it, and all that inherited its
// output, have closed it.
func (run *stepRun) copyOutput(t *task, f *os.File, stream step.Stream) {
	defer t.drained.Done()
	buffer := make([]byte, readBytes)
	for {
		n, err := f.Read(buffer)
		if n > 0 {
			run.send(&step.Output{Rank: t.rank, Stream: stream, Data: buffer[:n]})
		}
		if err != nil {
			return
		}
	}
}

// waitTask reports the end of one task, after its output if that ends too.
func (run *stepRun) waitTask(t *task) {
	status := <-t.child.ended
	run.mu.Lock()
	t.done = true
	addEnded(&run.record, t.rank, &status)
	run.mu.Unlock()
	t.stdin.Close()
	t.waitDrained(outputGrace)
	exited := &step.Exited{Rank: t.rank}
	if status.Signaled() {
		exited.Signal = int(status.Signal())
	} else {
		exited.Code = status.ExitStatus()
	}
	run.send(exited)
	failed := exited.Code != 0 || exited.Signal != 0
	run.pmi.ended(t.rank, failed)
	run.pmix.ended(t.rank, failed)
}

func (t *task) waitDrained(timeout time.Duration) {
	drained := make(chan struct{})
	go func() { t.drained.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(timeout):
	}
}

// finish kills what the tasks left behind and says Done.
func (run *stepRun) finish(p *process1) {
	for _, t := range run.tasks {
		t.child.signalGroup(unix.SIGKILL)
	}
	deadline := time.Now().Add(drainTimeout)
	for _, t := range run.tasks {
		t.waitDrained(time.Until(deadline))
		t.closeFiles()
	}
	run.input.close()
	run.mu.Lock()
	over(&run.record)
	record := run.record
	run.mu.Unlock()
	p.records.write(p.dir, &record)
	run.over()
	run.send(&step.Done{})
}

// abort undoes a start that failed half-way.
func (run *stepRun) abort() {
	for _, t := range run.tasks {
		t.child.signalGroup(unix.SIGKILL)
		t.child.report.Close()
		t.closeFiles()
	}
	run.input.close()
}

// id implements running.
func (run *stepRun) id() uint32 { return run.number }

// signal signals the tasks that still run; false when there are none.
func (run *stepRun) signal(sig unix.Signal) bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	reached := false
	for _, t := range run.tasks {
		if !t.done {
			t.child.signalGroup(sig)
			reached = true
		}
	}
	return reached
}

// send writes one frame. readClient notices a client that has gone.
func (run *stepRun) send(m step.Message) {
	run.write.Lock()
	defer run.write.Unlock()
	_ = step.Write(run.conn, m)
}

// readClient receives input and signals until the connection ends, which ends
// the tasks.
func (run *stepRun) readClient(p *process1, reader *step.Reader) {
	defer run.kill()
	for {
		m, err := reader.Read()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *step.Input:
			if !run.input.push(inputItem{rank: m.Rank, all: m.All, data: m.Data}) {
				return // more than its window
			}
		case *step.InputEnd:
			if !run.input.push(inputItem{rank: m.Rank, all: m.All, end: true}) {
				return
			}
		case *step.Signal:
			p.signal(m)
		case *step.Fenced:
			run.pmi.fenced(m.Pairs)
			run.pmix.fenced(m.Data)
		default:
			return
		}
	}
}

// kill ends a step whose client has gone.
func (run *stepRun) kill() {
	run.signal(unix.SIGKILL)
	run.conn.Close()
}
