package shim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"
	"github.com/gleaner-hpc/gleaner/noded/shim/openers"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// parking carries out what package supervise decides about leaving the allocation's
// devices to the owner of its node. One goroutine takes them and gives them back; another
// keeps the deadline, whatever the first waits for.
type parking struct {
	alloc *alloc
	once  sync.Once       // starts both
	timer *boottime.Timer // of the deadline
	late  chan struct{}   // closed when the allocation is killed for it

	// Guarded by alloc.mu.
	attempt context.CancelCauseFunc // ends the attempt under way
	killed  bool                    // the allocation is, because it was not parked in time

	// Of the goroutine that works.
	denied bool // the device rule refuses the job its devices, or may
	used   bool // something has used them since what was on the GPUs was taken
}

func newParking(p *alloc) (*parking, error) {
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	return &parking{alloc: p, timer: timer, late: make(chan struct{})}, nil
}

// stop ends the attempt under way. The caller holds alloc.mu.
func (k *parking) stop(why error) {
	if k.attempt != nil {
		k.attempt(why)
	}
}

// devices are those that the allocation may open while they are its own.
func (p *alloc) devices() []cgroup.Device {
	return container.AllowedDevices(prepare.Devices(p.settings))
}

// suspend takes an order to suspend the job, to park it too, or to resume it.
func (p *alloc) suspend(order *pb.SuspendAlloc) {
	p.change(func(now time.Duration) supervise.Do { return p.core.Suspend(order, now) })
}

// hold takes what the owner says on the node itself. A guest that is not parked has no
// more time to end than is left until the deadline, in which its KILL has to work.
func (p *alloc) hold(hold *pb.HoldAlloc) {
	p.change(func(now time.Duration) supervise.Do { return p.core.Hold(hold, now) })
	if hold.GetHeld() && hold.GetKill() {
		within := time.Duration(hold.GetWithinMs()) * time.Millisecond
		p.end(pb.EndCause_END_CAUSE_RECLAIMED, min(killWait(p.order), within-supervise.KillTime(within)), "the owner asked for that on the node itself")
	}
}

// change has core decide by something that was said about parking.
func (p *alloc) change(decide func(now time.Duration) supervise.Do) {
	p.mu.Lock()
	p.carryOut(decide(boottime.Now()))
	wanted, kill := p.core.Park.Wanted, p.core.Park.Kill
	p.mu.Unlock()
	if wanted {
		p.parking.once.Do(func() {
			go p.parking.work()
			go p.parking.keepDeadline()
		})
	}
	if err := p.parking.timer.Set(kill); err != nil {
		// Without a timer the owner would wait for ever.
		p.reclaim(err.Error())
	}
	p.poke()
}

// keepDeadline kills the allocation if it is not parked in time: it waits for no driver,
// no save, no lock and no process that does not freeze. It kills early enough for the
// devices to be free at the deadline.
func (k *parking) keepDeadline() {
	p := k.alloc
	for range k.timer.C {
		p.mu.Lock()
		overdue, why := p.core.Overdue(boottime.Now()), p.core.Park.Why
		p.mu.Unlock()
		if !overdue {
			continue // it was parked, or the deadline is another
		}
		detail := "it was not parked in time"
		if why != nil {
			detail += ": " + why.Error()
		}
		p.reclaim(detail)
		return
	}
}

// reclaim ends the allocation without giving it time to end.
func (p *alloc) reclaim(why string) {
	p.log.Warn("the owner of the node has taken it back, and the job is killed", "reason", why)
	p.end(pb.EndCause_END_CAUSE_RECLAIMED, 0, bundle.Clip(why))
	p.mu.Lock()
	if !p.parking.killed {
		p.parking.killed = true
		close(p.parking.late)
	}
	p.core.Park.Begins(supervise.PartKill, boottime.Now())
	p.mu.Unlock()
	p.killRest()
}

// freed is what was measured of an end that was asked for, now that no process is left; nil =
// it ended by itself.
func (p *alloc) freed() *pb.HardwareFreed {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case p.ending == nil:
		return nil
	case p.parking.killed:
		return p.core.Park.Killed(boottime.Now())
	default:
		return supervise.Ended(now.Sub(p.ending.asked), now.Sub(p.ending.deadline))
	}
}

// workAgain is how soon it is looked again whether a save lets the job be parked.
const workAgain = 5 * time.Millisecond

