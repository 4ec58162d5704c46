package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// PartitionWith names the first partition that meets a condition; "" if none
// does.
func (p *Policy) PartitionWith(is func(*Partition) bool) string {
	for i := range p.Partitions {
		if is(&p.Partitions[i]) {
			return p.Partitions[i].Name
		}
	}
	return ""
}

// ExclusiveKind says who may share a partition's nodes.
type ExclusiveKind uint8

// Exclusive kinds. Numbers are persisted: append only.
const (
	Shared        ExclusiveKind = 0
	ExclusiveNode ExclusiveKind = 1 // jobs get whole nodes
	ExclusiveUser ExclusiveKind = 2 // a node is one user's at a time
)

// exclusiveWords are the words of the API and of cluster.toml, by number.
var exclusiveWords = []string{"", "node", "user"}

func (p *Policy) normalizePartitionShares(q *Partition) error {
	if q.PriorityJobFactor == 1 {
		q.PriorityJobFactor = 0
	}
	var err error
	if q.BillingWeights, err = p.normalizeWeights(q.BillingWeights); err != nil {
		return fmt.Errorf("tres_billing_weights: %w", err)
	}
	for _, w := range q.BillingWeights {
		if w.Weight > MaxBillingWeight*weightUnit {
			return fmt.Errorf("tres_billing_weights: the weight of %s is above %d: divide all of them", w.Name, MaxBillingWeight)
		}
	}
	q.AllowAccounts, q.AllowQOS, q.QOS = sortedNames(q.AllowAccounts), sortedNames(q.AllowQOS), strings.ToLower(q.QOS)
	switch {
	case q.PriorityJobFactor > MaxPriorityJobFactor:
		return fmt.Errorf("priority_job_factor %d is too high: at most %d", q.PriorityJobFactor, MaxPriorityJobFactor)
	case CheckPreemptMode(q.PreemptMode) != nil:
		return fmt.Errorf("preempt_mode: %w", CheckPreemptMode(q.PreemptMode))
	case q.Exclusive > ExclusiveUser:
		return fmt.Errorf("exclusive: use node or user, or leave it out for nodes that jobs share")
	case len(q.AllowAccounts)+len(q.AllowQOS) > bounds.MaxListEntries:
		return fmt.Errorf("%d allowed accounts and QOS are too many: at most %d", len(q.AllowAccounts)+len(q.AllowQOS), bounds.MaxListEntries)
	}
	for _, name := range slices.Concat([]string{cmp.Or(q.QOS, "none")}, q.AllowAccounts, q.AllowQOS) {
		if !bounds.ValidName(name) {
			return fmt.Errorf("account or QOS name %q: use letters, digits and -_. only", bounds.Clip(name, bounds.MaxNameBytes))
		}
	}
	return nil
}

// sortedNames are the names of accounts or QOS, in lower case.
func sortedNames(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *Partition) readShares(message *pb.Partition) {
	p.PriorityJobFactor = message.GetPriorityJobFactor()
	p.QOS, p.AllowAccounts, p.AllowQOS = message.GetQos(), message.GetAllowAccounts(), message.GetAllowQos()
	p.PreemptMode = PreemptModeFrom(message.GetPreemptMode())
	p.GraceTimeS, p.BfCheckpoint, p.NestedContainers = message.GetGraceTimeS(), message.GetBfCheckpoint(), message.GetNestedContainers()
	p.Exclusive = ExclusiveKind(numberOf(exclusiveWords, message.GetExclusive()))
	for name, weight := range message.GetTresBillingWeights() {
		p.BillingWeights = append(p.BillingWeights, TRESWeight{Name: name, Weight: millionths(weight)})
	}
	sortWeights(p.BillingWeights)
}

func (p *Partition) writeShares(message *pb.Partition) {
	message.PriorityJobFactor = p.jobFactor()
	message.Qos, message.AllowAccounts, message.AllowQos = p.QOS, p.AllowAccounts, p.AllowQOS
	message.PreemptMode = preemptModeWord(p.PreemptMode)
	message.GraceTimeS, message.BfCheckpoint, message.NestedContainers = p.GraceTimeS, p.BfCheckpoint, p.NestedContainers
	message.Exclusive = wordOf(exclusiveWords, uint8(p.Exclusive))
	message.TresBillingWeights = p.billingWeights()
}

func (p *Partition) jobFactor() uint32 { return cmp.Or(p.PriorityJobFactor, 1) }

// billingWeights are the weights by name, as the API has them.
func (p *Partition) billingWeights() map[string]float64 {
	if len(p.BillingWeights) == 0 {
		return nil
	}
	weights := make(map[string]float64, len(p.BillingWeights))
	for _, w := range p.BillingWeights {
		weights[w.Name] = float64(w.Weight) / weightUnit
	}
	return weights
}

// shareSettings are a partition's settings about the order of its jobs; "" is
// the default, so that a new partition shows its settings.
func (p *Partition) shareSettings() []setting {
	return []setting{
		{"priority_job_factor", unless(1, p.jobFactor())},
		{"tres_billing_weights", spec.FormatBillingWeights(p.billingWeights())},
		{"qos", p.QOS},
		{"preempt_mode", preemptModeWord(p.PreemptMode)},
		{"grace_time_s", unless(0, p.GraceTimeS)},
		{"allow_accounts", strings.Join(p.AllowAccounts, ",")},
		{"allow_qos", strings.Join(p.AllowQOS, ",")},
		{"exclusive", wordOf(exclusiveWords, uint8(p.Exclusive))},
		{"bf_checkpoint", map[bool]string{true: "true"}[p.BfCheckpoint]},
		{"nested_containers", map[bool]string{true: "true"}[p.NestedContainers]},
	}
}
