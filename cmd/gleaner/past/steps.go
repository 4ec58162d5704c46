package past

import (
	"cmp"
	"slices"
	"strconv"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Step is one step of a run, of all of its nodes together.
type Step struct {
	Number            uint32
	Name              string
	Nodes             []string // in the order of the job
	Tasks, CPUs, GPUs uint32
	// EndMS is 0 if it runs, or had not ended when the job was over.
	StartMS, EndMS        int64
	Code, Signal          uint32
	UserUS, SystemUS      uint64
	LeastUS               uint64
	LeastNode             string
	LeastRank             uint32
	Peak                  Most   // memory, of one process
	SumBytes              uint64 // of the tasks' peaks
	ReadBytes, WriteBytes uint64
	MostRead, MostWritten Most
	GPU                   GPUUse
	// Only of one that runs.
	Virtual    Most
	SumVirtual uint64
	Pids       map[string][]int32 // by node
	// TaskIDs are of the tasks with those pids; empty = the node does not say.
	TaskIDs map[string][]TaskID
}

// TaskID is the number of a task on its node, and in its step.
type TaskID struct{ Local, Global uint32 }

// Most is the highest use of one task.
type Most struct {
	Bytes uint64
	Node  string
	Rank  uint32
}

func (m *Most) take(bytes uint64, node string, rank uint32) {
	if m.Node == "" || bytes > m.Bytes {
		*m = Most{bytes, node, rank}
	}
}

// Steps are those of a run that are kept one by one, and how many more it had on one node.
func Steps(run *pb.PastRun) (steps []*Step, omitted uint32) {
	known := map[uint32]*Step{}
	for _, node := range run.GetSteps() {
		omitted = max(omitted, node.GetOmitted())
		for _, part := range node.GetSteps() {
			s := known[part.GetStep()]
			if s == nil {
				s = &Step{Number: part.GetStep(), Name: part.GetName(), Pids: map[string][]int32{}, TaskIDs: map[string][]TaskID{}, StartMS: part.GetStartMs(), EndMS: part.GetEndMs()}
				known[s.Number] = s
				steps = append(steps, s)
			}
			s.add(node.GetNode(), part)
		}
	}
	slices.SortFunc(steps, func(a, b *Step) int { return cmp.Compare(a.Number, b.Number) })
	return steps, omitted
}

// add adds what it did on a node.
func (s *Step) add(node string, part *pb.StepPart) {
	first := len(s.Nodes) == 0
	s.Nodes = append(s.Nodes, node)
	s.Tasks += part.GetTasks()
	s.CPUs += part.GetCpus()
	s.GPUs += part.GetGpus()
	s.StartMS = min(s.StartMS, part.GetStartMs())
	if part.GetEndMs() == 0 || s.EndMS == 0 {
		s.EndMS = 0
	} else {
		s.EndMS = max(s.EndMS, part.GetEndMs())
	}
	if statusOf(part.GetExitCode(), part.GetExitSignal()) > statusOf(s.Code, s.Signal) {
		s.Code, s.Signal = part.GetExitCode(), part.GetExitSignal()
	}
	s.UserUS += part.GetUserUs()
	s.SystemUS += part.GetSystemUs()
	if first || part.GetLeastCpuUs() < s.LeastUS {
		s.LeastUS, s.LeastNode, s.LeastRank = part.GetLeastCpuUs(), node, part.GetLeastRank()
	}
	s.Peak.take(part.GetPeakMemoryBytes(), node, part.GetPeakRank())
	s.SumBytes += part.GetSumMemoryBytes()
	s.ReadBytes += part.GetReadBytes()
	s.WriteBytes += part.GetWrittenBytes()
	s.SumVirtual += part.GetSumVirtualBytes()
	s.MostRead.take(part.GetMostReadBytes(), node, part.GetMostReadRank())
	s.MostWritten.take(part.GetMostWrittenBytes(), node, part.GetMostWrittenRank())
	s.GPU.add(node, part)
	s.Virtual.take(part.GetPeakVirtualBytes(), node, part.GetPeakVirtualRank())
	s.Pids[node] = part.GetPids()
	if locals, globals := part.GetLocalIds(), part.GetGlobalIds(); len(locals) == len(part.GetPids()) && len(globals) == len(locals) {
		for i := range locals {
			s.TaskIDs[node] = append(s.TaskIDs[node], TaskID{locals[i], globals[i]})
		}
	}
}

func statusOf(code, signal uint32) uint32 {
	if signal != 0 {
		return 128 + signal
	}
	return code
}

// CPUNS is the time of all its tasks.
func (s *Step) CPUNS() uint64 { return (s.UserUS + s.SystemUS) * 1000 }

// ID is its number, as it is shown, or batch.
func (s *Step) ID() string {
	if s.Number == step.BatchStep {
		return Batch
	}
	return strconv.FormatUint(uint64(s.Number), 10)
}

// Average is a sum over its tasks, for one of them.
func (s *Step) Average(sum uint64) uint64 { return sum / uint64(max(s.Tasks, 1)) }

// state is how the step ended, in the words of sacct: one that a signal ended was
// cancelled.
func (s *Step) state(live bool) string {
	switch {
	case s.EndMS == 0 && live:
		return "RUNNING"
	case s.EndMS == 0, s.Signal != 0:
		return "CANCELLED"
	case s.Code != 0:
		return "FAILED"
	}
	return "COMPLETED"
}

// exit is its exit status, or the signal.
func (s *Step) exit(live bool) (code, signal uint32) {
	if s.EndMS == 0 && s.Signal == 0 && !live {
		return 0, killed
	}
	return s.Code, s.Signal
}

// killed is how a step ended that was there when its job was over.
const killed = 9
