package clusterfile

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
	DefMemPerGPU  string   `toml:"def_mem_per_gpu"`
	AllowRootJobs bool     `toml:"allow_root_jobs"`
	LeaseAction   string   `toml:"lease_action"`
	AllowGroups   []string `toml:"allow_groups"`
	Network       string   `toml:"network"`
	outsideFile

	PriorityJobFactor *uint32  `toml:"priority_job_factor"`
	BillingWeights    any      `toml:"tres_billing_weights"`
	QOS               string   `toml:"qos"`
	PreemptMode       string   `toml:"preempt_mode"`
	GraceTime         any      `toml:"grace_time"`
	AllowAccounts     []string `toml:"allow_accounts"`
	AllowQOS          []string `toml:"allow_qos"`
	Exclusive         string   `toml:"exclusive"`
	BfCheckpoint      bool     `toml:"bf_checkpoint"`
	NestedContainers  bool     `toml:"nested_containers"`
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
	if partition.Network, err = spec.NetworkRule(p.Network); err != nil {
		return nil, err
	}
	if partition.Outside, err = p.outside(); err != nil {
		return nil, err
	}
	if p.MaxTime != "" {
		if partition.MaxTimeS, err = partitionTime(p.MaxTime); err != nil {
			return nil, fmt.Errorf("max_time: %w", err)
		}
	}
	if p.DefaultTime != "" {
		if partition.DefaultTimeS, err = partitionTime(p.DefaultTime); err != nil {
			return nil, fmt.Errorf("default_time: %w", err)
		}
	}
	if partition.DefaultMemoryPerCpuBytes, err = defaultMemory("def_mem_per_cpu", p.DefMemPerCPU); err != nil {
		return nil, err
	}
	if partition.DefaultMemoryPerGpuBytes, err = defaultMemory("def_mem_per_gpu", p.DefMemPerGPU); err != nil {
		return nil, err
	}
	if p.PriorityTier != nil {
		partition.PriorityTier = *p.PriorityTier
	}
	if partition.DefaultTimeS > partition.MaxTimeS {
		return nil, fmt.Errorf("default_time %s is longer than max_time %s", p.DefaultTime, p.MaxTime)
	}
	return partition, p.fillShares(partition)
}

// defaultMemory reads the memory of jobs that name none; "" is none.
func defaultMemory(key, text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	bytes, err := spec.ParseSize(text, 1<<20)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	return bytes, nil
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

// partitionTime reads a time limit of a partition. slurm.conf(5) gives zero no
// meaning there, so it is refused: it could mean no time or no limit.
func partitionTime(text string) (uint32, error) {
	seconds, err := spec.ParseWall(text)
	if err == nil && seconds == 0 {
		return 0, fmt.Errorf("%q leaves no time to run in: write a time, or UNLIMITED for no limit", text)
	}
	return seconds, err
}
