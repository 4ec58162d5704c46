package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// NamedNodes are the nodes that the policy names as those of a partition or of an owner.
func (p *Policy) NamedNodes() map[string]bool {
	named := make(map[string]bool, len(p.owners))
	for i := range p.Partitions {
		for _, name := range p.Partitions[i].names {
			named[name] = true
		}
	}
	for name := range p.owners {
		named[name] = true
	}
	return named
}

// Normalize checks a policy and makes it comparable: sorted, with
// defaults instead of zeros. The error says what is wrong and what to write
// instead.
func Normalize(given *Policy) (*Policy, error) {
	policy := *given
	defaults := Default()
	policy.ClusterName = cmp.Or(policy.ClusterName, defaults.ClusterName)
	policy.MinJobAgeS = cmp.Or(policy.MinJobAgeS, defaults.MinJobAgeS)
	policy.KillWaitS = cmp.Or(policy.KillWaitS, defaults.KillWaitS)
	policy.MaxArraySize = cmp.Or(policy.MaxArraySize, defaults.MaxArraySize)
	policy.MaxJobCount = cmp.Or(policy.MaxJobCount, defaults.MaxJobCount)
	policy.LeaseS = cmp.Or(policy.LeaseS, defaults.LeaseS)
	if policy.LeaseMarginS == DefaultLeaseMarginS {
		policy.LeaseMarginS = 0
	}
	if policy.ImageWait == DefaultImageWaitS {
		policy.ImageWait = 0
	}
	policy.normalizeBounds()
	var err error
	if policy.RequeueExit, err = checkExitCodes("requeue_exit", policy.RequeueExit); err != nil {
		return nil, err
	}
	if policy.RequeueExitHold, err = checkExitCodes("requeue_exit_hold", policy.RequeueExitHold); err != nil {
		return nil, err
	}
	if err := policy.Mail.check(); err != nil {
		return nil, err
	}
	if err := policy.normalizePrivate(); err != nil {
		return nil, err
	}
	if err := policy.normalizeNetwork(); err != nil {
		return nil, err
	}
	policy.Administrators = slices.Clone(policy.Administrators)
	slices.Sort(policy.Administrators)
	policy.Administrators = slices.Compact(policy.Administrators)
	policy.Partitions = slices.Clone(policy.Partitions)
	slices.SortFunc(policy.Partitions, func(a, b Partition) int { return cmp.Compare(a.Name, b.Name) })
	if err := checkPolicy(&policy); err != nil {
		return nil, err
	}
	for i := range policy.Partitions {
		if err := normalizePartition(&policy.Partitions[i]); err != nil {
			return nil, fmt.Errorf("partition %s: %w", policy.Partitions[i].Name, err)
		}
	}
	if err := policy.normalizeShares(); err != nil {
		return nil, err
	}
	if err := policy.normalizeBorrowers(); err != nil {
		return nil, err
	}
	if err := policy.normalizeLogins(); err != nil {
		return nil, err
	}
	if err := spec.CheckImageRules(policy.Images.Message(), spec.SiteRules); err != nil {
		return nil, err
	}
	if err := policy.normalizeOwners(); err != nil {
		return nil, err
	}
	return &policy, nil
}

func checkPolicy(policy *Policy) error {
	switch {
	case len(policy.Partitions) == 0:
		return fmt.Errorf("the policy has no partition: jobs need one, such as [partitions.main] with nodes = \"ALL\"")
	case len(policy.Partitions) > bounds.MaxPartitions:
		return fmt.Errorf("%d partitions are too many: at most %d", len(policy.Partitions), bounds.MaxPartitions)
	case !bounds.ValidName(policy.ClusterName):
		return fmt.Errorf("cluster_name %q: use letters, digits and -_. only", bounds.Clip(policy.ClusterName, bounds.MaxNameBytes))
	case policy.MaxArraySize > spec.MaxArrayIndex+1:
		return fmt.Errorf("max_array_size %d is too high: at most %d", policy.MaxArraySize, spec.MaxArrayIndex+1)
	case len(policy.Administrators) > bounds.MaxListEntries:
		return fmt.Errorf("%d administrators are too many", len(policy.Administrators))
	}
	defaults := 0
	for i := range policy.Partitions {
		name := policy.Partitions[i].Name
		if !bounds.ValidName(name) {
			return fmt.Errorf("partition name %q: use letters, digits and -_. only", bounds.Clip(name, bounds.MaxNameBytes))
		}
		if i > 0 && policy.Partitions[i-1].Name == name {
			return fmt.Errorf("partition %s is there twice", name)
		}
		if policy.Partitions[i].Default {
			defaults++
		}
	}
	if defaults > 1 {
		return fmt.Errorf("%d partitions are the default one: leave default = true in one of them", defaults)
	}
	return nil
}

func normalizePartition(p *Partition) error {
	p.MaxTimeS = cmp.Or(p.MaxTimeS, sched.Unlimited)
	p.LeaseAction = cmp.Or(p.LeaseAction, LeaseRunOn)
	p.AllowGroups = slices.Clone(p.AllowGroups)
	slices.Sort(p.AllowGroups)
	p.AllowGroups = slices.Compact(p.AllowGroups)
	if p.LeaseAction != LeaseRunOn && p.LeaseAction != LeaseFence {
		return fmt.Errorf("lease_action %q: use %q or %q", bounds.Clip(p.LeaseAction, bounds.MaxNameBytes), LeaseRunOn, LeaseFence)
	}
	if p.Network > NetworkPrivateOnly {
		_, err := spec.NetworkRule("?")
		return err
	}
	if err := p.Outside.normalize(); err != nil {
		return err
	}
	if p.DefaultTimeS > p.MaxTimeS {
		return fmt.Errorf("default_time is longer than max_time: lower one or raise the other")
	}
	if strings.EqualFold(p.Nodes, allNodes) {
		p.Nodes, p.names = allNodes, nil
		return nil
	}
	names, err := spec.ParseHostList(p.Nodes)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("it has no nodes: give a host list such as n[1-4], or %q", allNodes)
	}
	for _, name := range names {
		if !spec.ValidHostName(name) {
			return fmt.Errorf("node name %q is not a host name", bounds.Clip(name, bounds.MaxNameBytes))
		}
	}
	p.Nodes = spec.FormatHostList(names)
	slices.Sort(names)
	p.names = names
	return nil
}

// normalizeShares checks the policy's settings about the order of jobs, and
// makes them comparable. The rest is normalised already.
func (p *Policy) normalizeShares() error {
	if err := p.normalizeLicenses(); err != nil {
		return err
	}
	if err := p.normalizePriority(); err != nil {
		return err
	}
	if err := p.Preempt.normalize(); err != nil {
		return err
	}
	if err := p.Scheduler.normalize(); err != nil {
		return err
	}
	p.Accounting.normalize()
	for i := range p.Partitions {
		if err := p.normalizePartitionShares(&p.Partitions[i]); err != nil {
			return fmt.Errorf("partition %s: %w", p.Partitions[i].Name, err)
		}
	}
	return p.normalizeSwitches()
}
