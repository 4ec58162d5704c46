package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Options of a Helper. The zero value of all but Command is right for a
// machine.
type Options struct {
	Command     []string      // starts a program that calls Main: {"/usr/sbin/gnoded", cuda.Word}
	Library     string        // the driver's; "" = DefaultLibrary
	Proc        string        // where proc(5) is mounted; "" = /proc
	LockTimeout time.Duration // until GPU work that was begun has ended; 0 = 10 s
	CopyTimeout time.Duration // for one process's memory, one way; 0 = 5 min
	StartTime   time.Duration // patience with a new helper process; 0 = 1 min
	AnswerTime  time.Duration // for what takes no time, and beside what does; 0 = 10 s
}

const (
	// tries is how often what must be undone, or given back, is tried.
	tries = 3
	// betweenTries lets a driver that was just interrupted settle.
	betweenTries = 100 * time.Millisecond
)

// Helper is the Parker of a machine with a driver. It starts its process when
// it is first needed. It may be used from several goroutines; one is served at
// a time.
type Helper struct {
	driver client
	proc   string
	lock   time.Duration
	copy   time.Duration
	turn   chan struct{} // holds one token: whose turn it is to park or unpark
}

// NewHelper makes one; nothing is started yet.
func NewHelper(o Options) *Helper {
	h := &Helper{
		driver: client{
			command: o.Command, library: cmp.Or(o.Library, DefaultLibrary), environ: helperEnvironment(os.Environ()),
			start: cmp.Or(o.StartTime, time.Minute), margin: cmp.Or(o.AnswerTime, 10*time.Second),
		},
		proc: cmp.Or(o.Proc, "/proc"), lock: cmp.Or(o.LockTimeout, 10*time.Second), copy: cmp.Or(o.CopyTimeout, 5*time.Minute),
		turn: make(chan struct{}, 1),
	}
	h.turn <- struct{}{}
	return h
}

// Start starts the helper process before it is needed, and says whether the
// driver can do it: the error wraps ErrNoDriver, ErrTooOld or ErrHelper. A GPU
// without persistence mode can be restored to only once it has been called.
// version is that of CUDA, 12080 for 12.8.
func (h *Helper) Start(ctx context.Context) (version int, err error) {
	if err := h.driver.hello(ctx); err != nil {
		return 0, err
	}
	return int(h.driver.version), nil
}

// Close ends the helper process. A later call starts another.
func (h *Helper) Close() error {
	h.driver.close()
	return nil
}

