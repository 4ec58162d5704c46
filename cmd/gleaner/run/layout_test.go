package run

import (
	"fmt"
	"testing"
)

func TestReadShape(t *testing.T) {
	good := map[string]string{
		"SLURM_JOB_ID": "7", "GLEANER_STEP_SOCKET": "/s", "SLURM_JOB_NODELIST": "n[1-3]", "SLURMD_NODENAME": "n2",
		"GLEANER_NTASKS": "3",
	}
	shape, err := readShape(func(name string) string { return good[name] })
	if err != nil || fmt.Sprint(*shape) != "{7 [n1 n2 n3] n2 /s}" {
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

func TestFormatCounts(t *testing.T) {
	for want, counts := range map[string][]int{"": nil, "4": {4}, "2(x3),1": {2, 2, 2, 1}, "1,2,1": {1, 2, 1}} {
		if got := formatCounts(counts); got != want {
			t.Errorf("%v: %q, want %q", counts, got, want)
		}
	}
}
