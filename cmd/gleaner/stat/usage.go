package stat

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/table"
)

// This file writes what a step uses as TRES, in the order of their names. GPUs are there
// where all of them were measured, by the names that gacct has for them.

func usageColumns() []table.Column[row] {
	return []table.Column[row]{
		{Name: "TRESUsageInAve", Width: 14, Value: func(r row) string {
			tasks := uint64(max(r.Tasks, 1))
			return "cpu=" + show.Clock(uint32(r.Average(r.CPUNS())/1e9)) + r.gpus(r.GPU.NowMemory/tasks, uint64(r.GPU.NowPercent)/tasks) + ",mem=" + kilobytes(r.Average(r.SumBytes))
		}},
		{Name: "TRESUsageInMax", Width: 14, Value: func(r row) string {
			return strings.TrimPrefix(r.gpus(r.GPU.Memory, uint64(r.GPU.MostPercent))+",mem="+kilobytes(r.Peak.Bytes), ",")
		}},
		{Name: "TRESUsageInMaxNode", Width: 18, Value: func(r row) string {
			text := "mem=" + r.Peak.Node
			if r.GPU.Measured {
				text = "gres/gpumem=" + r.GPU.MemoryNode + ",gres/gpuutil=" + r.GPU.PercentNode + "," + text
			}
			return text
		}},
		{Name: "TRESUsageInTot", Width: 14, Value: func(r row) string {
			return "cpu=" + show.Clock(uint32(r.CPUNS()/1e9)) + r.gpus(r.GPU.NowMemory, uint64(r.GPU.NowPercent)) + ",mem=" + kilobytes(r.SumBytes)
		}},
	}
}

// gpus is a use of GPUs among other words, "" = it is not measured.
func (r row) gpus(memory, percent uint64) string {
	if !r.GPU.Measured {
		return ""
	}
	text := "0"
	switch whole := memory >> 20; {
	case whole > 0 && whole%1024 == 0:
		text = show.Digits(whole>>10) + "G"
	case memory > 0:
		text = show.Digits(whole) + "M"
	}
	return fmt.Sprintf(",gres/gpumem=%s,gres/gpuutil=%d", text, percent)
}

// gpuRecord is in --json what a step uses of GPUs.
type gpuRecord struct {
	Percent       uint32  `json:"percent"` // now, of one GPU
	MeanPercent   float64 `json:"mean_percent"`
	MostPercent   uint32  `json:"max_percent"` // of the node with the most
	PercentNode   string  `json:"max_percent_node"`
	Memory        uint64  `json:"memory_bytes"` // now
	MostMemory    uint64  `json:"max_memory_bytes"`
	MostMemoryOn  string  `json:"max_memory_node"`
	NodesMeasured int     `json:"nodes_measured"`
}

func gpuOf(u past.GPUUse) *gpuRecord {
	if !u.Measured {
		return nil
	}
	return &gpuRecord{
		Percent: u.NowPercent, MeanPercent: u.Percent, MostPercent: u.MostPercent, PercentNode: u.PercentNode,
		Memory: u.NowMemory, MostMemory: u.Memory, MostMemoryOn: u.MemoryNode, NodesMeasured: u.Nodes,
	}
}
