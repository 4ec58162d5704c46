// Package clusterfile reads cluster.toml, the cluster's policy, into the message
// that a controller puts in force.
//
// Unknown keys, wrong types and values outside their bounds are refused, with the
// line and what to type instead. It reads no file itself, but through who calls it, and asks
// nobody.
package clusterfile

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// MaxBytes bounds cluster.toml; a file of a thousand partitions is
// a tenth of it.
const MaxBytes = 1 << 20

// clusterFile is cluster.toml. Durations are seconds as a number, or
// minutes:seconds and longer as a text; limits of jobs are Slurm's times.
type clusterFile struct {
	ClusterName    string          `toml:"cluster_name"`
	Administrators []string        `toml:"administrators"`
	MinJobAge      any             `toml:"min_job_age"`
	KillWait       any             `toml:"kill_wait"`
	MaxArraySize   *uint32         `toml:"max_array_size"`
	MaxJobCount    *uint32         `toml:"max_job_count"`
	Lease          any             `toml:"lease"`
	LeaseMargin    any             `toml:"lease_margin"`
	ImageWait      any             `toml:"image_wait"`
	Partitions     []partitionFile `toml:"partition"`
	Priority       priorityFile    `toml:"priority"`
	Preempt        preemptFile     `toml:"preempt"`
	Scheduler      schedulerFile   `toml:"scheduler"`
	Licenses       []licenseFile   `toml:"license"`
	Switches       []switchFile    `toml:"switch"`
	Owners         []ownerFile     `toml:"owner"`
	Borrowers      []borrowerFile  `toml:"borrower"`
	Accounting     accountingFile  `toml:"accounting"`
	Logins         []loginFile     `toml:"login"`
	Images         imagesFile      `toml:"images"`
	Mail           *mailFile       `toml:"mail"`
	// Exit statuses as in slurm.conf(5), "1-9,18".
	RequeueExit     string `toml:"requeue_exit"`
	RequeueExitHold string `toml:"requeue_exit_hold"`
	// What users see of themselves only, in words of PrivateData in slurm.conf(5).
	PrivateData []string `toml:"private_data"`
	Network     string   `toml:"network"`
	outsideFile
	// Of the networks between the nodes of a job.
	GangRange  string `toml:"gang_range"`
	GangRange6 string `toml:"gang_range6"`
	// Of jobs that name no memory, where their partition does not say.
	DefMemPerCPU string `toml:"def_mem_per_cpu"`
	DefMemPerGPU string `toml:"def_mem_per_gpu"`
	boundsFile
}

// Parse reads a policy. What the text leaves out has the default
// that a new cluster begins with. Unknown keys are refused, each with its line
// and the key most like it.
func Parse(text []byte) (*pb.Policy, error) { return ParseWith(text, nil) }

// ParseWith is Parse for a policy that may name files, as [images] does.
func ParseWith(text []byte, files Files) (*pb.Policy, error) {
	var file clusterFile
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // some editors begin a file so
	decoder := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, tomlError(err)
	}
	policy := &pb.Policy{
		ClusterName: "gleaner", Administrators: file.Administrators, MaxArraySize: 1_000_001, MaxJobCount: 1_000_000,
		Mail: file.Mail.message(),
	}
	if file.ClusterName != "" {
		policy.ClusterName = file.ClusterName
	}
	if file.MaxArraySize != nil {
		policy.MaxArraySize = *file.MaxArraySize
	}
	if file.MaxJobCount != nil {
		policy.MaxJobCount = *file.MaxJobCount
	}
	for _, duration := range []struct {
		key    string
		value  any
		normal uint32
		field  *uint32
	}{
		{"min_job_age", file.MinJobAge, 300, &policy.MinJobAgeS}, {"kill_wait", file.KillWait, 30, &policy.KillWaitS}, {"lease", file.Lease, 30, &policy.LeaseS},
		{"lease_margin", file.LeaseMargin, 10, &policy.LeaseMarginS}, {"image_wait", file.ImageWait, 180, &policy.ImageWaitS},
	} {
		seconds, err := durationSeconds(duration.value, duration.normal)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", duration.key, err)
		}
		*duration.field = seconds
	}
	if err := file.fillBounds(policy); err != nil {
		return nil, err
	}
	var err error
	if policy.RequeueExit, err = spec.ParseExitCodes(file.RequeueExit); err != nil {
		return nil, fmt.Errorf("requeue_exit: %w", err)
	}
	if policy.RequeueExitHold, err = spec.ParseExitCodes(file.RequeueExitHold); err != nil {
		return nil, fmt.Errorf("requeue_exit_hold: %w", err)
	}
	for _, text := range file.PrivateData {
		word, err := spec.PrivateDataWord(text)
		if err != nil {
			return nil, err
		}
		policy.PrivateData = append(policy.PrivateData, word)
	}
	if policy.Network, err = spec.NetworkRule(cmp.Or(file.Network, "host")); err != nil {
		return nil, err
	}
	if policy.Outside, err = file.outside(); err != nil {
		return nil, err
	}
	gangs, err := spec.ParseGangRange(file.GangRange, file.GangRange6)
	if err != nil {
		return nil, err
	}
	policy.GangRange = &pb.GangRange{V4: gangs.V4.String(), V6: gangs.V6.String()}
	if policy.DefaultMemoryPerCpuBytes, err = defaultMemory("def_mem_per_cpu", file.DefMemPerCPU); err != nil {
		return nil, err
	}
	if policy.DefaultMemoryPerGpuBytes, err = defaultMemory("def_mem_per_gpu", file.DefMemPerGPU); err != nil {
		return nil, err
	}
	for i, entry := range file.Partitions {
		partition, err := entry.partition()
		if err != nil {
			return nil, fmt.Errorf("partition %q (number %d of the file): %w", entry.Name, i+1, err)
		}
		policy.Partitions = append(policy.Partitions, partition)
	}
	if err := checkPartitions(policy.Partitions); err != nil {
		return nil, err
	}
	if err := file.fillBorrowers(policy); err != nil {
		return nil, err
	}
	if policy.Images, err = file.Images.rules(files, spec.SiteRules); err != nil {
		return nil, err
	}
	if err := file.fillLogins(policy); err != nil {
		return nil, err
	}
	if err := file.fillOwners(policy); err != nil {
		return nil, err
	}
	return policy, file.fillShares(policy)
}
