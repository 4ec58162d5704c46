package ordered

import "time"

// after plans something. Nobody can take it back: what is planned looks
// whether it is still wanted.
func (w *World) after(delay time.Duration, do func()) {
	w.agenda.Plan(w.now+max(delay, 0), do)
}

// step does what is next, and answers false when nothing is planned up to the
// given moment.
func (w *World) step(until time.Duration) bool {
	at, do := w.agenda.Next(until)
	if do == nil {
		w.now = until
		return false
	}
	w.now = at
	w.Steps++
	if w.Steps%1024 == 0 && w.Options.Stop != nil && w.Options.Stop() {
		w.failure = Stopped
		return false
	}
	do()
	return true
}

// process is a program that may crash, or be stopped and go on. What it has
// planned is lost with it, and waits while it is stopped.
type process struct {
	w       *World
	up      bool
	stopped bool
	starts  int           // how often it was started
	since   time.Duration // from which on it runs
	late    []func()      // what would have happened while it was stopped
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
	p.up, p.stopped, p.late, p.since = true, false, nil, p.w.now
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
		t.on.end()
	}
}

// stop is SIGSTOP.
func (p *process) stop() {
	if p.up {
		p.stopped = true
	}
}

// resume is SIGCONT.
func (p *process) resume() {
	if !p.stopped {
		return
	}
	p.stopped, p.since = false, p.w.now
	late := p.late
	p.late = nil
	for _, do := range late {
		p.w.after(0, do)
	}
}
