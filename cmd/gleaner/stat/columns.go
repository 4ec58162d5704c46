package stat

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// row is a step with the name of its job.
type row struct {
	job string
	*past.Step
}

// columns are those of sstat(1). What is not measured is empty.
func columns() []table.Column[row] {
	most := func(name string, width int, which func(row) past.Most, text func(uint64) string) []table.Column[row] {
		return []table.Column[row]{
			{Name: name, Width: width, Value: func(r row) string { return text(which(r).Bytes) }},
			{Name: name + "Node", Width: max(width, len(name)+4), Value: func(r row) string { return which(r).Node }},
			{Name: name + "Task", Width: max(width, len(name)+4), Value: func(r row) string { return show.Digits(which(r).Rank) }},
		}
	}
	all := []table.Column[row]{
		{Name: "AveCPU", Width: 10, Value: func(r row) string { return show.CPUClock(r.Average(r.CPUNS())) }},
		{Name: "AveDiskRead", Width: 14, Value: func(r row) string { return megabytes(r.Average(r.ReadBytes)) }},
		{Name: "AveDiskWrite", Width: 14, Value: func(r row) string { return megabytes(r.Average(r.WriteBytes)) }},
		{Name: "AveRSS", Width: 10, Value: func(r row) string { return kilobytes(r.Average(r.SumBytes)) }},
		{Name: "AveVMSize", Width: 10, Value: func(r row) string { return kilobytes(r.Average(r.SumVirtual)) }},
		{Name: "JobID", Width: -12, Value: func(r row) string { return r.job + "." + r.ID() }},
	}
	all = append(all, most("MaxDiskRead", 12, func(r row) past.Most { return r.MostRead }, megabytes)...)
	all = append(all, most("MaxDiskWrite", 12, func(r row) past.Most { return r.MostWritten }, megabytes)...)
	all = append(all, most("MaxRSS", 10, func(r row) past.Most { return r.Peak }, kilobytes)...)
	all = append(all, most("MaxVMSize", 10, func(r row) past.Most { return r.Virtual }, kilobytes)...)
	all = append(all,
		table.Column[row]{Name: "MinCPU", Width: 10, Value: func(r row) string { return show.CPUClock(r.LeastUS * 1000) }},
		table.Column[row]{Name: "MinCPUNode", Width: 10, Value: func(r row) string { return r.LeastNode }},
		table.Column[row]{Name: "MinCPUTask", Width: 10, Value: func(r row) string { return show.Digits(r.LeastRank) }},
		table.Column[row]{Name: "Nodelist", Width: 20, Value: func(r row) string { return spec.FormatHostList(r.Nodes) }},
		table.Column[row]{Name: "NTasks", Width: 8, Value: func(r row) string { return show.Digits(r.Tasks) }},
		table.Column[row]{Name: "Pids", Width: 20, Value: row.pids},
	)
	all = append(all, usageColumns()...)
	for name := range strings.FieldsSeq(empty) {
		all = append(all, table.Column[row]{Name: name, Width: max(10, min(len(name), 20)), Value: func(row) string { return "" }})
	}
	return all
}

// empty are the fields of sstat(1) that nothing here has a value for.
const empty = "AveCPUFreq AvePages ConsumedEnergy ConsumedEnergyRaw MaxPages MaxPagesNode MaxPagesTask ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin " +
	"TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask TRESUsageOutAve TRESUsageOutMax " +
	"TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot"

// The formats of sstat.
const (
	defaultFormat = "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite"
	pidFormat     = "JobID,Nodelist,Pids"
)

func kilobytes(bytes uint64) string {
	if bytes == 0 {
		return "0"
	}
	return show.Digits(bytes>>10) + "K"
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.2fM", float64(bytes)/(1<<20)) }

// pids are those of all of its nodes, one after the other.
func (r row) pids() string {
	var words []string
	for _, node := range r.Nodes {
		for _, pid := range r.Pids[node] {
			words = append(words, fmt.Sprint(pid))
		}
	}
	return strings.Join(words, ",")
}