func (h *Helper) take(ctx context.Context) (release func(), err error) {
	select {
	case <-h.turn:
		return func() { h.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// errEnded is what a step says of a process that has ended.
var errEnded = errors.New("the process has ended")

// Park implements Parker.
func (h *Helper) Park(ctx context.Context, pids []int) (Parked, error) {
	release, err := h.take(ctx)
	if err != nil {
		return Parked{}, err
	}
	defer release()
	users, err := Users(h.proc, pids)
	if err != nil || len(users) == 0 {
		return Parked{}, err
	}
	if users, err = h.ready(ctx, users); err != nil || len(users) == 0 {
		return Parked{}, err
	}
	for _, step := range []struct {
		call string
		want State
	}{{callLock, Locked}, {callCheckpoint, Checkpointed}} {
		for i := 0; i < len(users) && err == nil; {
			err = h.step(ctx, &users[i], request{Call: step.call}, step.want)
			if errors.Is(err, errEnded) {
				users, err = slices.Delete(users, i, i+1), nil
				continue
			}
			i++
		}
	}
	if err == nil {
		return Parked{Processes: users}, nil
	}
	// The caller may no longer wait, but the processes must run again.
	if stuck := h.free(context.WithoutCancel(ctx), users, nil); len(stuck) > 0 {
		return Parked{Processes: users}, &StuckError{Stuck: stuck, Cause: err}
	}
	return Parked{}, err
}

// ready answers those of the processes that use CUDA indeed, all running. Of
// one that a former attempt has left parked, it is undone first.
func (h *Helper) ready(ctx context.Context, users []Process) ([]Process, error) {
	var use, left []Process
	for _, p := range users {
		state, err := h.state(ctx, &p)
		var refused *CallError
		switch {
		case errors.Is(err, errEnded):
		case errors.As(err, &refused) && !p.Devices:
			// It has the library and has not used it.
		case errors.As(err, &refused) && refused.Code == codeNotInitialized:
			return nil, &HoldsError{p.PID, "has NVIDIA devices open and does not use CUDA itself: it asks the driver about GPUs, or was forked by a process that uses CUDA and keeps what that had open: end it, or start it before CUDA is used (in Python, with the start method forkserver or spawn)", err}
		case errors.As(err, &refused):
			return nil, &HoldsError{p.PID, "has an NVIDIA device open, and not through CUDA alone: end it, or let it close the device", err}
		case err != nil:
			return nil, err
		case state == Failed:
			return nil, &StuckError{Stuck: []Stuck{{PID: p.PID, State: Failed}}, Cause: errors.New("its CUDA has failed before")}
		default:
			use = append(use, p)
			if state != Running {
				left = append(left, p)
			}
		}
	}
	if stuck := h.free(context.WithoutCancel(ctx), left, nil); len(stuck) > 0 {
		return nil, &StuckError{Stuck: stuck, Cause: errors.New("a former attempt to park it was cut off")}
	}
	return use, nil
}

// Unpark implements Parker.
func (h *Helper) Unpark(ctx context.Context, parked Parked, gpus map[string]string) error {
	release, err := h.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	pairs := make([][2]string, 0, len(gpus))
	for from, to := range gpus {
		for _, id := range []string{from, to} {
			if _, err := parseUUID(id); err != nil {
				return fmt.Errorf("unpark: %w", err)
			}
		}
		pairs = append(pairs, [2]string{from, to})
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	var failed error
	if stuck := h.giveBack(ctx, parked.Processes, pairs, &failed); len(stuck) > 0 {
		return &StuckError{Stuck: stuck, Cause: failed}
	}
	return nil
}

// free makes processes run again, whatever they are in, and answers those for
// which it cannot. It takes its time.
func (h *Helper) free(ctx context.Context, users []Process, pairs [][2]string) []Stuck {
	var why error
	return h.giveBack(ctx, users, pairs, &why)
}

// giveBack restores all that are checkpointed, the last first, and then unlocks them.
// It answers those that do not run; why is the first
// cause.
func (h *Helper) giveBack(ctx context.Context, users []Process, pairs [][2]string, why *error) []Stuck {
	stuck := map[int]Stuck{}
	pass := func(r request, from, to State) {
		for i := len(users) - 1; i >= 0; i-- {
			p := &users[i]
			state, err := h.settle(ctx, p, r, from, to)
			if err == nil {
				continue
			}
			if *why == nil {
				*why = err
			}
			stuck[p.PID] = Stuck{PID: p.PID, State: state, Unknown: state < 0}
		}
	}
	pass(request{Call: callRestore, GPUs: pairs}, Checkpointed, Locked)
	if len(stuck) == 0 {
		pass(request{Call: callUnlock}, Locked, Running)
	}
	if len(stuck) == 0 {
		return nil
	}
	// Those that were restored wait for the others.
	for i := range users {
		if state, err := h.state(ctx, &users[i]); err == nil && state != Running {
			stuck[users[i].PID] = Stuck{PID: users[i].PID, State: state}
		}
	}
	var list []Stuck
	for _, s := range stuck {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Stuck) int { return cmp.Compare(a.PID, b.PID) })
	return list
}

// settle brings a process from one state to another, if it is in the one, and
// tries again when that fails. It answers the state that it is in, below 0 if
// the driver does not tell; no error for one that has ended, or is further.
func (h *Helper) settle(ctx context.Context, p *Process, r request, from, to State) (state State, err error) {
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(betweenTries):
			case <-ctx.Done():
				return state, context.Cause(ctx)
			}
		}
		var told error
		if state, told = h.state(ctx, p); told != nil {
			if errors.Is(told, errEnded) {
				return Running, nil
			}
			state = -1
			err = cmp.Or(err, told)
			continue
		}
		switch state {
		case from:
			if failed := h.step(ctx, p, r, to); failed == nil || errors.Is(failed, errEnded) {
				return to, nil
			} else if err == nil {
				err = failed
			}
		case Failed:
			return Failed, cmp.Or(err, errors.New("its CUDA has failed"))
		default:
			if state < from {
				return state, nil // it is further already
			}
			err = cmp.Or(err, fmt.Errorf("process %d is %s again", p.PID, state))
		}
	}
	if now, told := h.state(ctx, p); told == nil {
		state = now
		if state == to || to == Locked && state == Running {
			return state, nil
		}
	}
	return state, err
}

// step makes one call and reads back the state that it should lead to.
func (h *Helper) step(ctx context.Context, p *Process, r request, want State) error {
	if !p.there(h.proc) {
		return errEnded
	}
	r.PID = p.PID
	within := time.Duration(0)
	switch r.Call {
	case callLock:
		r.Timeout, within = h.lock, h.lock
	case callCheckpoint, callRestore:
		within = h.copy
	}
	_, err := h.driver.ask(ctx, r, within)
	if err != nil {
		if !p.there(h.proc) {
			return errEnded
		}
		return err
	}
	state, err := h.state(ctx, p)
	if err == nil && state != want {
		err = fmt.Errorf("%s of process %d: the driver says that it is done, and that the process is %s, not %s", r.Call, p.PID, state, want)
	}
	return err
}

// state asks the driver for the state of a process.
func (h *Helper) state(ctx context.Context, p *Process) (State, error) {
	if !p.there(h.proc) {
		return 0, errEnded
	}
	state, err := h.driver.ask(ctx, request{Call: callState, PID: p.PID}, 0)
	if err != nil && !p.there(h.proc) {
		return 0, errEnded
	}
	return state, err
}

// None is the Parker of a machine without NVIDIA GPUs: there is nothing to
// park.
type None struct{}

// Park implements Parker.
func (None) Park(context.Context, []int) (Parked, error) { return Parked{}, nil }

// Unpark implements Parker. What was parked elsewhere cannot resume here.
func (None) Unpark(_ context.Context, parked Parked, _ map[string]string) error {
	if len(parked.Processes) > 0 {
		return fmt.Errorf("unpark %d processes: %w", len(parked.Processes), ErrNoDriver)
	}
	return nil
}

// Close implements Parker.
func (None) Close() error { return nil }

var (
	_ Parker = (*Helper)(nil)
	_ Parker = None{}
)
