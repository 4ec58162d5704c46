package alloc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// variables are those of salloc(1) that say what was allocated.
func variables(job *pb.Job) []string {
	asked := job.GetSpec()
	var cpus, tasks []uint32
	for _, node := range job.GetAllocation() {
		cpus = append(cpus, uint32(len(node.GetCpuIds())))
		tasks = append(tasks, max(node.GetTasks(), 1))
	}
	var set []string
	add := func(name, value string) {
		if value != "" && value != "0" {
			set = append(set, "SLURM_"+name+"="+value, "GLEANER_"+name+"="+value)
		}
	}
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	id := number(job.GetId().GetJob())
	nodes := strconv.Itoa(len(job.GetAllocation()))
	for name, value := range map[string]string{
		"JOB_ID": id, "JOBID": id, "JOB_NAME": asked.GetName(), "JOB_NODELIST": job.GetNodeList(), "NODELIST": job.GetNodeList(),
		"JOB_NUM_NODES": nodes, "NNODES": nodes, "JOB_CPUS_PER_NODE": repeats(cpus), "TASKS_PER_NODE": repeats(tasks),
		"JOB_PARTITION": job.GetPartition(), "JOB_ACCOUNT": asked.GetAccount(), "JOB_QOS": asked.GetQos(),
		"NTASKS": number(asked.GetTasks()), "NPROCS": number(asked.GetTasks()), "NTASKS_PER_NODE": number(asked.GetTasksPerNode()),
		"CPUS_PER_TASK": number(asked.GetCpusPerTask()), "SUBMIT_HOST": asked.GetSubmitHost(), "SUBMIT_DIR": asked.GetWorkDirectory(),
		"MEM_PER_NODE": strconv.FormatUint(asked.GetMemoryPerNodeBytes()>>20, 10), "JOB_UID": strconv.Itoa(os.Getuid()), "JOB_USER": job.GetOwner().GetUser(),
	} {
		add(name, value)
	}
	return set
}

// repeats writes counts as Slurm does: "2(x3),1".
func repeats(counts []uint32) string {
	var words []string
	for i := 0; i < len(counts); {
		same := i
		for same < len(counts) && counts[same] == counts[i] {
			same++
		}
		word := strconv.FormatUint(uint64(counts[i]), 10)
		if same-i > 1 {
			word += fmt.Sprintf("(x%d)", same-i)
		}
		words = append(words, word)
		i = same
	}
	return strings.Join(words, ",")
}
