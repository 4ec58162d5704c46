package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// lend makes a command that sets on what terms nodes are lent, often one that is refused.
func (w *walker) lend() SetLending {
	c := SetLending{
		Names: []string{w.node(), w.node()}[:1+w.Intn(2)], Reset: w.chance(20), User: w.userName(), Privileged: w.chance(80),
		Coordinator: []string{"", w.userName()}[w.Intn(2)],
		Lending: Lending{
			NoticeMS: uint32(w.Intn(100_000)), Unbounded: w.chance(50), Hours: []string{"Mon-Fri 18:00-08:00", spec.Always, spec.Never, "?"}[w.Intn(4)],
			TimeZone: []string{"", "Europe/Berlin", "!"}[w.Intn(3)], GPUs: uint32(w.Intn(110)), Accounts: []string{w.accountName(), w.accountName()}[:w.Intn(3)],
			ParkedMemoryBytes: uint64(w.Intn(8)), GuestMemoryBytes: uint64(w.Intn(8)), GuestTmpBytes: uint64(w.Intn(8)), MaxUnsavedS: uint32(w.Intn(100)),
			Triggers: []pb.ReclaimTrigger{pb.ReclaimTrigger(w.Intn(6))}, QuietS: uint32(w.Intn(100)),
		},
	}
	if w.chance(50) {
		pattern := []string{"lab.example/**", "x y"}[w.Intn(2)]
		c.Lending.Images = &policy.Images{Allow: []string{pattern}, Signed: []policy.SignedImages{{Images: []string{pattern}, Identities: []policy.ImageIdentity{{Subject: "release@lab.example", Issuer: "https://token.lab.example"}}}}}
	}
	c.Lending.Nested = c.Lending.Unbounded
	for _, known := range lendWords {
		if known.setting == "nested_containers" { // goes with another, so that a seed draws what it drew
			if slices.Contains(c.Settings, "unbounded") {
				c.Settings = append(c.Settings, known.setting)
			}
			continue
		}
		if w.chance(15) && (known.setting != "elsewhere" || w.chance(5)) {
			c.Settings = append(c.Settings, known.setting)
		}
	}
	return c
}
