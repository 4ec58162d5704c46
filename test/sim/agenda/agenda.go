// Package agenda has what is planned in virtual time.
//
// Contract: what is planned for one moment happens in the order in which it was planned.
// Nobody can take it back. An agenda is not safe for use by several goroutines at once.
package agenda

import (
	"container/heap"
	"time"
)

// Agenda is what is planned. The zero value is empty.
type Agenda struct {
	events  events
	planned uint64
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// Plan plans something.
func (a *Agenda) Plan(at time.Duration, do func()) {
	a.planned++
	heap.Push(&a.events, event{at, a.planned, do})
}

// Next takes what is next, and answers when it is planned for. do is nil when nothing is
// planned up to the given moment.
func (a *Agenda) Next(until time.Duration) (at time.Duration, do func()) {
	if len(a.events) == 0 || a.events[0].at > until {
		return 0, nil
	}
	next := heap.Pop(&a.events).(event)
	return next.at, next.do
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}