// work takes the job's devices and gives them back, as it is decided, as long as there is a
// job.
func (k *parking) work() {
	p := k.alloc
	for {
		p.mu.Lock()
		do := p.core.LookPark(boottime.Now())
		p.carryOut(do)
		changed := p.changed
		ctx, cancel := context.WithCancelCause(p.startContext)
		k.attempt = cancel
		p.mu.Unlock()
		switch {
		case do.Park:
			k.took(k.take(ctx))
		case do.Unpark:
			k.gave(k.give())
		case do.Again:
			time.Sleep(workAgain)
		default:
			<-changed
		}
		cancel(nil)
	}
}

// heldError is why a job cannot be parked before a process closes a device.
type heldError struct{ error }

// refusal says how long that lasts for which an attempt failed.
func (k *parking) refusal(failure error) supervise.Refusal {
	var held heldError
	switch {
	case gpumem.Lasts(failure), errors.As(failure, &held) && k.alloc.gpus == nil: // freeze has waited for it
		return supervise.RefusalLasts
	case gpumem.Holds(failure), errors.As(failure, &held):
		return supervise.RefusalHeld
	}
	return supervise.RefusalPasses
}

// took notes how an attempt ended. A job that cannot be parked ends at once, with its time
// for that.
func (k *parking) took(failure error) {
	p := k.alloc
	p.mu.Lock()
	p.core.Park.GPU = p.gpus.Reclaimed()
	do := p.core.TookDevices(failure, k.refusal(failure), boottime.Now())
	p.carryOut(do)
	wanted, took, leisure, freed := p.core.Park.Wanted, p.core.Park.Took, p.core.AtLeisure(), p.core.Park.Freed
	p.mu.Unlock()
	p.poke()
	switch {
	case failure == nil:
		p.log.Info("the job is parked: its devices are the node's owner's", "took_ms", took.Milliseconds(), "slowest", freed.GetSlowest(), "slowest_ms", freed.GetSlowestMs(), "late_ms", freed.GetLateMs())
	case p.endAsked():
	case !wanted:
		p.log.Info("the job is not parked: the owner of the node lends it again")
	case leisure:
		p.log.Warn("the job is not parked yet, and nobody waits for it: that is tried again", "error", failure)
	case do.CannotPark:
		p.log.Warn("the job cannot be parked and is ended: the owner of the node has taken it back", "error", failure)
		p.end(pb.EndCause_END_CAUSE_RECLAIMED, killWait(p.order), bundle.Clip("it cannot be parked: "+failure.Error()))
	default:
		p.log.Warn("the job is not parked yet: that is tried again until its deadline, and then it is killed", "error", failure)
	}
}

