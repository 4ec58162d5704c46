package replay

import (
	"encoding/json"
	"io"

	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// answer is a replay as JSON.
type answer struct {
	Policy      string  `json:"policy"`
	Jobs        int     `json:"jobs"`
	Processors  uint32  `json:"processors"`
	MeanWaitS   float64 `json:"mean_wait_s"`
	MedianWaitS float64 `json:"median_wait_s"`
	P95WaitS    float64 `json:"p95_wait_s"`
	AveBSLD     float64 `json:"avebsld"`
	Utilization float64 `json:"utilization"`
	Passes      int     `json:"passes"`
	Owners      []owned `json:"owners,omitempty"`
	Lent        *lent   `json:"lent,omitempty"`
}

// owned is what the jobs of an owner waited.
type owned struct {
	Account    string `json:"account"`
	Processors uint32 `json:"processors"`
	waits
}

type waits struct {
	Jobs      int     `json:"jobs"`
	MeanWaitS float64 `json:"mean_wait_s"`
	P95WaitS  float64 `json:"p95_wait_s"`
}

func waitsJSON(w sim.Waits) waits { return waits{w.Jobs, w.Mean, w.P95} }

// lent is what lending cost.
type lent struct {
	InUse              float64 `json:"in_use"`
	Guests             int     `json:"guests"`
	GuestSlowdown      float64 `json:"guest_slowdown"`
	Left               int     `json:"left"`
	LeftInTime         int     `json:"left_in_time"`
	SlowestS           int64   `json:"slowest_s"`
	Parked             int     `json:"parked"`
	Packed             int     `json:"packed"`
	Killed             int     `json:"killed"`
	LostProcessorHours float64 `json:"lost_processor_hours"`
}

// change is how the waits of some jobs differ between the first two replays.
type change struct {
	Name   string `json:"name"`
	Before waits  `json:"before"`
	After  waits  `json:"after"`
}

type comparison struct {
	Longer   int      `json:"longer"`
	Shorter  int      `json:"shorter"`
	Accounts []change `json:"accounts"`
	Models   []change `json:"gpu_models"`
}

func changesJSON(all []sim.Change) []change {
	out := make([]change, len(all))
	for i, c := range all {
		out[i] = change{c.Name, waitsJSON(c.Before), waitsJSON(c.After)}
	}
	return out
}

// PrintJSON prints results of one trace, of which some jobs were left out; owners as in
// PrintLending, nil = none.
func PrintJSON(out io.Writer, results []*sim.Result, owners []sim.Owner, leftOut int) error {
	document := struct {
		LeftOut    int         `json:"left_out"`
		Results    []answer    `json:"results"`
		Comparison *comparison `json:"comparison,omitempty"`
	}{LeftOut: leftOut}
	for _, r := range results {
		document.Results = append(document.Results, answerOf(r, owners))
	}
	if len(results) == 2 {
		a, b := results[0], results[1]
		longer, shorter := longerShorter(a, b)
		document.Comparison = &comparison{longer, shorter, changesJSON(sim.Changes(a, b, sim.ByAccount)), changesJSON(sim.Changes(a, b, sim.ByModel))}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(document)
}

func answerOf(r *sim.Result, owners []sim.Owner) answer {
	f, w := r.Figures(), r.WaitsOf(everyone)
	out := answer{
		Policy: r.Policy, Jobs: f.Jobs, Processors: r.Processors, MeanWaitS: f.MeanWaitS, MedianWaitS: w.Median, P95WaitS: w.P95,
		AveBSLD: f.MeanSlowdown, Utilization: f.Utilization, Passes: r.Passes,
	}
	if len(owners) == 0 {
		return out
	}
	for _, owner := range owners {
		of := func(o *sim.Outcome) bool { return o.Account == owner.Account }
		out.Owners = append(out.Owners, owned{owner.Account, owner.Processors, waitsJSON(r.WaitsOf(of))})
	}
	slowdown, guests := r.GuestSlowdown()
	l := r.Lent
	out.Lent = &lent{r.InUse(), guests, slowdown, l.Leaves, l.InTime, l.LongestS, l.Parks, l.Packs, l.Kills, float64(l.LostPS) / 3600}
	return out
}
