package replay

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// Way is a way to lend.
type Way struct {
	Name string
	sim.Lending
}

// ways are the words for what becomes of guests.
var ways = map[string]sim.Guests{"isolated": sim.GuestsNone, "kill": sim.GuestsKill, "park": sim.GuestsPark, "pack": sim.GuestsPack}

// DefaultLendingTimes is what lending takes, in seconds, if nobody says otherwise.
const DefaultLendingTimes = "notice=60,park=5,continue=5,after=10,save=30,restore=30,kill=30"

// ParseLending reads ways to lend, separated by commas, and times that differ from the
// usual ones.
func ParseLending(words, times string) ([]Way, error) {
	var lending sim.Lending
	for _, text := range []string{DefaultLendingTimes, times} {
		if err := parseTimes(&lending, text); err != nil {
			return nil, err
		}
	}
	var all []Way
	for _, word := range strings.Split(cmp.Or(words, "park"), ",") {
		guests, known := ways[word]
		if !known {
			return nil, fmt.Errorf("--lending: %q is none of isolated, kill, park and pack", word)
		}
		if slices.ContainsFunc(all, func(way Way) bool { return way.Name == word }) {
			return nil, fmt.Errorf("--lending: %s is there twice", word)
		}
		lending.Guests = guests
		all = append(all, Way{word, lending})
	}
	return all, nil
}

// usualLending is what the controllers do, in the usual times.
func usualLending() sim.Lending {
	var lending sim.Lending
	if err := parseTimes(&lending, DefaultLendingTimes); err != nil {
		panic(err) // a constant
	}
	return lending
}

func parseTimes(lending *sim.Lending, text string) error {
	fields := map[string]*int64{
		"notice": &lending.NoticeS, "park": &lending.ParkS, "continue": &lending.ContinueS, "after": &lending.PackAfterS,
		"save": &lending.SaveS, "restore": &lending.RestoreS, "kill": &lending.KillS,
	}
	if text == "" {
		return nil
	}
	for _, word := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(word, "=")
		field, known := fields[key]
		seconds, err := strconv.ParseUint(value, 10, 32)
		if !known || err != nil || seconds > maxLendingTime {
			return fmt.Errorf("--lending-times: %.40q is none of %s, with at most %d seconds", word, DefaultLendingTimes, maxLendingTime)
		}
		*field = int64(seconds)
	}
	return nil
}

const maxLendingTime = 24 * 3600

// printAgainstAlone says whose jobs wait longer where nodes are lent than where each owner is
// alone, if that is among the ways.
func printAgainstAlone(out io.Writer, results []*sim.Result, owners []sim.Owner) {
	at := slices.IndexFunc(results, func(r *sim.Result) bool { return r.Policy == "isolated" })
	if at < 0 || len(results) == 1 {
		return
	}
	rows := table{{"AGAINST_ISOLATED", "NOT_LONGER", "LONGER", "MEAN_S", "P95_S"}}
	for i, r := range results {
		if i == at {
			continue
		}
		longer, most := 0, sim.Waits{}
		for _, owner := range owners {
			of := func(o *sim.Outcome) bool { return o.Account == owner.Account }
			alone, lent := results[at].WaitsOf(of), r.WaitsOf(of)
			mean, p95 := max(lent.Mean-alone.Mean, 0), max(lent.P95-alone.P95, 0)
			if mean > 0 || p95 > 0 {
				longer++
			}
			most.Mean, most.P95 = max(most.Mean, mean), max(most.P95, p95)
		}
		rows.add(format.Printable(r.Policy), fmt.Sprint(len(owners)-longer), fmt.Sprint(longer), figure(most.Mean, 1), figure(most.P95, 0))
	}
	fmt.Fprintln(out)
	rows.print(out)
	fmt.Fprintln(out)
}

// PrintLending prints what became of owners and guests under several ways to lend, the
// last line with the figures of the first.
func PrintLending(out io.Writer, results []*sim.Result, owners []sim.Owner) {
	rows := table{{"LENDING", "JOBS", "IN_USE", "MEAN_WAIT_S", "P95_S", "GUESTS", "SLOWDOWN", "LEFT", "IN_TIME", "SLOWEST_S", "PACKED", "KILLED", "LOST_HOURS"}}
	for _, r := range results {
		f, w, lent := r.Figures(), r.WaitsOf(everyone), r.Lent
		slowdown, guests := r.GuestSlowdown()
		rows.add(format.Printable(r.Policy), fmt.Sprint(f.Jobs), figure(r.InUse(), 4), figure(w.Mean, 0), figure(w.P95, 0), fmt.Sprint(guests), figure(slowdown, 2),
			fmt.Sprint(lent.Leaves), fmt.Sprint(lent.InTime), fmt.Sprint(lent.LongestS), fmt.Sprint(lent.Packs), fmt.Sprint(lent.Kills), figure(float64(lent.LostPS)/3600, 0))
	}
	rows.print(out)
	fmt.Fprintln(out)
	head := []string{"OWNER", "PROCESSORS", "JOBS"}
	for _, r := range results {
		head = append(head, format.Printable(r.Policy), "P95_S")
	}
	rows = table{head}
	for _, owner := range owners {
		of := func(o *sim.Outcome) bool { return o.Account == owner.Account }
		row := []string{format.Printable(owner.Account), fmt.Sprint(owner.Processors), fmt.Sprint(results[0].WaitsOf(of).Jobs)}
		for _, r := range results {
			w := r.WaitsOf(of)
			row = append(row, figure(w.Mean, 0), figure(w.P95, 0))
		}
		rows.add(row...)
	}
	rows.print(out)
	printAgainstAlone(out, results, owners)
	f := results[0].Figures()
	fmt.Fprintf(out, "mean_wait_s=%.1f avebsld=%.2f utilization=%.4f\n", f.MeanWaitS, f.MeanSlowdown, f.Utilization)
}
