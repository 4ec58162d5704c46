package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Values of --mpi.
const (
	mpiNone = "none"
	mpiPMI2 = "pmi2" // Slurm's name of what serves PMI-1 too
	mpiList = "list"
)

// listMPI is --mpi=list.
func listMPI(inv *option.Invocation) error {
	_, err := fmt.Fprintf(inv.Stdout, "MPI plugin types are...\n\t%s\n\t%s\n", mpiNone, mpiPMI2)
	return console.Output(err)
}

func checkMPI(builder *jobspec.Builder, value string) {
	switch value {
	case "", mpiNone, mpiPMI2, mpiList:
	default:
		builder.Fail(1, "--%s=%.64s is not supported: %s serves MPICH and its relatives; start programs of Open MPI by its mpirun, with --%s=%s for what you start by hand", optMPI, value, mpiPMI2, optMPI, mpiNone)
	}
}

// pmi is how the tasks are served; nil = not at all.
func (r *stepRunner) pmi() *step.PMI {
	if r.inv.Text(optMPI) == mpiNone {
		return nil
	}
	pmi := &step.PMI{Size: r.tasks(), Name: fmt.Sprintf("%s.%d", r.shape.job, r.number), Mapping: r.mapping()}
	if len(pmi.Mapping) > step.MaxPMIValue {
		pmi.Mapping = "" // the tasks find out by themselves
	}
	return pmi
}

// mapping is which tasks run on which node, as MPICH reads it: "(vector,(0,2,4))" are four
// on node 0, then four on node 1.
func (r *stepRunner) mapping() string {
	type block struct{ node, nodes, tasks int }
	var blocks []block
	places := make([]int, r.tasks()) // by rank
	for place := range r.plan {
		for _, rank := range r.plan[place].ranks {
			places[rank] = place
		}
	}
	for rank := 0; rank < len(places); {
		place, count := places[rank], 1
		for rank+count < len(places) && places[rank+count] == place {
			count++
		}
		last := len(blocks) - 1
		if last >= 0 && blocks[last].tasks == count && blocks[last].node+blocks[last].nodes == place {
			blocks[last].nodes++
		} else {
			blocks = append(blocks, block{place, 1, count})
		}
		rank += count
	}
	words := []string{"vector"}
	for _, b := range blocks {
		words = append(words, fmt.Sprintf("(%d,%d,%d)", b.node, b.nodes, b.tasks))
	}
	return "(" + strings.Join(words, ",") + ")"
}

// ofOuterPMI are variables by which a task finds its PMI: those of the task that started
// this step are not for its tasks.
var ofOuterPMI = []string{"PMI_FD=", "PMI_RANK=", "PMI_SIZE=", "PMI_JOBID=", "MPI_LOCALRANKID=", "MPI_LOCALNRANKS="}

func withoutPMI(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		return slices.ContainsFunc(ofOuterPMI, func(name string) bool { return strings.HasPrefix(entry, name) })
	})
}

// fence is a node whose tasks are all at a fence. When every node's are, all go on.
func (r *stepRunner) fence(place int, message *step.Fence) {
	if message.Aborted {
		r.say("error: %s: %s", r.plan[place].node, format.Printable(message.Text))
		r.status = max(r.status, min(max(message.Code, 1), 255))
		r.report()
		r.end()
		return
	}
	if r.fences == nil {
		r.fences = map[int]step.Pairs{}
	}
	r.fences[place] = message.Pairs
	if len(r.fences) < len(r.plan) {
		if r.open < len(r.plan) && !r.ending {
			r.say("error: the tasks wait for others that have ended")
			r.status = max(r.status, 1)
			r.end()
		}
		return
	}
	all := step.Pairs{}
	for _, pairs := range r.fences {
		all.Add(pairs)
	}
	r.fences = nil
	if all.Bytes() > step.MaxPMIBytes {
		r.say("error: the tasks tell each other more than %d bytes by PMI: start them by the launcher of their MPI", step.MaxPMIBytes)
		r.status = max(r.status, 1)
		r.end()
		return
	}
	for _, client := range r.clients {
		go func() { _ = client.Fenced(all) }() // one that is lost is noticed by its reader
	}
}
