// Package tally counts what a controller does, for gdiag: requests, passes of the
// scheduler, and what became of jobs, since it started or since somebody reset it.
//
// Contract: counting costs a lock and a map look-up, and never blocks for long. What is
// kept is bounded: users beyond MaxUsers are counted together. Nothing here is in the
// log: another controller that comes to lead begins at zero.
package tally

import (
	"maps"
	"sync"
	"time"
)

// MaxUsers bounds the users that are counted apart.
const MaxUsers = 4096

// Count is how often something was asked, and how long the answers took.
type Count struct {
	Times uint64
	Took  time.Duration
}

// Requests counts requests. The zero value has counted none.
type Requests struct {
	mu     sync.Mutex
	now    int // that are being answered
	method map[string]Count
	user   map[uint32]Count
	others Count // of users beyond the bound
}

// Begin counts a request that is being answered, until its End.
func (r *Requests) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
}

// End counts one that was answered. user is nil where none asked, as for nodes.
func (r *Requests) End(method string, user *uint32, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.method == nil {
		r.method, r.user = map[string]Count{}, map[uint32]Count{}
	}
	r.method[method] = r.method[method].plus(took)
	if user == nil {
		return
	}
	if _, known := r.user[*user]; !known && len(r.user) >= MaxUsers {
		r.others = r.others.plus(took)
		return
	}
	r.user[*user] = r.user[*user].plus(took)
}

func (c Count) plus(took time.Duration) Count { return Count{c.Times + 1, c.Took + took} }

// RequestCounts is what was counted.
type RequestCounts struct {
	Now      int
	ByMethod map[string]Count
	ByUser   map[uint32]Count
	Others   Count
}

// Counts is what was counted so far.
func (r *Requests) Counts() RequestCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return RequestCounts{Now: r.now, ByMethod: maps.Clone(r.method), ByUser: maps.Clone(r.user), Others: r.others}
}

// Reset begins again.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.method, r.user, r.others = nil, nil, Count{}
}

// Jobs is how many jobs there were of a kind.
type Jobs struct{ Submitted, Started, Completed, Cancelled, Failed, Backfilled uint64 }

// Passes are those of the scheduler.
type Passes struct {
	Count           uint64
	Last, Max, Took time.Duration // Took is of all together
	LastAt          time.Time
	// Depth is how many jobs waited in the last, and Depths in all together.
	Depth, Depths uint64
}

// WorkCounts is what the loops of the leader did.
type WorkCounts struct {
	Since      time.Time // of what follows
	Jobs       Jobs
	Passes     Passes
	Backfilled uint64 // since the controller started, whatever was reset
}

// Work counts what the leader's loops do.
type Work struct {
	mu     sync.Mutex
	counts WorkCounts
}

// NewWork counts from now on.
func NewWork(now time.Time) *Work { return &Work{counts: WorkCounts{Since: now}} }

// Add counts jobs.
func (w *Work) Add(jobs Jobs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := &w.counts.Jobs
	sum.Submitted += jobs.Submitted
	sum.Started += jobs.Started
	sum.Completed += jobs.Completed
	sum.Cancelled += jobs.Cancelled
	sum.Failed += jobs.Failed
	sum.Backfilled += jobs.Backfilled
	w.counts.Backfilled += jobs.Backfilled
}

// Pass counts a pass of the scheduler over so many waiting jobs.
func (w *Work) Pass(at time.Time, took time.Duration, waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.counts.Passes
	p.Count++
	p.Last, p.LastAt, p.Max, p.Took = took, at, max(p.Max, took), p.Took+took
	p.Depth, p.Depths = uint64(waiting), p.Depths+uint64(waiting)
}

// Counts is what was counted so far.
func (w *Work) Counts() WorkCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// Reset begins again.
func (w *Work) Reset(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = WorkCounts{Since: now, Backfilled: w.counts.Backfilled}
}
