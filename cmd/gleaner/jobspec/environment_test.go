package jobspec

import (
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

func TestExportedEnvironment(t *testing.T) {
	outside := []string{"HOME=/h", "A=1", "B=2", "SLURM_TIME_FORMAT=relative", "A=3", "broken", "=x"}
	inside := []string{"HOME=/h", "GLEANER_JOB_ID=7", "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_ARRAY_TASK_ID=2", "SLURM_STEP_ID=0", "SLURM_PROCID=3",
		"SLURM_TIME_FORMAT=relative", "SLURMD_NODENAME=n1", "GLEANER_CONTROLLER=x", "GLEANER_STEP_SOCKET=y", "CUDA_VISIBLE_DEVICES=0", "SLURM_EXPORT_ENV=ALL"}
	for _, test := range []struct {
		environ      []string
		export, want string
	}{
		{outside, "", "HOME=/h A=3 B=2 SLURM_TIME_FORMAT=relative"},
		{outside, "ALL", "HOME=/h A=3 B=2 SLURM_TIME_FORMAT=relative"},
		{outside, "none", "SLURM_TIME_FORMAT=relative"},
		{outside, "B,C=5,NOT", "SLURM_TIME_FORMAT=relative B=2 C=5"},
		{outside, "ALL,B=9", "SLURM_TIME_FORMAT=relative HOME=/h A=3 B=9"},
		{outside, `X="a,b",Y='c=d'`, "SLURM_TIME_FORMAT=relative X=a,b Y=c=d"},
		{inside, "", "HOME=/h SLURM_TIME_FORMAT=relative"},
		{inside, "NONE", "SLURM_TIME_FORMAT=relative"},
		{inside, "NONE,X=1", "SLURM_TIME_FORMAT=relative X=1"},
	} {
		got, err := exportedEnvironment(test.environ, test.export)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("--export=%s: got %q, %v; want %q", test.export, got, err, test.want)
		}
	}
	for _, export := range []string{"1A", "A B=2", "X='a", "=5"} {
		if got, err := exportedEnvironment(outside, export); err == nil {
			t.Errorf("--export=%s was accepted: %q", export, got)
		}
	}
}

func TestExportedEnvironmentIsBounded(t *testing.T) {
	_, err := exportedEnvironment([]string{"A=" + strings.Repeat("x", 2<<20)}, "")
	if err == nil || !strings.Contains(err.Error(), "--export=NONE") {
		t.Errorf("two megabytes of environment: %v", err)
	}
}

func TestStepEnvironmentKeepsTheJob(t *testing.T) {
	environ := []string{"HOME=/h", "PATH=/bin", "A=1", "GLEANER_JOB_ID=7", "SLURM_NTASKS=4", "CUDA_VISIBLE_DEVICES=0"}
	all, err := StepEnvironment(environ, "")
	slices.Sort(all)
	if err != nil || !slices.Equal(all, slices.Sorted(slices.Values(environ))) {
		t.Errorf("ALL: %q, %v", all, err)
	}
	some, err := StepEnvironment(environ, "B=2")
	if err != nil || strings.Join(some, " ") != "HOME=/h PATH=/bin GLEANER_JOB_ID=7 SLURM_NTASKS=4 B=2" {
		t.Errorf("B=2: %q, %v", some, err)
	}
}

// FuzzSplitExport: no word that comes out holds what cut it, except inside
// quotes, and none is empty.
func FuzzSplitExport(f *testing.F) {
	for _, seed := range []string{"ALL,A=1", `X="a,b"`, "'", ",,", "a'b'c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := splitExport(text)
		if err == nil && slices.Contains(words, "") {
			t.Fatalf("%q: an empty word: %q", text, words)
		}
		if err == nil && !strings.ContainsAny(text, `'"`) && strings.ContainsAny(strings.Join(words, ""), ",") {
			t.Fatalf("%q: a comma left: %q", text, words)
		}
	})
}

func TestEnvironmentCarriesWhatSubmissionSaysOfSteps(t *testing.T) {
	outer := []string{"GLEANER_JOB_ID=4", "SLURM_GPU_BIND=none", "SLURM_DISTRIBUTION=cyclic", "A=b"} // of the job around it
	for _, c := range []struct {
		values option.Values
		want   string
	}{
		{option.Values{}, "A=b"},
		{option.Values{OptGPUBind: {"verbose,single:1"}}, "A=b SLURM_GPU_BIND=verbose,single:1"},
		{option.Values{OptDistribution: {"plane=2"}, OptGPUBind: {"closest"}}, "A=b SLURM_DISTRIBUTION=plane=2 SLURM_GPU_BIND=closest"},
		{option.Values{OptDistribution: {"round"}}, ""},
		{option.Values{OptGPUBind: {"single:0"}}, ""},
	} {
		got, err := jobEnvironment(outer, "", c.values)
		if (err != nil) != (c.want == "") || err == nil && strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v, %v; want %q", c.values, got, err, c.want)
		}
	}
}
