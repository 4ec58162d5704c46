package clusterfile

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// ownerFile gives nodes to an account.
type ownerFile struct {
	Account string `toml:"account"`
	Nodes   string `toml:"nodes"`
}

// borrowerFile bounds what an account borrows.
type borrowerFile struct {
	Account string `toml:"account"`
	GrpTRES string `toml:"grp_tres"`
}

func (f *clusterFile) fillBorrowers(policy *pb.Policy) error {
	for i, borrower := range f.Borrowers {
		switch {
		case borrower.Account == "":
			return fmt.Errorf("[[borrower]] number %d of the file needs an account", i+1)
		case borrower.GrpTRES == "":
			return fmt.Errorf("borrower %q needs grp_tres, as in \"gres/gpu=4,cpu=32\"", borrower.Account)
		}
		policy.Borrowers = append(policy.Borrowers, &pb.Borrower{Account: borrower.Account, GrpTres: borrower.GrpTRES})
	}
	return nil
}

func (f *clusterFile) fillOwners(policy *pb.Policy) error {
	for i, owner := range f.Owners {
		switch {
		case owner.Account == "":
			return fmt.Errorf("[[owner]] number %d of the file needs an account", i+1)
		case owner.Nodes == "":
			return fmt.Errorf("owner %q needs nodes, a host list such as n[1-4]", owner.Account)
		}
		if _, err := spec.ParseHostList(owner.Nodes); err != nil {
			return fmt.Errorf("owner %q: nodes: %w", owner.Account, err)
		}
		policy.Owners = append(policy.Owners, &pb.Owner{Account: owner.Account, Nodes: owner.Nodes})
	}
	return nil
}
