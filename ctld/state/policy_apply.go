package state

import (
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// ApplyPolicy replaces the policy. A partition that jobs wait for or run in
// cannot be removed. Make one with policy.FromMessage.
type ApplyPolicy struct {
	Policy policy.Policy `cbor:"1,keyasint"`
}

func (ApplyPolicy) kind() Kind { return KindApplyPolicy }

func (c ApplyPolicy) apply(s *State, result *Result) {
	site, err := policy.Normalize(&c.Policy)
	if err != nil {
		result.Refused = refuse(Invalid, "%v", err)
		return
	}
	if result.Refused = s.checkRemoved(site); result.Refused != nil {
		return
	}
	if result.Refused = s.UnknownNames(site); result.Refused != nil {
		return
	}
	if site.Priority.HalfLifeS() != s.policy.Priority.HalfLifeS() {
		s.settleUsage()
	}
	if site.Priority.UsageReset != s.policy.Priority.UsageReset {
		s.resetFromMS = s.timeMS
	}
	s.setPolicy(site)
	s.boundEndedRuns()
	s.changes.policy = true
	if site.Priority.UsageReset == policy.ResetNow {
		s.resetUsage()
	}
}

// checkRemoved refuses to remove partitions in use.
func (s *State) checkRemoved(policy *policy.Policy) *Refusal {
	used := map[string]int{}
	for job := range s.LiveJobs() {
		if job.Run != nil {
			used[job.Run.Partition]++
			continue
		}
		for _, name := range job.Spec.Partitions {
			used[name]++
		}
	}
	for i := range s.policy.Partitions {
		name := s.policy.Partitions[i].Name
		if _, kept := policy.Partition(name); !kept && used[name] > 0 {
			return refuse(WrongState, "partition %s cannot be removed: %d jobs are in it; set up = false, wait for them or cancel them, then remove it", name, used[name])
		}
	}
	return nil
}

// setPolicy puts a normalised policy in force. The nodes that it names get a
// record; those that never registered and that it no longer names lose theirs.
func (s *State) setPolicy(policy *policy.Policy) {
	s.policy = policy
	s.longestLeaseS = max(s.longestLeaseS, policy.LeaseS)
	named := policy.NamedNodes()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if _, known := s.nodes.Get(name); !known {
			s.putNode(&Node{Name: name})
		}
	}
	var gone []string
	s.nodes.Scan(func(name string, node *Node) bool {
		if node.Inventory == nil && !named[name] && !node.holdsStarts() {
			gone = append(gone, name)
		}
		return true
	})
	for _, name := range gone {
		s.deleteNode(name)
	}
	s.forgetLending()
	within := policy.GangRange.Prefixes()
	for node := range s.Nodes() {
		s.noteCrossed(node, within)
	}
}

// unknownOwner refuses a policy that gives nodes to an account that does not exist, or
// bounds one.
func (a *accounting) unknownOwner(policy *policy.Policy) *Refusal {
	for i := range policy.Owners {
		if name := policy.Owners[i].Account; !a.hasAccount(name) {
			return refuse(Invalid, "owner %s: the account does not exist: add it first with gacctmgr add account %s", name, name)
		}
	}
	for i := range policy.Borrowers {
		if name := policy.Borrowers[i].Account; !a.hasAccount(name) {
			return refuse(Invalid, "borrower %s: the account does not exist: add it first with gacctmgr add account %s", name, name)
		}
	}
	return nil
}
