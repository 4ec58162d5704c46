package main

import (
	"errors"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

type partitionFile struct {
	Name          string   `toml:"name"`
	Nodes         string   `toml:"nodes"`
	Default       bool     `toml:"default"`
	State         string   `toml:"state"`
	MaxTime       string   `toml:"max_time"`
	DefaultTime   string   `toml:"default_time"`
	PriorityTier  *uint32  `toml:"priority_tier"`
	DefMemPerCPU  string   `toml:"def_mem_per_cpu"`
	AllowRootJobs bool     `toml:"allow_root_jobs"`
	LeaseAction   string   `toml:"lease_action"`
	AllowGroups   []string `toml:"allow_groups"`

	PriorityJobFactor *uint32  `toml:"priority_job_factor"`
	BillingWeights    any      `toml:"tres_billing_weights"`
	QOS               string   `toml:"qos"`
	PreemptMode       string   `toml:"preempt_mode"`
	GraceTime         any      `toml:"grace_time"`
	AllowAccounts     []string `toml:"allow_accounts"`
	AllowQOS          []string `toml:"allow_qos"`
	Exclusive         string   `toml:"exclusive"`
}

func (p *partitionFile) partition() (*pb.Partition, error) {
	partition := &pb.Partition{
		Name: p.Name, Nodes: p.Nodes, IsDefault: p.Default, MaxTimeS: spec.Unlimited, PriorityTier: 1,
		AllowRootJobs: p.AllowRootJobs, LeaseAction: p.LeaseAction, AllowGroups: p.AllowGroups,
	}
	if p.Name == "" {
		return nil, errors.New("it needs a name")
	}
	if strings.EqualFold(p.Nodes, "ALL") || p.Nodes == "" {
		partition.Nodes = "ALL"
	} else if _, err := spec.ParseHostList(p.Nodes); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	switch strings.ToLower(p.State) {
	case "", "up":
		partition.Up = true
	case "down":
	default:
		return nil, fmt.Errorf("state: %q is neither up nor down", p.State)
	}
	switch p.LeaseAction {
	case "":
		partition.LeaseAction = "run-on"
	case "run-on", "fence":
	default:
		return nil, fmt.Errorf("lease_action: %q is neither run-on nor fence", p.LeaseAction)
	}
	var err error
	if p.MaxTime != "" {
		if partition.MaxTimeS, err = spec.ParseTime(p.MaxTime); err != nil {
			return nil, fmt.Errorf("max_time: %w", err)
		}
	}
	if p.DefaultTime != "" {
		if partition.DefaultTimeS, err = spec.ParseTime(p.DefaultTime); err != nil {
			return nil, fmt.Errorf("default_time: %w", err)
		}
	}
	if p.DefMemPerCPU != "" {
		if partition.DefaultMemoryPerCpuBytes, err = spec.ParseSize(p.DefMemPerCPU, 1<<20); err != nil {
			return nil, fmt.Errorf("def_mem_per_cpu: %w", err)
		}
	}
	if p.PriorityTier != nil {
		partition.PriorityTier = *p.PriorityTier
	}
	if partition.DefaultTimeS > partition.MaxTimeS {
		return nil, fmt.Errorf("default_time %s is longer than max_time %s", p.DefaultTime, p.MaxTime)
	}
	return partition, p.fillShares(partition)
}

// checkPartitions looks at what single partitions cannot show.
func checkPartitions(partitions []*pb.Partition) error {
	if len(partitions) == 0 {
		return errors.New("a cluster needs at least one [[partition]]; nothing could run without")
	}
	seen, standard := map[string]bool{}, ""
	for _, partition := range partitions {
		if seen[partition.Name] {
			return fmt.Errorf("two partitions are called %q", partition.Name)
		}
		seen[partition.Name] = true
		if partition.IsDefault && standard != "" {
			return fmt.Errorf("partitions %q and %q both are the default one; keep default = true in one of them", standard, partition.Name)
		}
		if partition.IsDefault {
			standard = partition.Name
		}
	}
	return nil
}
