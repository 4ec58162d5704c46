package ordered

import (
	"iter"
	"maps"
	"slices"
)

// task is a piece of real code that waits in its middle, as a goroutine does
// for the log. Only one runs at a time, and it is always known which is next.
type task struct {
	id    uint64
	of    *process
	on    *stack
	woken bool
}

// stack is a coroutine that does one task after another. Its memory has grown to what
// tasks need, and a new one would have to grow again.
type stack struct {
	do     func() // the task; nil = none
	resume func() (struct{}, bool)
	end    func()
	yield  func(struct{}) bool
}

// killed unwinds a task whose process has crashed.
type killed struct{}

func newStack() *stack {
	s := &stack{}
	s.resume, s.end = iter.Pull(func(yield func(struct{}) bool) {
		s.yield = yield
		defer func() {
			if fault := recover(); fault != nil {
				if _, ok := fault.(killed); !ok {
					panic(fault)
				}
			}
		}()
		for goes := true; goes; goes = yield(struct{}{}) {
			s.do()
			s.do = nil
		}
	})
	return s
}

// spawn runs f as a task of the process, until it waits for the first time.
func (p *process) spawn(f func()) {
	w := p.w
	w.tasks++
	t := &task{id: w.tasks, of: p}
	if last := len(w.idle) - 1; last >= 0 {
		t.on, w.idle = w.idle[last], w.idle[:last]
	} else {
		t.on = newStack()
	}
	t.on.do = f
	p.tasks[t] = struct{}{}
	w.run(t)
}

func (w *World) run(t *task) {
	if _, alive := t.of.tasks[t]; !alive {
		return
	}
	former := w.current
	w.current = t
	t.on.resume()
	w.current = former
	if t.on.do != nil {
		return // it waits
	}
	w.idle = append(w.idle, t.on)
	if t.of.tasks != nil {
		delete(t.of.tasks, t)
	}
	w.afterTask(t.of)
}

// wait stops the running task until wake. It must be called inside a task.
func (w *World) wait() {
	t := w.current
	t.woken = false
	if !t.on.yield(struct{}{}) {
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

// endTasks gives the memory of all tasks back.
func (w *World) endTasks() {
	for _, c := range w.controllers {
		c.crash()
	}
	for _, m := range w.machines {
		m.daemon.crash()
	}
	for _, s := range w.idle {
		s.end()
	}
}

func inOrder(tasks map[*task]struct{}) []*task {
	return slices.SortedFunc(maps.Keys(tasks), func(a, b *task) int { return int(int64(a.id) - int64(b.id)) })
}
