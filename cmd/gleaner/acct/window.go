package acct

// window is the time that --truncate cuts to, in Unix milliseconds.
type window struct{ sinceMS, untilMS int64 }

// StartMS is when the run, or the step, started; with --truncate inside the window.
func (r *row) StartMS() int64 {
	start := r.Row.StartMS()
	if r.window == nil || start == 0 {
		return start
	}
	return min(max(start, r.window.sinceMS), r.window.untilMS)
}

// EndMS is when it ended; with --truncate inside the window, at whose end a run that
// goes on is cut too.
func (r *row) EndMS() int64 {
	end := r.Row.EndMS()
	switch {
	case !r.truncated():
		return end
	case end == 0 || r.Run.GetLive():
		return r.window.untilMS
	}
	return max(min(end, r.window.untilMS), r.window.sinceMS)
}

// ElapsedS is how long it took, of which --truncate leaves what lies in the window.
func (r *row) ElapsedS() uint32 {
	elapsed := r.Row.ElapsedS()
	if !r.truncated() {
		return elapsed
	}
	return min(elapsed, uint32(max(r.EndMS()-r.StartMS(), 0)/1000))
}

// truncated reports whether the times of the row are cut: those of a job that has begun.
func (r *row) truncated() bool { return r.window != nil && r.Row.StartMS() != 0 }
