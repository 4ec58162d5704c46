package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// jobResources is what a job has on its nodes.
type jobResources struct {
	SelectType     []string `json:"select_type"`
	Nodes          jobNodes `json:"nodes"`
	Cpus           uint32   `json:"cpus"`
	ThreadsPerCore Optional `json:"threads_per_core"`
}

type jobNodes struct {
	Count      int       `json:"count"`
	SelectType []string  `json:"select_type"`
	List       string    `json:"list"`
	Whole      bool      `json:"whole"`
	Allocation []jobNode `json:"allocation"`
}

// jobNode is a job's part of a node. What its steps use of that is not known: a job itself is
// no step.
type jobNode struct {
	Index   int         `json:"index"`
	Name    string      `json:"name"`
	Cpus    jobCpus     `json:"cpus"`
	Memory  jobMemory   `json:"memory"` // MiB
	Sockets []jobSocket `json:"sockets"`
}

type jobCpus struct {
	Count int `json:"count"`
	Used  int `json:"used"`
}

type jobMemory struct {
	Used      uint64 `json:"used"`
	Allocated uint64 `json:"allocated"`
}

type jobSocket struct {
	Index int       `json:"index"`
	Cores []jobCore `json:"cores"`
}

type jobCore struct {
	Index  uint32   `json:"index"`
	Status []string `json:"status"`
}

// jobResources lists the job's CPUs as cores of one socket: where a CPU lies is known only
// to its node.
func (s JSONShape) jobResources(job *pb.Job) *jobResources {
	allocated := []string{"ALLOCATED"}
	r := &jobResources{
		SelectType: []string{"CPU", "MEMORY"}, Cpus: job.Cpus, ThreadsPerCore: Optional{Shape: s},
		Nodes: jobNodes{Count: len(job.Allocation), SelectType: []string{"ONE_ROW"}, List: job.NodeList, Whole: job.GetSpec().GetExclusive(), Allocation: []jobNode{}},
	}
	for i, node := range job.Allocation {
		cores := make([]jobCore, 0, len(node.CpuIds))
		for _, cpu := range node.CpuIds {
			cores = append(cores, jobCore{cpu, allocated})
		}
		r.Nodes.Allocation = append(r.Nodes.Allocation, jobNode{
			Index: i, Name: node.Node, Cpus: jobCpus{Count: len(node.CpuIds)}, Memory: jobMemory{Allocated: node.MemoryBytes >> 20},
			Sockets: []jobSocket{{0, cores}},
		})
	}
	return r
}
