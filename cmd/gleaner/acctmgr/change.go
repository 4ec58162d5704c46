package acctmgr

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// decideTime is how long sacctmgr waits for an answer. Tests are less patient.
var decideTime = 30 * time.Second

// maxChanges is how many changes a controller takes at once.
const maxChanges = 10_000

// carryOut shows what would change, asks, and changes it.
func (c *acctmgrRun) carryOut(plan *account.Plan) error {
	for _, line := range plan.Skipped {
		fmt.Fprintln(c.inv.Stderr, format.Printable(line))
	}
	switch {
	case c.json != show.JSONNone:
		return c.inv.Fail("what changes has no JSON: leave --json out")
	case len(plan.Changes) == 0:
		fmt.Fprintln(c.inv.Stderr, plan.Nothing)
		return option.Exit(1)
	case c.inv.Given("readonly"):
		return c.inv.Fail("nothing was changed, because of --readonly")
	case len(plan.Changes) > maxChanges:
		return c.inv.Fail("this means %d records, and at most %d can be changed at once: narrow it down", len(plan.Changes), maxChanges)
	}
	if err := c.tell(plan.Lines); err != nil {
		return err
	}
	dry := c.inv.Given("dry-run")
	if dry || !c.inv.Given("immediate") {
		// Nobody should be asked about what would be refused.
		if err := c.change(plan.Changes, true); err != nil {
			return err
		}
	}
	if dry {
		return nil
	}
	if err := c.confirm(); err != nil {
		return err
	}
	return c.change(plan.Changes, false)
}

// tell shows the lines of a plan.
func (c *acctmgrRun) tell(lines []string) error {
	if c.inv.Given("quiet") {
		return nil
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, line := range lines {
		_, _ = out.WriteString(format.Printable(line) + "\n") // a bufio.Writer keeps its error for Flush
	}
	return console.Output(out.Flush())
}

func (c *acctmgrRun) change(changes []*pb.AccountChange, dryRun bool) error {
	answer, err := client.Call(c.inv.Context, c.client, c.client.ChangeAccounts,
		&pb.ChangeAccountsRequest{RequestId: uuid.NewString(), Changes: changes, DryRun: dryRun})
	if err != nil {
		return client.LoadError(c.inv, " Error with request", err)
	}
	if !dryRun || c.inv.Given("dry-run") {
		for _, note := range answer.GetNotes() {
			fmt.Fprintln(c.inv.Stderr, " "+format.Printable(note))
		}
	}
	return nil
}

// confirm asks on a terminal, as sacctmgr does: silence and an interrupt are a
// no. Where there is no terminal only --immediate is an answer.
func (c *acctmgrRun) confirm() error {
	if c.inv.Given("immediate") {
		return nil
	}
	limited := *c.inv
	ctx, cancel := context.WithTimeout(c.inv.Context, decideTime)
	defer cancel()
	limited.Context = ctx
	question := fmt.Sprintf("Would you like to commit changes? (You have %d seconds to decide)\n(N/y): ", int(decideTime.Seconds()))
	yes, err := console.Confirm(&limited, c.inv.Stdout, question, "add -i (--immediate) to change it without being asked")
	if yes || err != nil {
		return err
	}
	fmt.Fprintln(c.inv.Stderr, " Changes Discarded")
	return option.Exit(1)
}
