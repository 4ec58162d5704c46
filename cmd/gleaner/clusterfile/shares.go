package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has what cluster.toml says of the order of jobs.

// week is the default of max_age and of decay_half_life, as in slurm.conf(5).
const week = 7 * 24 * 3600

// resetPeriods are the words of PriorityUsageResetPeriod in slurm.conf(5).
var resetPeriods = []string{"NONE", "NOW", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"}

type priorityFile struct {
	WeightAge           uint32            `toml:"weight_age"`
	WeightAssociation   uint32            `toml:"weight_assoc"`
	WeightFairShare     uint32            `toml:"weight_fair_share"`
	WeightJobSize       uint32            `toml:"weight_job_size"`
	WeightPartition     uint32            `toml:"weight_partition"`
	WeightQOS           uint32            `toml:"weight_qos"`
	WeightTRES          map[string]uint32 `toml:"weight_tres"`
	MaxAge              any               `toml:"max_age"`
	DecayHalfLife       any               `toml:"decay_half_life"`
	FavorSmall          bool              `toml:"favor_small"`
	SmallRelativeToTime bool              `toml:"small_relative_to_time"`
	MaxTRES             bool              `toml:"max_tres"`
	UsageResetPeriod    string            `toml:"usage_reset_period"`
}

type preemptFile struct {
	Type            string `toml:"type"`
	Mode            string `toml:"mode"`
	ExemptTime      any    `toml:"exempt_time"`
	GuestExemptTime any    `toml:"guest_exempt_time"`
}

type licenseFile struct {
	Name  string  `toml:"name"`
	Count *uint32 `toml:"count"`
}

type switchFile struct {
	Name     string `toml:"name"`
	Nodes    string `toml:"nodes"`
	Switches string `toml:"switches"`
}

type accountingFile struct {
	Enforce []string `toml:"enforce"`
}

// fillShares fills in what the file says of the order of jobs.
func (f *clusterFile) fillShares(policy *pb.Policy) error {
	var err error
	if policy.Priority, err = f.Priority.message(); err != nil {
		return fmt.Errorf("priority.%w", err)
	}
	if policy.Preempt, err = f.Preempt.message(); err != nil {
		return fmt.Errorf("preempt.%w", err)
	}
	if policy.Scheduler, err = f.Scheduler.message(); err != nil {
		return fmt.Errorf("scheduler.%w", err)
	}
	if policy.Accounting, err = f.Accounting.message(); err != nil {
		return fmt.Errorf("accounting.enforce: %w", err)
	}
	seen := map[string]bool{}
	for i, license := range f.Licenses {
		switch {
		case license.Name == "":
			return fmt.Errorf("[[license]] number %d of the file needs a name", i+1)
		case license.Count == nil:
			return fmt.Errorf("license %q needs a count", license.Name)
		case seen[license.Name]:
			return fmt.Errorf("license %q is there twice: leave one, with the sum of both", license.Name)
		}
		seen[license.Name] = true
		policy.Licenses = append(policy.Licenses, &pb.License{Name: license.Name, Count: *license.Count})
	}
	for i, one := range f.Switches {
		if one.Name == "" {
			return fmt.Errorf("[[switch]] number %d of the file needs a name", i+1)
		}
		for _, list := range []struct{ key, text string }{{"nodes", one.Nodes}, {"switches", one.Switches}} {
			if _, err := spec.ParseHostList(list.text); err != nil {
				return fmt.Errorf("switch %q: %s: %w", one.Name, list.key, err)
			}
		}
		policy.Switches = append(policy.Switches, &pb.Switch{Name: one.Name, Nodes: one.Nodes, Switches: one.Switches})
	}
	return nil
}

func (p *priorityFile) message() (*pb.PriorityPolicy, error) {
	message := &pb.PriorityPolicy{
		WeightAge: p.WeightAge, WeightAssoc: p.WeightAssociation, WeightFairShare: p.WeightFairShare,
		WeightJobSize: p.WeightJobSize, WeightPartition: p.WeightPartition, WeightQos: p.WeightQOS,
		FavorSmall: p.FavorSmall, SmallRelativeToTime: p.SmallRelativeToTime, MaxTres: p.MaxTRES,
	}
	for _, key := range slices.Sorted(maps.Keys(p.WeightTRES)) {
		name, err := spec.TRESName(key)
		if err != nil {
			return nil, fmt.Errorf("weight_tres: %w", err)
		}
		if _, twice := message.WeightTres[name]; twice {
			return nil, fmt.Errorf("weight_tres: %s has two weights: leave one", name)
		}
		if message.WeightTres == nil {
			message.WeightTres = map[string]uint32{}
		}
		message.WeightTres[name] = p.WeightTRES[key]
	}
	message.UsageResetPeriod = cmp.Or(strings.ToUpper(p.UsageResetPeriod), "NONE")
	if !slices.Contains(resetPeriods, message.UsageResetPeriod) {
		return nil, fmt.Errorf("usage_reset_period: %q is none of %s", p.UsageResetPeriod, strings.Join(resetPeriods, ", "))
	}
	var err error
	if message.MaxAgeS, err = durationSeconds(p.MaxAge, week); err != nil {
		return nil, fmt.Errorf("max_age: %w", err)
	}
	if text, is := p.DecayHalfLife.(string); is && isUnlimited(text) {
		p.DecayHalfLife = int64(0)
	}
	if message.DecayHalfLifeS, err = spanSeconds(p.DecayHalfLife, week); err != nil {
		return nil, fmt.Errorf("decay_half_life: %w; \"UNLIMITED\" for usage that does not decay", err)
	}
	if message.DecayHalfLifeS == 0 {
		message.DecayHalfLifeS = spec.Unlimited // 0 is no decay, as in Slurm
	}
	return message, nil
}

func isUnlimited(text string) bool {
	return strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "INFINITE") || strings.EqualFold(text, "NONE")
}

