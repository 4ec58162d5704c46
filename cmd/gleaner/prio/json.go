package prio

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// prioRecord is a job's priority as JSON. Slurm has none for sprio.
type prioRecord struct {
	JobID     string                `json:"job_id"`
	Partition string                `json:"partition"`
	User      string                `json:"user_name"`
	Account   string                `json:"account"`
	QOS       string                `json:"qos"`
	Priority  uint32                `json:"priority"`
	Site      int32                 `json:"site"`
	Nice      int32                 `json:"nice"`
	Factors   map[string]prioNumber `json:"factors"`
	TRES      map[string]prioNumber `json:"tres"`
}

type prioNumber struct {
	Factor   float64 `json:"factor"`
	Weighted float64 `json:"weighted"`
}

func recordOf(row *prioRow) *prioRecord {
	j := row.job
	record := &prioRecord{
		JobID: spec.FormatJobID(j.GetId()), Partition: j.Partition, User: j.User, Account: j.Account, QOS: j.Qos,
		Priority: j.Priority, Site: j.Site, Nice: j.Nice, Factors: map[string]prioNumber{}, TRES: map[string]prioNumber{},
	}
	number := func(f *pb.PriorityFactor) prioNumber {
		return prioNumber{Factor: show.Finite(f.GetNormalized()), Weighted: show.Finite(f.GetWeighted())}
	}
	for _, f := range prioFactors {
		record.Factors[jsonKey(f.name)] = number(f.value(j))
	}
	for name, f := range j.Tres {
		record.TRES[name] = number(f)
	}
	return record
}

// jsonKey is the name of a factor in JSON.
func jsonKey(name string) string {
	return map[string]string{
		"Age": "age", "Assoc": "assoc", "FairShare": "fair_share", "JobSize": "job_size", "PartitionFactor": "partition", "QOS": "qos",
	}[name]
}

func weightRecord(w *pb.PriorityPolicy) map[string]any {
	record := map[string]any{}
	for _, f := range prioFactors {
		record[jsonKey(f.name)] = f.weight(w)
	}
	tres := map[string]uint32{}
	for name, weight := range w.GetWeightTres() {
		tres[name] = weight
	}
	record["tres"] = tres
	return record
}
