package ordered

import (
	"iter"
	"maps"
	"slices"
)

// task is a piece of real code that waits in its middle, as a goroutine does
// for the log. Only one runs at a time, and it is always known which is next.
type task struct {
	id     uint64
	of     *process
	resume func() (struct{}, bool)
	kill   func()
	yield  func(struct{}) bool
	woken  bool
}

// killed unwinds a task whose process has crashed.
type killed struct{}

// spawn runs f as a task of the process, until it waits for the first time.
func (p *process) spawn(f func()) {
	w := p.w
	w.tasks++
	t := &task{id: w.tasks, of: p}
	t.resume, t.kill = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if fault := recover(); fault != nil {
				if _, ok := fault.(killed); !ok {
					panic(fault)
				}
			}
		}()
		f()
	})
	p.tasks[t] = struct{}{}
	w.run(t)
}

func (w *World) run(t *task) {
	if _, alive := t.of.tasks[t]; !alive {
		return
	}
	former := w.current
	w.current = t
	_, waits := t.resume()
	w.current = former
	if !waits && t.of.tasks != nil {
		delete(t.of.tasks, t)
	}
	if !waits {
		w.afterTask(t.of)
	}
}

// wait stops the running task until wake. It must be called inside a task.
func (w *World) wait() {
	t := w.current
	t.woken = false
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}

// wake has a task go on, unless its process is gone or it was woken already.
func (w *World) wake(t *task) {
	if t.woken {
		return
	}
	t.woken = true
	t.of.after(0, func() { w.run(t) })
}

func inOrder(tasks map[*task]struct{}) []*task {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b *task) int { return int(int64(a.id) - int64(b.id)) })
}
