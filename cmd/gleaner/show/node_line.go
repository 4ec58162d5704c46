package show

import "strings"

// lineRecord is a line of the table as sinfo's JSON has it.
type lineRecord struct {
	Partition map[string]any `json:"partition"`
	Node      map[string]any `json:"node"`
	Nodes     map[string]any `json:"nodes"`
	Cpus      map[string]any `json:"cpus"`
	Gres      map[string]any `json:"gres"`
}

// LineRecordOf is a line of the table as JSON.
func LineRecordOf(s JSONShape, r *NodeRow) *lineRecord {
	nodes, cpus := r.nodeTally(), r.cpuTally()
	names := make([]string, 0, len(r.Nodes))
	for _, node := range r.Nodes {
		names = append(names, node.Name)
	}
	state := s.words(strings.ToUpper(LongState(r.first())))
	switch { // of a line without nodes
	case len(r.Nodes) == 0 && s == JSONOld:
		state = ""
	case len(r.Nodes) == 0:
		state = []string{}
	}
	return &lineRecord{
		Partition: map[string]any{"name": r.Partition.GetName(), "default": r.Partition.GetIsDefault()},
		Node:      map[string]any{"state": state},
		Nodes:     map[string]any{"allocated": nodes.allocated, "idle": nodes.idle, "other": nodes.other, "total": nodes.total, "nodes": names},
		Cpus:      map[string]any{"allocated": cpus.allocated, "idle": cpus.idle, "other": cpus.other, "total": cpus.total},
		Gres:      map[string]any{"total": nodeGres(r.first()), "used": nodeGresUsed(r.first()), "free_and_total": r.gpus()},
	}
}
