// Package share is gshare, Slurm's sshare: shares, usage and limits of the
// accounting tree.
package share

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// loadShares is what sshare was doing when it failed.
const loadShares = "slurm_associations_get_shares"

func runShare(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	if inv.Given("helpformat") {
		return table.PrintNames(inv, shareColumns, 17)
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	printer, err := newPrinter(inv)
	if err != nil {
		return err
	}
	controllers, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	cluster, err := controllers.Cluster(inv.Context, inv.Values)
	if err != nil {
		return err
	}
	var shares []*pb.Share
	restart := func() bool { shares = nil; return true }
	err = client.List(inv.Context, controllers, controllers.ListShares, &pb.ListSharesRequest{}, restart, func(answer *pb.ListSharesResponse) error {
		shares = append(shares, answer.Shares...)
		return nil
	})
	if err != nil {
		return client.LoadError(inv, loadShares, err)
	}
	wanted := chooseShares(inv)
	var rows []*shareRow
	for _, share := range shares {
		if wanted(share) {
			rows = append(rows, &shareRow{Share: share})
		}
	}
	if shape != show.JSONNone || printer.Has(nameMinutes) || printer.Has(nameRunMinutes) {
		if err := addLimits(inv, controllers, rows); err != nil {
			return client.LoadError(inv, client.LoadAssocMgr, err)
		}
	}
	if shape != show.JSONNone {
		return writeJSON(inv, shape, rows)
	}
	if cluster != "" {
		fmt.Fprintf(inv.Stdout, "CLUSTER: %s\n", cluster)
	}
	if !inv.Given(optNoHeader) {
		printer.Header()
	}
	for _, row := range rows {
		printer.Line(row)
	}
	return printer.Flush()
}

// chooseShares says which associations are shown: as in sshare all accounts,
// and of the users the caller.
func chooseShares(inv *option.Invocation) func(*pb.Share) bool {
	accounts, users := inv.List("accounts"), inv.List("users")
	if len(users) == 0 && !inv.Given("all") {
		users = []string{strconv.Itoa(console.UID())}
	}
	for i, word := range users { // a number is looked for by its name
		if _, err := strconv.ParseUint(word, 10, 32); err == nil {
			if name, err := console.UserName(word); err == nil {
				users[i] = name
			}
		}
	}
	return func(s *pb.Share) bool {
		switch {
		case len(accounts) > 0 && !slices.Contains(accounts, s.Account):
			return false
		case s.User == "":
			return !inv.Given("Users")
		}
		return inv.Given("all") || slices.Contains(users, s.User)
	}
}
