package ordered

import (
	"container/heap"
	"time"
)

// event is something that will happen at a moment of virtual time. Events of
// one moment happen in the order in which they were planned.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*a = old[:len(old)-1]
	return last
}

// after plans something. Nobody can take it back: what is planned looks
// whether it is still wanted.
func (w *World) after(delay time.Duration, do func()) {
	w.planned++
	heap.Push(&w.agenda, event{w.now + max(delay, 0), w.planned, do})
}

// step does what is next, and answers false when nothing is planned up to the
// given moment.
func (w *World) step(until time.Duration) bool {
	if len(w.agenda) == 0 || w.agenda[0].at > until {
		w.now = until
		return false
	}
	next := heap.Pop(&w.agenda).(event)
	w.now = next.at
	w.Steps++
	next.do()
	return true
}

// process is a program that may crash, or be stopped and go on. What it has
// planned is lost with it, and waits while it is stopped.
type process struct {
	w       *World
	up      bool
	stopped bool
	starts  int      // how often it was started
	late    []func() // what would have happened while it was stopped
	tasks   map[*task]struct{}
}

// after plans something that this process does.
func (p *process) after(delay time.Duration, do func()) {
	starts := p.starts
	var run func()
	run = func() {
		switch {
		case !p.up || p.starts != starts:
		case p.stopped:
			p.late = append(p.late, run)
		default:
			do()
		}
	}
	p.w.after(delay, run)
}

func (p *process) runs() bool { return p.up && !p.stopped }

func (p *process) start() {
	p.up, p.stopped, p.late = true, false, nil
	p.starts++
	p.tasks = make(map[*task]struct{})
}

// crash ends the process and all it was about to do.
func (p *process) crash() {
	if !p.up {
		return
	}
	p.up, p.stopped, p.late = false, false, nil
	tasks := p.tasks
	p.tasks = nil
	for _, t := range inOrder(tasks) {
		t.kill()
	}
}

// stop is SIGSTOP.
func (p *process) stop() {
	if p.up {
		p.stopped = true
	}
}

// goOn is SIGCONT.
func (p *process) goOn() {
	if !p.stopped {
		return
	}
	p.stopped = false
	late := p.late
	p.late = nil
	for _, do := range late {
		p.w.after(0, do)
	}
}
