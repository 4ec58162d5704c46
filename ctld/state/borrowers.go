package state

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// borrowed are CPUs and whole GPUs.
type borrowed struct{ cpus, gpus uint64 }

// The kinds of resource that are bounded.
const (
	borrowedCPU = "cpu"
	borrowedGPU = "gres/gpu"
)

// parseBorrowed reads the bounds; what is not named is not bounded.
func parseBorrowed(text string) (borrowed, error) {
	bounds := borrowed{NoLimit, NoLimit}
	for _, word := range strings.Split(text, ",") {
		name, count, _ := strings.Cut(strings.TrimSpace(word), "=")
		number, err := strconv.ParseUint(count, 10, 32)
		switch {
		case err != nil:
			return bounds, fmt.Errorf("grp_tres %s: type a number for each kind, as in \"gres/gpu=4,cpu=32\"", quoted(text))
		case name == borrowedCPU:
			bounds.cpus = number
		case name == borrowedGPU:
			bounds.gpus = number
		default:
			return bounds, fmt.Errorf("grp_tres %s: what is borrowed is counted in cpu and gres/gpu", quoted(text))
		}
	}
	return bounds, nil
}

// normalizeBorrowers checks that an account is bounded once.
func (p *Policy) normalizeBorrowers() error {
	if len(p.Borrowers) > MaxOwners {
		return fmt.Errorf("%d borrowers are too many: at most %d", len(p.Borrowers), MaxOwners)
	}
	p.Borrowers = slices.Clone(p.Borrowers)
	for i := range p.Borrowers {
		p.Borrowers[i].Account = strings.ToLower(p.Borrowers[i].Account)
	}
	slices.SortFunc(p.Borrowers, func(a, b Borrower) int { return cmp.Compare(a.Account, b.Account) })
	for i := range p.Borrowers {
		b := &p.Borrowers[i]
		if !validName(b.Account) {
			return fmt.Errorf("borrower: account name %s: use letters, digits and -_. only", quoted(b.Account))
		}
		if i > 0 && p.Borrowers[i-1].Account == b.Account {
			return fmt.Errorf("account %s is a borrower twice: write one [[borrower]]", b.Account)
		}
		if _, err := parseBorrowed(b.GrpTRES); err != nil || len(b.GrpTRES) > MaxNameBytes {
			return fmt.Errorf("borrower %s: %w", b.Account, cmp.Or(err, fmt.Errorf("grp_tres is longer than %d bytes", MaxNameBytes)))
		}
	}
	return nil
}

// overBorrowers are the accounts of [[borrower]] whose jobs have more than they may.
func (t *tables) overBorrowers() map[string]bool {
	if len(t.policy.Borrowers) == 0 {
		return nil
	}
	has := make([]borrowed, len(t.policy.Borrowers))
	t.live.Scan(func(_ uint32, job *Job) bool {
		association, known := t.Association(job.Association)
		if !known || !job.HoldsNodes() {
			return true
		}
		b := t.borrows(job)
		for i := range has {
			if b != (borrowed{}) && t.IsBelow(association.Account, t.policy.Borrowers[i].Account) {
				has[i].cpus, has[i].gpus = has[i].cpus+b.cpus, has[i].gpus+b.gpus
			}
		}
		return true
	})
	over := map[string]bool{}
	for i, b := range t.policy.Borrowers {
		if bounds, err := parseBorrowed(b.GrpTRES); err == nil && (has[i].cpus > bounds.cpus || has[i].gpus > bounds.gpus) {
			over[b.Account] = true
		}
	}
	return over
}

// borrows is what a job has on nodes of others. What is parked is not borrowed.
func (t *tables) borrows(job *Job) (b borrowed) {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		if alloc.Released || alloc.Parked || t.policy.OwnerOf(alloc.Node) == "" || t.OwnersJob(job, alloc.Node) {
			continue
		}
		b.cpus, b.gpus = b.cpus+uint64(len(alloc.CPUs)), b.gpus+uint64(len(alloc.Devices))
	}
	return b
}

// overBorrower is the account of a job, or one above it, that borrows more than it may;
// "" = none does.
func (t *tables) overBorrower(job *Job, over map[string]bool) string {
	association, known := t.Association(job.Association)
	if !known || len(over) == 0 {
		return ""
	}
	for i := range t.policy.Borrowers {
		if name := t.policy.Borrowers[i].Account; over[name] && t.IsBelow(association.Account, name) {
			return name
		}
	}
	return ""
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
