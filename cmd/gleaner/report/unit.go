package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// unit is how amounts are written (sreport(1), --time).
type unit struct {
	word    string // as it is typed
	name    string // in the heading
	ms      uint64 // of one; 0 = amounts are not written, only their shares
	percent bool   // of all that the report is about
	width   int
}

var units = []unit{
	{word: "seconds", name: "Seconds", ms: 1000, width: 12},
	{word: "minutes", name: "Minutes", ms: 60_000, width: 12},
	{word: "hours", name: "Hours", ms: 3_600_000, width: 12},
	{word: "percent", name: "Percentage of Total", percent: true, width: 12},
	{word: "secper", name: "Seconds/Percentage of Total", ms: 1000, percent: true, width: 20},
	{word: "minper", name: "Minutes/Percentage of Total", ms: 60_000, percent: true, width: 20},
	{word: "hourper", name: "Hours/Percentage of Total", ms: 3_600_000, percent: true, width: 20},
}

func (r *request) setUnit(inv *option.Invocation) error {
	word := strings.ToLower(cmp.Or(inv.Text("time"), "minutes"))
	for i := range units {
		if strings.HasPrefix(units[i].word, word) || units[i].percent && units[i].ms != 0 && strings.HasPrefix(word, units[i].word) {
			r.unit = &units[i]
			return nil
		}
	}
	return inv.Fail("unknown time format %s: name seconds, minutes, hours, percent, secper, minper or hourper", inv.Text("time"))
}

// amount writes one, of a whole.
func (r *request) amount(ms, whole uint64) string {
	var share float64
	if whole > 0 {
		share = float64(ms) / float64(whole) * 100
	}
	switch u := r.unit; {
	case u.ms == 0:
		return fmt.Sprintf("%.2f%%", share)
	case u.percent:
		return fmt.Sprintf("%d(%.2f%%)", ms/u.ms, share)
	}
	return strconv.FormatUint(ms/r.unit.ms, 10)
}
