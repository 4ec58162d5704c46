package prio

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// The formats of gprio with --long, those of sprio(1); without it the columns
// are those of the factors that have a weight.
const (
	prioLongFormat       = "%.15i %9r %.8u %.10o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10n %.10Q %.11N %.20T"
	prioLongNormalFormat = "%.15i %9r %.8u %.10o %10y %10a %10b %10f %10j %10p %.10n %10q %20t"
)

// prioFactor is a factor's letters, header, weight and value. Letters and
// headers are those of sprio(1).
type prioFactor struct {
	letter byte // of the weighted one; that of the factor itself is the small one
	name   string
	header string
	weight func(*pb.PriorityPolicy) uint32
	value  func(*pb.JobPriority) *pb.PriorityFactor
}

var prioFactors = []prioFactor{
	{'A', "Age", "AGE", (*pb.PriorityPolicy).GetWeightAge, (*pb.JobPriority).GetAge},
	{'B', "Assoc", "ASSOC", (*pb.PriorityPolicy).GetWeightAssoc, (*pb.JobPriority).GetAssociation},
	{'F', "FairShare", "FAIRSHARE", (*pb.PriorityPolicy).GetWeightFairShare, (*pb.JobPriority).GetFairShare},
	{'J', "JobSize", "JOBSIZE", (*pb.PriorityPolicy).GetWeightJobSize, (*pb.JobPriority).GetJobSize},
	{'P', "PartitionFactor", "PARTITION", (*pb.PriorityPolicy).GetWeightPartition, (*pb.JobPriority).GetPartitionFactor},
	{'Q', "QOS", "QOS", (*pb.PriorityPolicy).GetWeightQos, (*pb.JobPriority).GetQosFactor},
}

// weighs reports whether any factor has a weight.
func weighs(w *pb.PriorityPolicy) bool {
	for _, f := range prioFactors {
		if f.weight(w) > 0 {
			return true
		}
	}
	return len(w.GetWeightTres()) > 0
}

// prioFormat is what -o says, or sprio's choice of columns.
func prioFormat(inv *option.Invocation, w *pb.PriorityPolicy) string {
	normal := inv.Given("norm")
	switch {
	case inv.Given("format"):
		return inv.Text("format")
	case inv.Given("long") && normal:
		return prioLongNormalFormat
	case inv.Given("long"):
		return prioLongFormat
	}
	columns := []string{"%.15i %9r"}
	if inv.Given("user") {
		columns = append(columns, "%.8u")
	}
	if normal {
		columns = append(columns, "%10y")
	} else {
		columns = append(columns, "%.10Y %.10S")
	}
	for _, f := range prioFactors {
		switch {
		case f.weight(w) == 0:
		case normal:
			columns = append(columns, "%10"+strings.ToLower(string(f.letter)))
		default:
			columns = append(columns, "%.10"+string(f.letter))
		}
	}
	switch {
	case len(w.GetWeightTres()) == 0:
	case normal:
		columns = append(columns, "%20t")
	default:
		columns = append(columns, "%.20T")
	}
	return strings.Join(columns, " ")
}

type prioField = format.Field[*prioRow]

// prioTable is what can be shown of a job's priority.
var prioTable = format.NewTable(prioFields())

