package sim

// Figures sum a replay up.
type Figures struct {
	Jobs         int
	MeanWaitS    float64
	MeanSlowdown float64 // bounded
	// Utilization is the part of all processors that ran jobs, from the first
	// submission to the last end.
	Utilization float64
}

// Figures are those of the replay.
func (r *Result) Figures() Figures {
	f := Figures{Jobs: len(r.Jobs)}
	var waitS, usedS, lastS int64
	slowdown := 0.0
	for i := range r.Jobs {
		o := &r.Jobs[i]
		waitS += o.WaitS()
		slowdown += o.Slowdown()
		usedS += o.RunS * int64(o.Processors)
		lastS = max(lastS, o.StartS+o.RunS)
	}
	if f.Jobs == 0 {
		return f
	}
	f.MeanWaitS, f.MeanSlowdown = float64(waitS)/float64(f.Jobs), slowdown/float64(f.Jobs)
	f.Utilization = float64(usedS) / (float64(r.Processors) * float64(lastS-r.Jobs[0].SubmitS))
	return f
}
