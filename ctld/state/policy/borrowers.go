package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file bounds how much an account may borrow: have on nodes of owners to which its
// jobs do not belong. What is idle is lent beyond that too. But the guests of an account
// that has more are judged together: they make room before all others, whatever each of
// them would lose.

// Borrower bounds what the jobs of an account, and of those below it, borrow together.
type Borrower struct {
	Account string `cbor:"1,keyasint"`
	GrpTRES string `cbor:"2,keyasint"` // as in Slurm: "cpu=32,gres/gpu=4"
}

// Borrowed are CPUs and whole GPUs.
type Borrowed struct{ CPUs, GPUs uint64 }

// The kinds of resource that are bounded.
const (
	borrowedCPU = "cpu"
	borrowedGPU = "gres/gpu"
)

// ParseBorrowed reads the bounds; what is not named is not bounded.
func ParseBorrowed(text string) (Borrowed, error) {
	limits := Borrowed{bounds.NoLimit, bounds.NoLimit}
	for _, word := range strings.Split(text, ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(word), "=")
		number, err := strconv.ParseUint(count, 10, 32)
		switch {
		case err != nil:
			return limits, fmt.Errorf("grp_tres %s: type a number for each kind, as in \"gres/gpu=4,cpu=32\"", bounds.Quoted(text))
		case name == borrowedCPU:
			limits.CPUs = number
		case name == borrowedGPU:
			limits.GPUs = number
		default:
			return limits, fmt.Errorf("grp_tres %s: what is borrowed is counted in cpu and gres/gpu", bounds.Quoted(text))
		}
	}
	return limits, nil
}

// normalizeBorrowers checks that an account is bounded once.
func (p *Policy) normalizeBorrowers() error {
	if len(p.Borrowers) > bounds.MaxOwners {
		return fmt.Errorf("%d borrowers are too many: at most %d", len(p.Borrowers), bounds.MaxOwners)
	}
	p.Borrowers = slices.Clone(p.Borrowers)
	for i := range p.Borrowers {
		p.Borrowers[i].Account = strings.ToLower(p.Borrowers[i].Account)
	}
	slices.SortFunc(p.Borrowers, func(a, b Borrower) int { return cmp.Compare(a.Account, b.Account) })
	for i := range p.Borrowers {
		b := &p.Borrowers[i]
		if !bounds.ValidName(b.Account) {
			return fmt.Errorf("borrower: account name %s: use letters, digits and -_. only", bounds.Quoted(b.Account))
		}
		if i > 0 && p.Borrowers[i-1].Account == b.Account {
			return fmt.Errorf("account %s is a borrower twice: write one [[borrower]]", b.Account)
		}
		if _, err := ParseBorrowed(b.GrpTRES); err != nil || len(b.GrpTRES) > bounds.MaxNameBytes {
			return fmt.Errorf("borrower %s: %w", b.Account, cmp.Or(err, fmt.Errorf("grp_tres is longer than %d bytes", bounds.MaxNameBytes)))
		}
	}
	return nil
}

// BorrowerEntries are the borrowers as "gcontrol show config" lists them.
func (p *Policy) BorrowerEntries() []*pb.ConfigEntry {
	var entries []*pb.ConfigEntry
	for i := range p.Borrowers {
		entries = append(entries, &pb.ConfigEntry{Key: "Borrower[" + p.Borrowers[i].Account + "]", Value: p.Borrowers[i].GrpTRES})
	}
	return entries
}

func diffBorrowers(changes []*pb.PolicyChange, before, after *Policy) []*pb.PolicyChange {
	return diffNamed(changes, "borrowers.", before.Borrowers, after.Borrowers,
		func(b *Borrower) string { return b.Account }, func(b *Borrower) []setting { return []setting{{".grp_tres", b.GrpTRES}} })
}