func prioFields() []prioField {
	fields := []prioField{
		{Letter: 'i', Names: []string{"JobID"}, Header: "JOBID",
			Value: func(r *prioRow) string {
				if r.job == nil {
					return "Weights"
				}
				return spec.FormatJobID(r.job.Id)
			},
			Compare: func(a, b *prioRow) int {
				return cmp.Or(cmp.Compare(a.job.GetId().GetJob(), b.job.GetId().GetJob()), cmp.Compare(a.job.GetId().GetArrayTask(), b.job.GetId().GetArrayTask()))
			}},
		prioText('r', "PARTITION", (*pb.JobPriority).GetPartition, "Partition"),
		prioText('u', "USER", (*pb.JobPriority).GetUser, "User"),
		prioText('c', "CLUSTER", func(*pb.JobPriority) string { return "N/A" }, "Cluster"),
		prioText('o', "ACCOUNT", (*pb.JobPriority).GetAccount, "Account"),
		prioText('n', "QOSNAME", (*pb.JobPriority).GetQos, "QOSName"),
		prioCount('Y', "PRIORITY", "", func(j *pb.JobPriority) int64 { return int64(j.GetPriority()) }, "Priority"),
		{Letter: 'y', Names: []string{"PriorityNorm"}, Header: "PRIORITY",
			Value: func(r *prioRow) string {
				if r.job == nil {
					return ""
				}
				return strconv.FormatFloat(float64(r.job.Priority)/float64(spec.Unlimited), 'f', 14, 64)
			},
			Compare: func(a, b *prioRow) int { return cmp.Compare(a.job.GetPriority(), b.job.GetPriority()) }},
		prioCount('S', "SITE", "1", func(j *pb.JobPriority) int64 { return int64(j.GetSite()) }, "Site"),
		prioCount('N', "NICE", "", func(j *pb.JobPriority) int64 { return int64(j.GetNice()) }, "Nice"),
		{Letter: 'T', Names: []string{"TRES"}, Header: "TRES", Value: func(r *prioRow) string {
			return tresFactors(r, func(f *pb.PriorityFactor) string { return fmt.Sprintf("%.0f", f.GetWeighted()) })
		}},
		{Letter: 't', Names: []string{"TRESNorm"}, Header: "TRES", Value: func(r *prioRow) string {
			return tresFactors(r, func(f *pb.PriorityFactor) string { return fmt.Sprintf("%.2f", f.GetNormalized()) })
		}},
	}
	for _, f := range prioFactors {
		fields = append(fields, prioField{
			Letter: f.letter, Names: []string{f.name}, Header: f.header,
			Value: func(r *prioRow) string {
				if r.job == nil {
					return show.Digits(f.weight(r.weights))
				}
				return fmt.Sprintf("%.0f", f.value(r.job).GetWeighted())
			},
			Compare: func(a, b *prioRow) int {
				return cmp.Compare(f.value(a.job).GetWeighted(), f.value(b.job).GetWeighted())
			},
		}, prioField{
			Letter: f.letter + 'a' - 'A', Names: []string{f.name + "Norm"}, Header: f.header,
			Value: func(r *prioRow) string {
				if r.job == nil {
					return show.Digits(f.weight(r.weights))
				}
				return fmt.Sprintf("%.7f", f.value(r.job).GetNormalized())
			},
			Compare: func(a, b *prioRow) int {
				return cmp.Compare(f.value(a.job).GetNormalized(), f.value(b.job).GetNormalized())
			},
		})
	}
	return fields
}

func prioText(letter byte, header string, value func(*pb.JobPriority) string, name string) prioField {
	return prioField{Letter: letter, Names: []string{name}, Header: header, Value: func(r *prioRow) string {
		if r.job == nil {
			return ""
		}
		return value(r.job)
	}}
}

func prioCount(letter byte, header, weights string, value func(*pb.JobPriority) int64, name string) prioField {
	return prioField{Letter: letter, Names: []string{name}, Header: header,
		Value: func(r *prioRow) string {
			if r.job == nil {
				return weights
			}
			return strconv.FormatInt(value(r.job), 10)
		},
		Compare: func(a, b *prioRow) int { return cmp.Compare(value(a.job), value(b.job)) }}
}

// tresFactors is "cpu=12,gres/gpu=3", or the weights.
func tresFactors(r *prioRow, text func(*pb.PriorityFactor) string) string {
	var words []string
	if r.job == nil {
		for _, name := range slices.Sorted(maps.Keys(r.weights.GetWeightTres())) {
			words = append(words, name+"="+show.Digits(r.weights.GetWeightTres()[name]))
		}
		return strings.Join(words, ",")
	}
	for _, name := range slices.Sorted(maps.Keys(r.job.Tres)) {
		words = append(words, name+"="+text(r.job.Tres[name]))
	}
	return strings.Join(words, ",")
}
