package run

import (
	"crypto/rand"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
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
	mpiPMI2 = "pmi2" // serves PMI-1 too
	mpiPMIx = "pmix"
	mpiList = "list"
)

// openMPI is the library of Open MPI since its version 2, which finds its tasks by PMIx.
const openMPI = "libmpi.so.40"

// listMPI is --mpi=list.
func listMPI(inv *option.Invocation) error {
	_, err := fmt.Fprintf(inv.Stdout, "MPI plugin types are...\n\t%s\n\t%s\n\t%s\n", mpiNone, mpiPMI2, mpiPMIx)
	return console.Output(err)
}

// mpiWord is a value of --mpi without a version of PMIx: its library serves all of them.
func mpiWord(value string) string {
	if version, ofPMIx := strings.CutPrefix(value, mpiPMIx+"_v"); ofPMIx && len(version) == 1 && version >= "2" && version <= "9" {
		return mpiPMIx
	}
	return value
}

func checkMPI(builder *jobspec.Builder, value string) {
	switch mpiWord(value) {
	case "", mpiNone, mpiPMI2, mpiPMIx, mpiList:
	default:
		builder.Fail(1, "--%s=%.64s is not supported: %s serves MPICH and its relatives, %s Open MPI, %s nothing", optMPI, value, mpiPMI2, mpiPMIx, mpiNone)
	}
}

// mpi is how the tasks are served. If nothing is said, a program of Open MPI is served by
// PMIx: by PMI it would be as many programs of one rank.
func (r *stepRunner) mpi(argv []string) string {
	if value := r.inv.Text(optMPI); value != "" {
		return mpiWord(value)
	}
	if len(argv) > 0 && needsLibrary(r.programPath(argv[0]), openMPI) {
		return mpiPMIx
	}
	return mpiPMI2
}

// programPath is where this host has a program; "" = it is not known.
func (r *stepRunner) programPath(program string) string {
	switch {
	case filepath.IsAbs(program):
		return program
	case strings.Contains(program, "/"):
		return filepath.Join(r.directory, program)
	}
	for _, dir := range filepath.SplitList(r.inv.Getenv("PATH")) {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// needsLibrary: the file is a program that is linked with that library.
func needsLibrary(path, library string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a FIFO would be waited for
		return false
	}
	program, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	return err == nil && slices.Contains(libraries, library)
}

// space is the name of what the tasks put: Slurm's "JOB.STEP", which its clients take apart.
func (r *stepRunner) space() string { return fmt.Sprintf("%s.%d", r.shape.job, r.number) }

// pmi is what PMI's tasks are told.
func (r *stepRunner) pmi() *step.PMI {
	pmi := &step.PMI{Size: r.tasks(), Name: r.space(), Mapping: r.mapping()}
	if len(pmi.Mapping) > step.MaxPMIValue {
		pmi.Mapping = "" // the tasks find out by themselves
	}
	return pmi
}

// pmix is what those of PMIx are told, apart from which node is theirs. The name of their
// space is a secret: the library listens on 127.0.0.1, which jobs on the node's network
// have in common, and believes what callers say of who they are.
func (r *stepRunner) pmix() *step.PMIxJob {
	job := &step.PMIxJob{Space: "slurm.pmix." + r.space() + "." + rand.Text(), Job: r.shape.job}
	for i := range r.plan {
		job.Nodes = append(job.Nodes, step.PMIxNode{Name: r.plan[i].node, Ranks: r.plan[i].ranks})
	}
	return job
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
// this step are not for its tasks. PMIx has more of them in each version; what users set
// of its library begins with pmixParameter.
var ofOuterPMI = []string{"PMI_FD=", "PMI_RANK=", "PMI_SIZE=", "PMI_JOBID=", "MPI_LOCALRANKID=", "MPI_LOCALNRANKS=", "PMIX_"}

const pmixParameter = "PMIX_MCA_"

func withoutPMI(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		return !strings.HasPrefix(entry, pmixParameter) && slices.ContainsFunc(ofOuterPMI, func(name string) bool { return strings.HasPrefix(entry, name) })
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
		r.fences = map[int]*step.Fence{}
	}
	r.fences[place] = message
	if len(r.fences) < len(r.plan) {
		if r.open < len(r.plan) && !r.ending {
			r.say("error: the tasks wait for others that have ended")
			r.status = max(r.status, 1)
			r.end()
		}
		return
	}
	all := &step.Fenced{Pairs: step.Pairs{}}
	for place := range r.plan {
		all.Pairs.Add(r.fences[place].Pairs)
		all.Data = append(all.Data, r.fences[place].Data...)
	}
	r.fences = nil
	if all.Pairs.Bytes()+len(all.Data) > step.MaxPMIBytes {
		r.say("error: the tasks tell each other more than %d bytes: start them by the launcher of their MPI", step.MaxPMIBytes)
		r.status = max(r.status, 1)
		r.end()
		return
	}
	for _, client := range r.clients {
		go func() { _ = client.Fenced(all) }() // one that is lost is noticed by its reader
	}
}
