package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// shaped is a job of three nodes: n1 with 4 CPUs, n2 with 2, n3 with 2.
func shaped(ntasks int, tasks ...int) *jobShape {
	return &jobShape{job: "7", nodes: []string{"n1", "n2", "n3"}, cpus: []int{4, 2, 2}, ntasks: ntasks, tasks: tasks, thisNode: "n1"}
}

func TestLayOut(t *testing.T) {
	for _, test := range []struct {
		name    string
		shape   *jobShape
		request stepRequest
		want    string // node:ranks
		warning string
	}{
		{"one on each node", shaped(0), stepRequest{}, "n1:0 n2:1 n3:2", ""},
		{"as the job was laid out", shaped(4, 2, 1, 1), stepRequest{}, "n1:0-1 n2:2 n3:3", ""},
		{"as the job was laid out, unevenly", shaped(5, 1, 2, 2), stepRequest{}, "n1:0 n2:1-2 n3:3-4", ""},
		{"another number is counted out again", shaped(5, 1, 2, 2), stepRequest{tasks: 4}, "n1:0-1 n2:2 n3:3", ""},
		{"a full node is passed over", shaped(0), stepRequest{tasks: 8}, "n1:0-3 n2:4-5 n3:6-7", ""},
		{"fewer tasks than nodes", shaped(0), stepRequest{tasks: 1}, "n1:0", "can't run 1 processes on 3 nodes, setting nnodes to 1"},
		{"a node by name", shaped(0), stepRequest{tasks: 1, least: 1, most: 1, nodes: []string{"n3"}}, "n3:0", ""},
		{"a name does not limit the nodes", shaped(0), stepRequest{nodes: []string{"n3"}}, "n1:0 n2:1 n3:2", ""},
		{"names in the order of the job", shaped(0), stepRequest{least: 2, most: 2, nodes: []string{"n3", "n2"}}, "n2:0 n3:1", ""},
		{"a range of nodes", shaped(0), stepRequest{least: 1, most: 2}, "n1:0 n2:1", ""},
		{"without one", shaped(0), stepRequest{exclude: []string{"n1"}}, "n2:0 n3:1", ""},
		{"tasks per node", shaped(0), stepRequest{tasksPerNode: 2}, "n1:0-1 n2:2-3 n3:4-5", ""},
		{"tasks per node as a limit", shaped(0), stepRequest{tasks: 5, tasksPerNode: 2}, "n1:0-1 n2:2-3 n3:4", ""},
		{"tasks per node that do not fit", shaped(6), stepRequest{tasksPerNode: 1}, "n1:0-1 n2:2-3 n3:4-5", "can't honor --ntasks-per-node set to 1 which doesn't match the requested tasks 6 with the number of requested nodes 3. Ignoring --ntasks-per-node."},
		{"CPUs per task", shaped(0), stepRequest{tasks: 4, cpusPerTask: 2}, "n1:0-1 n2:2 n3:3", ""},
		{"overcommit", shaped(0), stepRequest{tasks: 9, overcommit: true}, "n1:0-2 n2:3-5 n3:6-8", ""},
		{"no word about CPUs", &jobShape{nodes: []string{"n1"}}, stepRequest{tasks: 9}, "n1:0-8", ""},
	} {
		plan, warnings, err := test.shape.layOut(test.request)
		var words []string
		for _, place := range plan {
			words = append(words, place.node+":"+formatRanks(place.ranks))
		}
		if got := strings.Join(words, " "); err != nil || got != test.want || strings.Join(warnings, "|") != test.warning {
			t.Errorf("%s: got %q %q %v, want %q %q", test.name, got, warnings, err, test.want, test.warning)
		}
	}
}

func TestLayOutRefuses(t *testing.T) {
	for _, test := range []struct {
		request stepRequest
		want    string
	}{
		{stepRequest{tasks: 9}, "Unable to create step for job 7: More processors requested than permitted\n"},
		{stepRequest{tasks: 5, least: 1, most: 1}, "Unable to create step for job 7: More processors requested than permitted\n"},
		{stepRequest{cpusPerTask: 3}, "Unable to create step for job 7: More processors requested than permitted\n"},
		{stepRequest{least: 4, most: 4}, "Only allocated 3 nodes asked for 4"},
		{stepRequest{nodes: []string{"n9"}}, "Unable to create step for job 7: Requested node configuration is not available\nn9 is not a node of this job"},
		{stepRequest{nodes: []string{"n1"}, exclude: []string{"n1"}}, "Unable to create step for job 7: Requested node configuration"},
		{stepRequest{least: 1, most: 1, nodes: []string{"n1", "n2"}}, "Unable to create step for job 7: Requested node configuration"},
		{stepRequest{tasks: 1 << 21}, "2097152 tasks are more than a step may have"},
	} {
		if _, _, err := shaped(0).layOut(test.request); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %s", test.request, err, test.want)
		}
	}
}

func TestReadShape(t *testing.T) {
	good := map[string]string{
		"SLURM_JOB_ID": "7", "GLEANER_STEP_SOCKET": "/s", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2",
		"SLURM_JOB_CPUS_PER_NODE": "4(x2),2", "SLURM_TASKS_PER_NODE": "1(x3)", "GLEANER_NTASKS": "3",
	}
	shape, err := readShape(func(name string) string { return good[name] })
	if err != nil || fmt.Sprint(*shape) != "{7 [n1 n2 n3] [4 4 2] [1 1 1] 3 n2 /s}" {
		t.Errorf("%+v %v", shape, err)
	}
	for name, value := range map[string]string{
		"SLURM_JOB_ID": "", "GLEANER_STEP_SOCKET": "", "SLURM_JOB_NODELIST": "n[", "SLURMD_NODENAME": "n9", "GLEANER_NTASKS": "x",
	} {
		_, err := readShape(func(asked string) string {
			if asked == name {
				return value
			}
			return good[asked]
		})
		if err == nil {
			t.Errorf("%s=%q was accepted", name, value)
		}
	}
}

func FuzzCounts(f *testing.F) {
	for _, seed := range []string{"2(x3),1", "4", "", "1(x", "1(x0)", "0(x99999999)", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		counts, err := parseCounts(text)
		if err != nil {
			return
		}
		again, err := parseCounts(formatCounts(counts))
		if err != nil || !slices.Equal(counts, again) {
			t.Fatalf("%q: %v, written and read again %v, %v", text, counts, again, err)
		}
	})
}
