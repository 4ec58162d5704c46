package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// waits are the waits of some jobs, in seconds.
type waits struct{ Mean, Median, P95 float64 }

func waitsOf(jobs []sim.Outcome, of func(*sim.Outcome) bool) (waits, int) {
	var all []int64
	sum := int64(0)
	for i := range jobs {
		if of(&jobs[i]) {
			all = append(all, jobs[i].WaitS())
			sum += jobs[i].WaitS()
		}
	}
	if len(all) == 0 {
		return waits{}, 0
	}
	slices.Sort(all)
	at := func(part float64) float64 { return float64(all[int(part*float64(len(all)-1))]) }
	return waits{float64(sum) / float64(len(all)), at(0.5), at(0.95)}, len(all)
}

func everyone(*sim.Outcome) bool { return true }

func printText(out io.Writer, results []*sim.Result) {
	fmt.Fprintf(out, "%-14s %8s %12s %12s %12s %10s %12s\n", "POLICY", "JOBS", "MEAN_WAIT_S", "MEDIAN_S", "P95_S", "AVEBSLD", "UTILIZATION")
	for _, r := range results {
		f := r.Figures()
		w, _ := waitsOf(r.Jobs, everyone)
		fmt.Fprintf(out, "%-14s %8d %12.1f %12.0f %12.0f %10.2f %12.4f\n", format.Printable(r.Policy), f.Jobs, w.Mean, w.Median, w.P95, f.MeanSlowdown, f.Utilization)
	}
	if len(results) == 2 {
		printAccounts(out, results[0], results[1])
	}
	f := results[0].Figures()
	fmt.Fprintf(out, "mean_wait_s=%.1f avebsld=%.2f utilization=%.4f\n", f.MeanWaitS, f.MeanSlowdown, f.Utilization)
}

// change is how the waits of an account differ.
type change struct {
	Account       string
	Jobs          int
	Before, After waits
}

// maxShown bounds how many accounts are shown on each side.
const maxShown = 10

// changes are the accounts, those that wait longer under the other policy first.
func changes(a, b *sim.Result) []change {
	var names []string
	for i := range a.Jobs {
		names = append(names, a.Jobs[i].Account)
	}
	slices.Sort(names)
	all := []change{}
	for _, name := range slices.Compact(names) {
		of := func(o *sim.Outcome) bool { return o.Account == name }
		c := change{Account: name}
		c.Before, c.Jobs = waitsOf(a.Jobs, of)
		c.After, _ = waitsOf(b.Jobs, of)
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b change) int {
		return cmp.Compare(b.After.Mean-b.Before.Mean, a.After.Mean-a.Before.Mean)
	})
	return all
}

func printAccounts(out io.Writer, a, b *sim.Result) {
	longer, shorter := 0, 0
	for i := range a.Jobs {
		switch {
		case b.Jobs[i].StartS > a.Jobs[i].StartS:
			longer++
		case b.Jobs[i].StartS < a.Jobs[i].StartS:
			shorter++
		}
	}
	fmt.Fprintf(out, "\nUnder %s %d jobs wait longer and %d shorter than under %s.\n", format.Printable(b.Policy), longer, shorter, format.Printable(a.Policy))
	all := changes(a, b)
	if len(all) < 2 {
		return
	}
	fmt.Fprintf(out, "%-20s %8s %14s %14s %14s %14s\n", "ACCOUNT", "JOBS", "MEAN_WAIT_S", "THEN", "P95_S", "THEN")
	for i, c := range all {
		if i == maxShown && len(all) > 2*maxShown {
			fmt.Fprintf(out, "(%d accounts between)\n", len(all)-2*maxShown)
		}
		if i >= maxShown && i < len(all)-maxShown {
			continue
		}
		name := format.Printable(c.Account)
		if name == "" {
			name = "(none)"
		}
		fmt.Fprintf(out, "%-20s %8d %14.1f %14.1f %14.0f %14.0f\n", name, c.Jobs, c.Before.Mean, c.After.Mean, c.Before.P95, c.After.P95)
	}
}

// answer is one policy as JSON.
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
}

func printJSON(out io.Writer, results []*sim.Result) {
	answers := make([]answer, len(results))
	for i, r := range results {
		f := r.Figures()
		w, _ := waitsOf(r.Jobs, everyone)
		answers[i] = answer{r.Policy, f.Jobs, r.Processors, f.MeanWaitS, w.Median, w.P95, f.MeanSlowdown, f.Utilization, r.Passes}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(map[string]any{"results": answers})
}
