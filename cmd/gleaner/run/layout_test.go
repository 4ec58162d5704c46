package run

import (
	"fmt"
	"slices"
	"testing"
)

func TestReadShape(t *testing.T) {
	good := map[string]string{
		"SLURM_JOB_ID": "7", "GLEANER_STEP_SOCKET": "/s", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2",
		"SLURM_JOB_CPUS_PER_NODE": "4(x2),2", "SLURM_TASKS_PER_NODE": "1(x3)", "GLEANER_NTASKS": "3", "GLEANER_STEP_PORT": "6818",
	}
	shape, err := readShape(func(name string) string { return good[name] })
	if err != nil || fmt.Sprint(*shape) != "{7 [n1 n2 n3] [4 4 2] [1 1 1] 3 n2 /s 6818}" {
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
