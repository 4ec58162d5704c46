package main

import (
	"bufio"
	"os/user"
	"slices"
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// loadShares is what sshare was doing when it failed.
const loadShares = "slurm_associations_get_shares"

func runShare(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	if inv.Given("helpformat") {
		return printShareNames(inv)
	}
	shape, err := jsonShapeOf(inv)
	if err != nil {
		return err
	}
	columns, err := shareColumnsOf(inv)
	if err != nil {
		return err
	}
	client, err := connect(inv)
	if err != nil {
		return err
	}
	defer client.Close()
	var shares []*pb.Share
	anew := func() bool { shares = nil; return true }
	err = list(inv.Context, client, client.ListShares, &pb.ListSharesRequest{}, anew, func(answer *pb.ListSharesResponse) error {
		shares = append(shares, answer.Shares...)
		return nil
	})
	if err != nil {
		return loadError(inv, loadShares, err)
	}
	wanted := chooseShares(inv)
	var rows []*shareRow
	for _, share := range shares {
		if wanted(share) {
			rows = append(rows, &shareRow{Share: share})
		}
	}
	if shape != jsonNone || wantsLimits(columns) {
		if err := addLimits(inv, client, rows); err != nil {
			return loadError(inv, loadAssocMgr, err)
		}
	}
	if shape != jsonNone {
		records := make([]*shareRecord, len(rows))
		for i, row := range rows {
			records[i] = shape.share(row)
		}
		return writeJSON(inv, shape, "shares", records)
	}
	out := bufio.NewWriter(inv.Stdout)
	printShares(out, inv, columns, rows)
	return output(out.Flush())
}

// chooseShares says which associations are shown: as in sshare all accounts,
// and of the users whoever asks.
func chooseShares(inv *option.Invocation) func(*pb.Share) bool {
	accounts, users := inv.List("accounts"), inv.List("users")
	if len(users) == 0 && !inv.Given("all") {
		users = []string{strconv.Itoa(uid())}
	}
	for i, word := range users { // a number is looked for by its name
		if _, err := strconv.ParseUint(word, 10, 32); err == nil {
			if known, err := user.LookupId(word); err == nil {
				users[i] = known.Username
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
