// Package diag is gdiag, Slurm's sdiag: what the controller has done. Exporters read its
// text, so each line has Slurm's words.
package diag

import (
	"bufio"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// load is how Slurm's own commands name what failed.
const load = "slurm_get_statistics"

func runDiag(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	controllers, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	if _, err := controllers.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	said, err := client.AskOne(inv.Context, controllers, controllers.Diagnose, &pb.DiagnoseRequest{Reset_: inv.Given("reset")})
	if err != nil {
		return client.LoadError(inv, load, err)
	}
	d := &diagnosis{DiagnoseResponse: said, types: byType(said.GetMethods()), users: byUser(said.GetUsers())}
	order(inv, d.types)
	order(inv, d.users)
	switch {
	case shape != show.JSONNone:
		return d.writeJSON(inv, shape)
	case inv.Given("reset"):
		_, err := fmt.Fprintln(inv.Stdout, "Reset scheduling statistics")
		return console.Output(err)
	}
	out := bufio.NewWriter(inv.Stdout)
	d.print(out)
	return console.Output(out.Flush())
}

// diagnosis is what is shown.
type diagnosis struct {
	*pb.DiagnoseResponse
	types, users []requestCount
}

const stars = "*******************************************************"

func (d *diagnosis) print(out *bufio.Writer) {
	line := func(text string, arguments ...any) { fmt.Fprintf(out, text+"\n", arguments...) } // a bufio.Writer keeps its error for Flush
	line(stars)
	line("sdiag output at %s", stamp(d.GetNowMs()))
	line("Data since      %s", stamp(d.GetSinceMs()))
	line(stars)
	line("Server thread count:  %d", d.GetRequestsNow())
	line("RPC queue enabled:    0")
	line("Agent queue size:     %d", d.GetOrdersWaiting())
	line("Agent count:          %d", d.GetNodesConnected())
	line("Agent thread count:   %d", d.GetNodesConnected())
	line("DBD Agent queue size: %d\n", d.GetRunsWaiting())
	line("Jobs submitted: %d", d.GetSubmitted())
	line("Jobs started:   %d", d.GetStarted())
	line("Jobs completed: %d", d.GetCompleted())
	line("Jobs canceled:  %d", d.GetCancelled())
	line("Jobs failed:    %d\n", d.GetFailed())
	line("Job states ts:  %s", stamp(d.GetNowMs()))
	line("Jobs pending:   %d", d.GetPending())
	line("Jobs running:   %d\n", d.GetRunning())
	line("Main schedule statistics (microseconds):")
	line("\tLast cycle:   %d", d.GetLastUs())
	line("\tMax cycle:    %d", d.GetMaxUs())
	line("\tTotal cycles: %d", d.GetPasses())
	line("\tMean cycle:   %d", d.meanUS())
	line("\tMean depth cycle:  %d", d.meanDepth())
	line("\tCycles per minute: %d", d.perMinute())
	line("\tLast queue length: %d\n", d.GetDepth())
	line("Backfilling stats")
	line("\tTotal backfilled jobs (since last slurm start): %d", d.GetBackfilledEver())
	line("\tTotal backfilled jobs (since last stats cycle start): %d", d.GetBackfilled())
	line("\tTotal backfilled heterogeneous job components: 0")
	line("\tTotal cycles: %d", d.GetPasses())
	if d.GetLastMs() == 0 {
		line("\tLast cycle when: N/A")
	} else {
		line("\tLast cycle when: %s", stamp(d.GetLastMs()))
	}
	line("\tLast cycle: %d", d.GetLastUs())
	line("\tMax cycle:  %d", d.GetMaxUs())
	line("\tMean cycle: %d", d.meanUS())
	line("\tLast depth cycle: %d", d.GetDepth())
	line("\tLast depth cycle (try sched): %d", d.GetDepth())
	line("\tDepth Mean: %d", d.meanDepth())
	line("\tDepth Mean (try depth): %d", d.meanDepth())
	line("\tLast queue length: %d", d.GetDepth())
	line("\tQueue length mean: %d", d.meanDepth())
	line("\nRemote Procedure Call statistics by message type")
	for _, r := range d.types {
		line("\t%-40s(%5d) count:%-6d ave_time:%-6d total_time:%d", format.Printable(r.name), r.id, r.count, r.average(), r.total)
	}
	line("\nRemote Procedure Call statistics by user")
	for _, r := range d.users {
		line("\t%-16s(%8d) count:%-6d ave_time:%-6d total_time:%d", format.Printable(r.name), r.id, r.count, r.average(), r.total)
	}
	line("\nPending RPC statistics")
	if d.GetOrdersWaiting() == 0 {
		line("\tNo pending RPCs")
	} else {
		line("\tMessages to nodes %d", d.GetOrdersWaiting())
	}
}

// stamp is a time in the manner of ctime(3), with its number.
func stamp(ms int64) string {
	return fmt.Sprintf("%s (%d)", time.UnixMilli(ms).Format(time.ANSIC), ms/1000)
}

func (d *diagnosis) meanUS() uint64 { return d.GetTotalUs() / max(d.GetPasses(), 1) }

func (d *diagnosis) meanDepth() uint64 { return d.GetDepths() / max(d.GetPasses(), 1) }

// perMinute is an average since the counts began, as in Slurm.
func (d *diagnosis) perMinute() uint64 {
	return d.GetPasses() / uint64(max((d.GetNowMs()-d.GetSinceMs())/60_000, 1))
}