// preemptTypes and preemptModes are the words of the file; those of Slurm mean
// the same.
var preemptTypes = map[string]string{
	"": "none", "none": "none", "partition": "partition", "qos": "qos",
	"preempt/none": "none", "preempt/partition_prio": "partition", "preempt/qos": "qos",
}

var preemptModes = map[string]string{
	"off": "off", "cancel": "cancel", "requeue": "requeue", "suspend": "suspend", "suspend,gang": "suspend", "checkpoint": "checkpoint",
}

func (p *preemptFile) message() (*pb.PreemptPolicy, error) {
	kind, known := preemptTypes[strings.ToLower(p.Type)]
	if !known {
		return nil, fmt.Errorf("type: %q is none of none, partition and qos", p.Type)
	}
	mode, err := preemptMode(p.Mode)
	if err != nil {
		return nil, fmt.Errorf("mode: %w", err)
	}
	if mode == "" {
		mode = "off"
	}
	exempt, err := spanSeconds(p.ExemptTime, 0)
	if err != nil {
		return nil, fmt.Errorf("exempt_time: %w", err)
	}
	guestExempt, err := spanSeconds(p.GuestExemptTime, 0)
	if err != nil {
		return nil, fmt.Errorf("guest_exempt_time: %w", err)
	}
	return &pb.PreemptPolicy{Type: kind, Mode: mode, ExemptTimeS: exempt, GuestExemptTimeS: guestExempt}, nil
}

// preemptMode is a mode by the word for it; "" stays.
func preemptMode(word string) (string, error) {
	mode, known := preemptModes[strings.ToLower(strings.ReplaceAll(word, " ", ""))]
	if !known && word != "" {
		return "", fmt.Errorf("%q is none of off, cancel, requeue and checkpoint", word)
	}
	return mode, nil
}

func (a *accountingFile) message() (*pb.AccountingPolicy, error) {
	message := &pb.AccountingPolicy{}
	for _, word := range a.Enforce {
		switch strings.ToLower(word) {
		case "associations":
			message.EnforceAssociations = true
		case "limits":
			message.EnforceAssociations, message.EnforceLimits = true, true
		case "qos":
			message.EnforceAssociations, message.EnforceQos = true, true
		case "safe":
			message.EnforceAssociations, message.EnforceLimits, message.Safe = true, true, true
		case "all":
			message.EnforceAssociations, message.EnforceLimits, message.EnforceQos, message.Safe = true, true, true, true
		case "nojobs", "nosteps", "wckeys":
			return nil, fmt.Errorf("%q of Slurm is not known here: jobs and steps are always accounted for, wckeys never asked for; leave it out", word)
		default:
			text := fmt.Sprintf("%q is none of associations, limits, qos, safe and all", word)
			if meant := similar.Nearest(word, []string{"associations", "limits", "qos", "safe", "all"}); meant != "" {
				text += "; did you mean " + meant + "?"
			}
			return nil, errors.New(text)
		}
	}
	return message, nil
}

// fillShares fills in what a partition says of the order of jobs.
func (p *partitionFile) fillShares(partition *pb.Partition) error {
	partition.Qos, partition.AllowAccounts, partition.AllowQos = p.QOS, p.AllowAccounts, p.AllowQOS
	partition.PriorityJobFactor, partition.BfCheckpoint, partition.NestedContainers = 1, p.BfCheckpoint, p.NestedContainers
	if p.PriorityJobFactor != nil {
		partition.PriorityJobFactor = *p.PriorityJobFactor
	}
	if partition.PriorityJobFactor == 0 {
		return errors.New("priority_job_factor: 0 is out of range: at least 1")
	}
	var err error
	if partition.TresBillingWeights, err = billingWeights(p.BillingWeights); err != nil {
		return fmt.Errorf("tres_billing_weights: %w", err)
	}
	if partition.PreemptMode, err = preemptMode(p.PreemptMode); err != nil {
		return fmt.Errorf("preempt_mode: %w", err)
	}
	if partition.GraceTimeS, err = spanSeconds(p.GraceTime, 0); err != nil {
		return fmt.Errorf("grace_time: %w", err)
	}
	switch word := strings.ToLower(p.Exclusive); word {
	case "", "node", "user":
		partition.Exclusive = word
	default:
		return fmt.Errorf("exclusive: %q is neither node nor user; leave it out for nodes that jobs share", p.Exclusive)
	}
	return nil
}

// billingWeights reads Slurm's text, or a table with a number or a text for
// each TRES.
func billingWeights(value any) (map[string]float64, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		if value == "" {
			return nil, nil
		}
		return spec.ParseBillingWeights(value)
	case map[string]any:
		weights := map[string]float64{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			name, err := spec.TRESName(key)
			if err != nil {
				return nil, err
			}
			if _, twice := weights[name]; twice {
				return nil, fmt.Errorf("%s has two weights: leave one", name)
			}
			if weights[name], err = spec.ParseBillingWeight(name, weightText(value[key])); err != nil {
				return nil, err
			}
		}
		return weights, nil
	}
	return nil, errors.New(`write them as "CPU=1.0,Mem=0.25G,GRES/gpu=2.0", or as a table`)
}

// weightText is a number of the file as text.
func weightText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		if !math.IsInf(value, 0) && !math.IsNaN(value) {
			return strconv.FormatFloat(value, 'f', -1, 64)
		}
	}
	return fmt.Sprint(value)
}
