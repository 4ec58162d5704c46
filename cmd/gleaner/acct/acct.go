// Package acct is gacct, Slurm's sacct: jobs and their steps, those that are long over too.
//
// Lines are printed as they come, in the order of the jobs' numbers, so that memory stays
// bounded however many there are.
package acct

import (
	"cmp"
	"runtime/debug"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// listGCPercent is how far the heap may grow between two collections while lines are printed:
// what lives is a message or two, and collecting it all the time was a quarter of the work.
const listGCPercent = 400

func runAcct(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	if inv.Given("helpformat") {
		return table.PrintNames(inv, all(), 19)
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	printer, unit, err := newPrinter(inv)
	if err != nil {
		return err
	}
	now := console.Clock()
	wanted, err := choose(inv, now)
	if err != nil {
		return err
	}
	controllers, err := past.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	if _, err := controllers.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	view := show.NewView(inv.Getenv, now)
	view.WholeUnits = inv.Given("noconvert")
	if inv.Given("batch-script") {
		return writeScripts(inv, controllers, view, wanted)
	}
	if shape != show.JSONNone {
		return writeJSON(inv, shape, view, func(use func(*pb.PastRun) error) error {
			return past.Ask(inv, controllers, view, wanted.request, func(run *pb.PastRun) error {
				wanted.addRunning(inv, controllers, run)
				if len(wanted.rows(run, view)) == 0 {
					return nil
				}
				return use(run)
			})
		})
	}
	if inv.Getenv("GOGC") == "" {
		debug.SetGCPercent(listGCPercent)
	}
	wanted.request.Fields = wanted.fields(printer.Names())
	printer.Header()
	found := false
	err = past.Ask(inv, controllers, view, wanted.request, func(run *pb.PastRun) error {
		wanted.addRunning(inv, controllers, run)
		for _, one := range wanted.rows(run, view) {
			printer.Line(&row{Row: one, view: view, unit: unit, window: wanted.window})
			found = true
		}
		return nil
	})
	if err != nil {
		return past.Failed(inv, err)
	}
	if err := printer.Flush(); err != nil || found {
		return err
	}
	wanted.tellStrangers(inv)
	return nil
}

// newPrinter is the table that is wanted, and the unit of --units.
func newPrinter(inv *option.Invocation) (*table.Printer[*row], byte, error) {
	text := cmp.Or(inv.Getenv("SACCT_FORMAT"), defaultFormat)
	switch {
	case inv.Given("long"):
		text = longFormat
	case inv.Given("brief"):
		text = briefFormat
	}
	printer, err := table.New(inv, all(), text)
	if err != nil || !inv.Given("units") {
		return printer, 0, err
	}
	unit := strings.ToUpper(inv.Text("units"))
	if len(unit) != 1 || !strings.Contains(units, unit) {
		return nil, 0, inv.Fail("Invalid unit type: %s; name one of K, M, G, T and P", inv.Text("units"))
	}
	return printer, unit[0], nil
}