// take takes the job's devices: what it has on its GPUs goes to the host's memory, its
// processes are frozen, and the kernel refuses them the devices from then on. An
// allocation that is restored and waits for others has nothing there, and CRIU holds it.
func (k *parking) take(ctx context.Context) error {
	p := k.alloc
	p.mu.Lock()
	awaits := p.core.Awaits
	p.mu.Unlock()
	if !awaits {
		k.begins(supervise.PartGPU)
		if err := p.gpus.Reclaim(ctx, k.used, k.run); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if p.runs() {
			k.begins(supervise.PartHangUp)
			p.relay.HangUp(hangUpPatience)
		}
		if err := k.freeze(ctx); err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
	k.denied = true
	k.begins(supervise.PartDevices)
	if err := p.group.SetDevices(container.AllowedDevices(nil)); err != nil {
		return fmt.Errorf("take the job's devices from it: %w", err)
	}
	k.used = false
	return nil
}

// begins notes what the time goes to from now on.
func (k *parking) begins(part supervise.Part) {
	k.alloc.mu.Lock()
	defer k.alloc.mu.Unlock()
	k.alloc.core.Park.Begins(part, boottime.Now())
}

// hangUpPatience is how long process 1 has to close its connections with attached clients.
// It does so at once, unless the machine is very busy or somebody has stopped it.
const hangUpPatience = 100 * time.Millisecond

// run lets the job run, with its devices, if it is suspended.
func (k *parking) run() error {
	p := k.alloc
	if err := k.allow(); err != nil {
		return err
	}
	p.freezer.Lock()
	defer p.freezer.Unlock()
	p.mu.Lock()
	may := p.core.RunToPark(boottime.Now())
	p.mu.Unlock()
	if !may {
		return errors.New("it uses GPUs, and what it has on them can be taken only while it runs, which its lease or a save does not allow: see whether the node reaches the controllers")
	}
	return p.applyFreezer()
}

// A job that has a device open is let run for a moment, in which it may close it, again
// and again: for openPause the first time, twice as long each other time up to
// openLongest, until supervise.HeldPatience is over. A program
// that asks for the state of its GPUs every few moments has them open in half of the looks.
const (
	openPause   = 20 * time.Millisecond
	openLongest = 160 * time.Millisecond
)

// A job that is frozen while a program waits for a process that it made with vfork cannot be
// saved before it runs again. So it is let run for a moment, a few times.
const (
	vforkTries = 20
	vforkPause = 2 * time.Millisecond
)

// freeze freezes the job where no process has one of its GPUs open and, if that soon is
// so, where it can be saved.
func (k *parking) freeze(ctx context.Context) error {
	giveUp := k.openUntil()
	for opens, forks := 0, 0; ; {
		k.begins(supervise.PartFreeze)
		if err := k.freezeOnce(ctx); err != nil {
			return err
		}
		opener, err := k.opener()
		if err != nil {
			return err
		}
		pause := vforkPause
		if opener != nil {
			k.used = true
			k.begins(supervise.PartOpen)
			if boottime.Now() >= giveUp {
				return keepsOpen(opener)
			}
			pause = min(openPause<<min(opens, 10), openLongest)
			opens++
		} else if forks++; forks > vforkTries || !k.waitsInVfork() {
			return nil
		}
		if err := k.run(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// openUntil is how long a job may have a device open that is to be parked.
func (k *parking) openUntil() time.Duration {
	k.alloc.mu.Lock()
	defer k.alloc.mu.Unlock()
	return k.alloc.core.Park.HeldUntil(boottime.Now())
}

// waitsInVfork says whether a process does, and may run.
func (k *parking) waitsInVfork() bool {
	pid, err := k.alloc.maker.WaitsInVfork()
	return err == nil && pid != 0 && k.alloc.mayRun()
}

// keepsOpen is why the devices of a job cannot be taken.
func keepsOpen(opener *openers.Opener) error {
	return heldError{fmt.Errorf("process %d (%s) has %s open, and what it has there can be taken only from programs that use CUDA, with a driver that can", opener.PID, opener.Program, opener.Path)}
}

// freezeOnce freezes the job until it is resumed. If that fails, the job is as it was.
func (k *parking) freezeOnce(ctx context.Context) error {
	p := k.alloc
	p.freezer.Lock()
	defer p.freezer.Unlock()
	if err := p.group.Freeze(ctx); err != nil {
		return errors.Join(fmt.Errorf("the job's processes cannot be frozen: %w", err), remove.Survivors(p.group), p.applyFreezer())
	}
	p.mu.Lock()
	ending := p.core.Ending
	if !ending {
		p.core.Froze()
	}
	p.mu.Unlock()
	if ending { // it has its time for that
		return errors.Join(supervise.ErrEnding, p.applyFreezer())
	}
	return nil
}

// opener is a process that has a GPU of the allocation open; nil = none has.
func (k *parking) opener() (*openers.Opener, error) {
	p := k.alloc
	var gpus []openers.Device
	for _, d := range p.settings.DeviceFiles {
		if !d.Companion {
			gpus = append(gpus, openers.Device{Type: d.Type, Major: uint32(d.Major), Minor: uint32(d.Minor)})
		}
	}
	pids, err := p.group.Procs()
	if err != nil {
		return nil, err
	}
	return openers.Find(pids, gpus)
}

// allow has the kernel let the job open its devices again.
func (k *parking) allow() error {
	if !k.denied {
		return nil
	}
	if err := k.alloc.group.SetDevices(k.alloc.devices()); err != nil {
		return fmt.Errorf("give the job its devices back: %w", err)
	}
	k.denied = false
	return nil
}

// give gives the job its devices back. What it had on its GPUs follows when it runs.
func (k *parking) give() error {
	if err := k.allow(); err != nil {
		return err
	}
	k.used = false
	k.alloc.gpus.Release()
	k.alloc.relay.Admit()
	return nil
}

// gave notes how that ended, and has the job get what it had on its GPUs.
func (k *parking) gave(failure error) {
	p := k.alloc
	p.mu.Lock()
	p.carryOut(p.core.GaveDevices(failure, boottime.Now()))
	p.mu.Unlock()
	p.poke()
	if failure != nil {
		p.log.Error("the job cannot resume without its devices: that is tried again", "error", failure)
		return
	}
	p.log.Info("the job has its devices again")
	go k.repay()
}

// repayPatience is how long a job that may run again is waited for, before what it had on
// its GPUs is left to gpumem, which looks less often.
const repayPatience = time.Second

func (k *parking) repay() {
	p := k.alloc
	for end := time.Now().Add(repayPatience); !p.runs() && time.Now().Before(end); {
		time.Sleep(workAgain)
	}
	if err := p.gpus.Unpark(); err != nil {
		p.log.Error("the job cannot use its GPUs: that is tried again; see nvidia-smi and the kernel log, and cancel the job if it does not end", "error", err)
	}
}
