package grant

import (
	"fmt"
	"strings"
	"testing"
)

// three is a job of three nodes: n1 with 4 CPUs, n2 with 2, n3 with 2. Each has 100 MiB
// and a GPU for each CPU.
func three(ntasks int, tasks ...int) Job {
	job := Job{Tasks: ntasks}
	for i, cpus := range []int{4, 2, 2} {
		node := Node{Name: fmt.Sprintf("n%d", i+1), CPUs: cpus, GPUs: cpus, MemoryMiB: 100 * uint64(cpus)}
		if i < len(tasks) {
			node.Tasks = tasks[i]
		}
		job.Nodes = append(job.Nodes, node)
	}
	return job
}

// ranks writes a grant as node:ranks.
func ranks(job Job, grant *Grant) string {
	var words []string
	for _, share := range grant.Shares {
		var numbers []string
		for _, rank := range share.Ranks {
			numbers = append(numbers, fmt.Sprint(rank))
		}
		words = append(words, job.Nodes[share.Node].Name+":"+strings.Join(numbers, ","))
	}
	return strings.Join(words, " ")
}

func TestLayOut(t *testing.T) {
	for _, test := range []struct {
		name    string
		job     Job
		request Request
		want    string // node:ranks
		warning string
	}{
		{"one on each node", three(0), Request{}, "n1:0 n2:1 n3:2", ""},
		{"as the job was laid out", three(4, 2, 1, 1), Request{}, "n1:0,1 n2:2 n3:3", ""},
		{"as the job was laid out, unevenly", three(5, 1, 2, 2), Request{}, "n1:0 n2:1,2 n3:3,4", ""},
		{"another number is counted out again", three(5, 1, 2, 2), Request{Tasks: 4}, "n1:0,1 n2:2 n3:3", ""},
		{"a full node is passed over", three(0), Request{Tasks: 8}, "n1:0,1,2,3 n2:4,5 n3:6,7", ""},
		{"fewer tasks than nodes", three(0), Request{Tasks: 1}, "n1:0", "can't run 1 processes on 3 nodes, setting nnodes to 1"},
		{"a node by name", three(0), Request{Tasks: 1, Least: 1, Most: 1, Nodes: []string{"n3"}}, "n3:0", ""},
		{"a name does not limit the nodes", three(0), Request{Nodes: []string{"n3"}}, "n1:0 n2:1 n3:2", ""},
		{"names in the order of the job", three(0), Request{Least: 2, Most: 2, Nodes: []string{"n3", "n2"}}, "n2:0 n3:1", ""},
		{"a range of nodes", three(0), Request{Least: 1, Most: 2}, "n1:0 n2:1", ""},
		{"without one", three(0), Request{Exclude: []string{"n1"}}, "n2:0 n3:1", ""},
		{"tasks per node", three(0), Request{TasksPerNode: 2}, "n1:0,1 n2:2,3 n3:4,5", ""},
		{"tasks per node as a limit", three(0), Request{Tasks: 5, TasksPerNode: 2}, "n1:0,1 n2:2,3 n3:4", ""},
		{"tasks per node that do not fit", three(6), Request{TasksPerNode: 1}, "n1:0,1 n2:2,3 n3:4,5", "can't honor --ntasks-per-node set to 1 which doesn't match the requested tasks 6 with the number of requested nodes 3. Ignoring --ntasks-per-node."},
		{"CPUs per task", three(0), Request{Tasks: 4, CPUsPerTask: 2}, "n1:0,1 n2:2 n3:3", ""},
		{"in turn", three(0), Request{Tasks: 6, Distribution: Distribution{Kind: Cyclic}}, "n1:0,3 n2:1,4 n3:2,5", ""},
		{"two at a time in turn", three(0), Request{Tasks: 8, Distribution: Distribution{Kind: Plane, Plane: 2}}, "n1:0,1,6,7 n2:2,3 n3:4,5", ""},
		{"as listed", three(0), Request{Distribution: Distribution{Kind: Arbitrary, Hosts: []string{"n3", "n1", "n3"}}}, "n1:1 n3:0,2", ""},
		{"GPUs for each task", three(0), Request{Tasks: 2, Least: 2, Most: 2, GPUs: GPUs{Per: PerTask, Count: 2}}, "n1:0 n2:1", ""},
		{"overcommit", three(0), Request{Tasks: 9, Overcommit: true}, "n1:0,1,2 n2:3,4,5 n3:6,7,8", ""},
		{"no word about CPUs", Job{Nodes: []Node{{Name: "n1", CPUs: MaxTasks}}}, Request{Tasks: 9}, "n1:0,1,2,3,4,5,6,7,8", ""},
	} {
		granted, err := NewBook(test.job).Ask(1, &test.request)
		if err != nil || granted == nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := ranks(test.job, granted); got != test.want || strings.Join(granted.Warnings, "|") != test.warning {
			t.Errorf("%s: got %q %q, want %q %q", test.name, got, granted.Warnings, test.want, test.warning)
		}
	}
}

func TestLayOutRefuses(t *testing.T) {
	for _, test := range []struct {
		request Request
		want    string
	}{
		{Request{Tasks: 9}, "More processors requested than permitted\n"},
		{Request{Tasks: 5, Least: 1, Most: 1}, "More processors requested than permitted\n"},
		{Request{CPUsPerTask: 3}, "More processors requested than permitted\n"},
		{Request{Least: 4, Most: 4}, "Only allocated 3 nodes asked for 4"},
		{Request{Nodes: []string{"n9"}}, "Requested node configuration is not available\nn9 is not a node of this job"},
		{Request{Nodes: []string{"n1"}, Exclude: []string{"n1"}}, "Requested node configuration"},
		{Request{Least: 1, Most: 1, Nodes: []string{"n1", "n2"}}, "Requested node configuration"},
		{Request{Tasks: 1 << 21}, "More processors requested than permitted\n2097152 tasks are more than a step may have"},
		{Request{Memory: Memory{Per: PerNode, MiB: 201}}, "Memory required by task is not available\n"},
		{Request{Memory: Memory{Per: PerCPU, MiB: 101}}, "Memory required by task is not available\n"},
		{Request{Tasks: 1, Memory: Memory{Per: PerNode, MiB: 401}}, "Memory required by task is not available\n"},
		{Request{GPUs: GPUs{Per: PerNode, Count: 3}}, "Invalid generic resource (gres) specification\n"},
		{Request{Tasks: 8, GPUs: GPUs{Per: PerTask, Count: 2}}, "More processors requested than permitted\n"},
		{Request{GPUs: GPUs{Per: PerStep, Count: 9}}, "Invalid generic resource (gres) specification\n"},
		{Request{Tasks: 3, Distribution: Distribution{Kind: Arbitrary, Hosts: []string{"n1"}}}, "Requested node configuration is not available\n"},
		{Request{Distribution: Distribution{Kind: Arbitrary, Hosts: []string{"n2", "n2", "n2"}}}, "More processors requested than permitted\n"},
	} {
		if _, err := NewBook(three(0)).Ask(1, &test.request); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %s", test.request, err, test.want)
		}
	}
}
