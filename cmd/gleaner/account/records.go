package account

import (
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file makes the records of --json: numbers as numbers, lists as lists,
// limits by sacctmgr's names.

// Record is one object of JSON.
type Record map[string]any

// Records are the lines of a table as records.
func (r *Request) Records(l *Listing) []any {
	records := []any{}
	for _, line := range r.rows(l) {
		record := Record{}
		if line.account != nil {
			record["account"], record["description"], record["organization"] = line.account.GetName(), line.account.GetDescription(), line.account.GetOrganization()
			record["parent"], record["coordinators"] = line.account.GetParent(), names(line.account.GetCoordinators())
		}
		if line.user != nil {
			record["user"] = line.user.GetName()
			if r.Entity == User {
				record["default_account"], record["administrator_level"] = line.user.GetDefaultAccount(), LevelText(line.user.GetLevel())
				record["coordinates"] = names(l.coordinates(line.user.GetName()))
			}
		}
		if line.association != nil {
			line.associationRecord(record)
		}
		if line.qos != nil {
			line.qosRecord(record)
		}
		if line.tres != "" {
			kind, name, _ := strings.Cut(line.tres, "/")
			record["type"], record["name"], record["id"] = kind, name, line.id
		}
		if line.event != nil {
			line.eventRecord(record)
		}
		if r.Entity == Cluster {
			record["tres"] = names(sortedNames(l.TRES))
		}
		records = append(records, record)
	}
	return records
}

func (r *row) associationRecord(record Record) {
	a := r.association
	record["id"], record["cluster"], record["account"], record["user"], record["partition"] = a.GetId(), r.listing.Cluster, a.GetAccount(), a.GetUser(), a.GetPartition()
	record["parent_account"], record["depth"] = a.GetParentAccount(), a.GetDepth()
	record["shares_raw"], record["fairshare_parent"], record["priority"] = a.GetShares(), a.GetShareParent(), a.GetPriority()
	record["qos"], record["default_qos"] = names(a.GetAllowedQos()), a.GetEffectiveDefaultQos()
	set := Record{}
	for i := range limits {
		if limit := &limits[i]; len(limit.names) > 0 {
			put(set, limit, limit.names[0], r.listing.limit(a, limit.kind, !r.ownLimits))
		}
	}
	record["limits"] = set
}

func (r *row) qosRecord(record Record) {
	q := r.qos
	record["name"], record["description"], record["priority"] = q.GetName(), q.GetDescription(), q.GetPriority()
	record["preempt"], record["preempt_mode"], record["grace_time"] = names(q.GetPreempts()), preemptText(r), q.GetGraceTimeS()
	record["flags"], record["usage_factor"] = names(q.GetFlags()), 1.0
	if q.UsageFactorPpm != nil {
		record["usage_factor"] = float64(q.GetUsageFactorPpm()) / 1e6
	}
	record["preempt_exempt_time"] = nil
	if q.ExemptTimeS != nil {
		record["preempt_exempt_time"] = q.GetExemptTimeS()
	}
	set := Record{}
	for i := range limits {
		put(set, &limits[i], limits[i].ofQOS[0], limitsOf(q.GetLimits(), limits[i].kind))
	}
	record["limits"] = set
}

// put adds a limit that is set: a number (of jobs, of minutes), or one for
// each TRES, memory in bytes.
func put(to Record, limit *limitRow, name string, set []*pb.Limit) {
	switch {
	case len(set) == 0:
	case limit.unit != ofTRES:
		to[name] = set[0].GetValue()
	default:
		amounts := Record{}
		for _, one := range set {
			amounts[one.GetTres()] = one.GetValue()
		}
		to[name] = amounts
	}
}

// names is a list that is never null.
func names(list []string) []string { return append([]string{}, slices.Clone(list)...) }
