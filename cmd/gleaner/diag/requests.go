package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// requestCount is a line about requests of one kind, or of one user.
type requestCount struct {
	name  string
	id    uint32
	count uint64
	total uint64 // microseconds
}

func (r *requestCount) average() uint64 { return r.total / max(r.count, 1) }

// slurmsNames are requests that Slurm has too, with its numbers.
var slurmsNames = map[string]requestCount{
	"Submit":           {name: "REQUEST_SUBMIT_BATCH_JOB", id: 4003},
	"TestSubmission":   {name: "REQUEST_JOB_WILL_RUN", id: 4012},
	"Cancel":           {name: "REQUEST_KILL_JOB", id: 5032},
	"UpdateJobs":       {name: "REQUEST_UPDATE_JOB", id: 3001},
	"UpdateNode":       {name: "REQUEST_UPDATE_NODE", id: 3002},
	"ListJobs":         {name: "REQUEST_JOB_INFO", id: 2003},
	"ListNodes":        {name: "REQUEST_NODE_INFO", id: 2007},
	"ListPartitions":   {name: "REQUEST_PARTITION_INFO", id: 2009},
	"ShowConfig":       {name: "REQUEST_BUILD_INFO", id: 2001},
	"ListShares":       {name: "REQUEST_SHARE_INFO", id: 2022},
	"ListReservations": {name: "REQUEST_RESERVATION_INFO", id: 2024},
	"ListPriorities":   {name: "REQUEST_PRIORITY_FACTORS", id: 2026},
	"Diagnose":         {name: "REQUEST_STATS_INFO", id: 2035},
	"ListLicenses":     {name: "REQUEST_LICENSE_INFO", id: 1022},
	"Ping":             {name: "REQUEST_PING", id: 1008},
}

// byType are requests by what was asked. Those that Slurm does not have get a name in its
// manner, and the number 0.
func byType(counts []*pb.RequestCount) []requestCount {
	all := make([]requestCount, len(counts))
	for i, c := range counts {
		known, is := slurmsNames[c.GetName()]
		if !is {
			known.name = "REQUEST" + upperSnake(c.GetName())
		}
		known.count, known.total = c.GetCount(), c.GetTotalUs()
		all[i] = known
	}
	return all
}

// upperSnake is ListRuns as _LIST_RUNS.
func upperSnake(name string) string {
	var out strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			out.WriteRune(unicode.ToUpper(r))
		}
	}
	return out.String()
}

// byUser are requests by who asked, with the names that this host has for them.
func byUser(counts []*pb.RequestCount) []requestCount {
	all := make([]requestCount, len(counts))
	for i, c := range counts {
		name, err := console.UserName(fmt.Sprint(c.GetUid()))
		switch {
		case c.GetUid() == beyond:
			name = "others"
		case err != nil:
			name = fmt.Sprint(c.GetUid())
		}
		all[i] = requestCount{name: name, id: c.GetUid(), count: c.GetCount(), total: c.GetTotalUs()}
	}
	return all
}

// beyond stands for the users beyond those that are counted apart.
const beyond = ^uint32(0)

// order sorts as the options say; the most frequent first, without any.
func order(inv *option.Invocation, all []requestCount) {
	slices.SortStableFunc(all, func(a, b requestCount) int {
		switch {
		case inv.Given("sort-by-id"):
			return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.name, b.name))
		case inv.Given("sort-by-time"):
			return cmp.Compare(b.total, a.total)
		case inv.Given("sort-by-time2"):
			return cmp.Compare(b.average(), a.average())
		}
		return cmp.Compare(b.count, a.count)
	})
}
