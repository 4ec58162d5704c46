package show

import (
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows what was learned of how owners take their nodes back.

// weekDays are those of a week, as the controllers count them.
var weekDays = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// HabitText is what was learned of a node's owner: a sentence, and if there is more to
// say a table with a line for each day and a column for each hour, in UTC.
func HabitText(node *pb.Node, view *View) string {
	h := node.GetHabit()
	if h == nil {
		return node.GetName() + ": nothing was learned of its owner yet\n"
	}
	killed := fmt.Sprintf("of %d guests that had to leave, %d.%d%% were killed", h.GetGuests(), h.GetKilledPermille()/10, h.GetKilledPermille()%10)
	switch {
	case h.GetGuests() == 0:
		killed = "no guest has had to leave yet"
	case h.GetGuests() >= 16:
		killed = fmt.Sprintf("of the guests that had to leave, %d.%d%% were killed", h.GetKilledPermille()/10, h.GetKilledPermille()%10)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: taken back %d.%d times a week, watched since %s; %s\n", node.GetName(), h.GetPerWeekMilli()/1000, h.GetPerWeekMilli()%1000/100, view.Stamp(h.GetSinceMs(), "Unknown"), killed)
	if len(h.GetHours()) == 0 {
		return out.String()
	}
	var table [7][24]string
	for _, hour := range h.GetHours() {
		if hour.GetHour() < 7*24 {
			table[hour.GetHour()/24][hour.GetHour()%24] = fmt.Sprint(min(hour.GetTakenPermille(), 1000) / 10)
		}
	}
	out.WriteString("UTC")
	for hour := range 24 {
		fmt.Fprintf(&out, "  %02d", hour)
	}
	out.WriteString("\n")
	for day, hours := range table {
		out.WriteString(weekDays[day])
		for _, percent := range hours {
			if percent == "" {
				percent = "."
			}
			fmt.Fprintf(&out, " %3s", percent)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// HabitJSON is the same as JSON. Shares are in thousandths.
type HabitJSON struct {
	Node           string          `json:"node"`
	Owner          string          `json:"owner"`
	SinceMs        int64           `json:"since_ms"` // since when it is watched; 0 = nothing was learned
	PerWeekMilli   uint32          `json:"per_week_milli"`
	KilledPermille uint32          `json:"killed_permille"` // of the guests that had to leave
	Guests         uint32          `json:"guests"`          // that had to leave, up to 16
	Hours          []HabitHourJSON `json:"hours"`
}

// HabitHourJSON is one hour of the week in which the node was taken.
type HabitHourJSON struct {
	Day           string `json:"day"`
	Hour          uint32 `json:"hour"` // UTC
	TakenPermille uint32 `json:"taken_permille"`
	Times         uint32 `json:"times"`
	AtS           uint32 `json:"at_s"` // when in the hour, on average
	SpreadS       uint32 `json:"spread_s"`
}

// HabitJSONOf is what was learned of a node's owner.
func HabitJSONOf(node *pb.Node) *HabitJSON {
	h := node.GetHabit()
	out := &HabitJSON{
		Node: node.GetName(), Owner: node.GetOwnerAccount(), SinceMs: h.GetSinceMs(), PerWeekMilli: h.GetPerWeekMilli(), KilledPermille: h.GetKilledPermille(),
		Guests: h.GetGuests(), Hours: []HabitHourJSON{},
	}
	for _, hour := range h.GetHours() {
		if of := hour.GetHour(); of < 7*24 {
			out.Hours = append(out.Hours, HabitHourJSON{weekDays[of/24], of % 24, hour.GetTakenPermille(), hour.GetTimes(), hour.GetAtS(), hour.GetSpreadS()})
		}
	}
	return out
}
