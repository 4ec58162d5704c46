package main

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/acct"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/acctmgr"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/agent"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/alloc"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/attach"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/bcast"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/cancel"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/control"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/copy"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/dev"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/diag"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/doctor"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/eff"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/forward"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/hold"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/image"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/info"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/lend"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/logs"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/prio"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/queue"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/reclaim"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/release"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/report"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/run"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/setup"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/share"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/simulate"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/stat"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/submit"
)

// commands are all user commands, in the order in which the help shows them.
func commands() []*option.Command { return slices.Collect(each) }

// each yields the commands one by one, so that whoever looks for one of the first makes
// no table of the others: most runs are of these.
func each(yield func(*option.Command) bool) {
	for _, command := range constructors() {
		if !yield(command()) {
			return
		}
	}
}

// constructors is a function, so that a table can refer to code which itself needs the
// list, as the manual pages do.
func constructors() []func() *option.Command {
	return []func() *option.Command{
		submit.Command,
		queue.Command,
		cancel.Command,
		info.Command,
		prio.Command,
		share.Command,
		acct.Command,
		stat.Command,
		eff.Command,
		report.Command,
		diag.Command,
		control.Command,
		acctmgr.Command,
		reclaim.Command,
		release.Command,
		lend.Command,
		run.Command,
		alloc.Command,
		attach.Command,
		bcast.Command,
		copy.Command,
		forward.Command,
		logs.Command,
		image.Command,
		doctor.Command,
		setup.Command,
		agent.Command,
		simulate.Command,
		dev.Command,
		hold.Command,
		manCommand,
		completionCommand,
	}
}
