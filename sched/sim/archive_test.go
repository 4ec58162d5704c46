package sim

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// shared is where real traces lie that are not part of the tree.
var shared = filepath.Join("..", "..", "..", "shared", "data")

func open(t *testing.T, name string) *gzip.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join(shared, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("needs %s in %s: real traces are not part of the tree", name, shared)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// TestArchive replays traces of the Parallel Workloads Archive and compares the figures
// with those of another simulator, pyss of the Hebrew University.
func TestArchive(t *testing.T) {
	for _, c := range []struct {
		name, file string
		processors uint32
		long       bool
		policies   []figure
	}{
		{"SDSC", "swf/SDSC-SP2-first5000_pyss_5K_sample.swf.gz", 128, false, []figure{
			{"fcfs", 15711.5, 254.13, 1e-5}, {"easy", 3372.9, 17.14, 0.005}, {"easy-sjbf", 3524.7, 17.29, 0.005},
			{"conservative", 3558.0, 16.61, 0.005}, {"easy++", 0, 17.14, 0}, {"easy-learned", 0, 17.14, 0}, {"easy-exact", 0, 17.14, 0}, {"easy-checkpoint", 0, 16.06, 0}}},
		{"Curie", "curie_sample/curie_hybrid_nodes_halfA.swf.gz", 144, false, []figure{
			{"fcfs", 3648.3, 22.69, 1e-3}, {"easy", 3236.8, 3.89, 0.01}, {"easy-sjbf", 3236.8, 3.89, 0.01},
			{"conservative", 3236.8, 3.89, 0.005}, {"easy++", 0, 3.89, 0}, {"easy-learned", 0, 3.89, 0}, {"easy-checkpoint", 0, 3.89, 0}}},
		{"KTH", "swf/KTH-SP2-1996-2.1-cln.swf.gz", 100, true, []figure{
			{"fcfs", 218980.6, 4297.07, 1e-5}, {"easy", 6412.2, 86.28, 0.005}, {"easy-sjbf", 5659.1, 65.21, 0.005},
			{"easy++", 0, 86.28, 0}, {"easy-learned", 0, 86.28, 0}, {"easy-checkpoint", 0, 86.28, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && os.Getenv("SOAK") == "" {
				t.Skip("needs SOAK=1: it takes a minute")
			}
			jobs, err := trace.Read(open(t, c.file))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.policies {
				t.Run(want.policy, func(t *testing.T) { want.check(t, jobs, c.processors) })
			}
		})
	}
}

// figure is what a policy is known to give; one without a wait is only a bound of the
// slowdown.
type figure struct {
	policy         string
	wait, slowdown float64
	within         float64
}

func (want figure) check(t *testing.T, jobs []trace.Job, processors uint32) {
	cluster, err := Pool(processors)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range Policies {
		if policy.Name != want.policy {
			continue
		}
		result, err := Run(jobs, cluster, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := result.Figures()
		t.Logf("%d jobs, %d passes: mean wait %.1f s, bounded slowdown %.2f, utilization %.4f", got.Jobs, result.Passes, got.MeanWaitS, got.MeanSlowdown, got.Utilization)
		if want.wait == 0 {
			if got.MeanSlowdown >= want.slowdown {
				t.Errorf("the slowdown is not below %.2f", want.slowdown)
			}
			return
		}
		if off(got.MeanWaitS, want.wait) > want.within || off(got.MeanSlowdown, want.slowdown) > max(want.within, 0.005) {
			t.Errorf("it should wait %.1f s and have a slowdown of %.2f", want.wait, want.slowdown)
		}
	}
}

func off(got, want float64) float64 { return math.Abs(got-want) / want }

// TestEqualsGolden: job by job, first come, first served starts as pyss starts.
func TestEqualsGolden(t *testing.T) {
	for _, c := range []struct {
		trace, golden string
		processors    uint32
	}{
		{"swf/SDSC-SP2-first5000_pyss_5K_sample.swf.gz", "golden/5k_fcfs.csv.gz", 128},
		{"swf/KTH-SP2-1996-2.1-cln.swf.gz", "golden/kth_fcfs.csv.gz", 100},
		{"curie_sample/curie_hybrid_nodes_halfA.swf.gz", "curie_sample/curieA_fcfs.csv.gz", 144},
	} {
		t.Run(c.golden, func(t *testing.T) {
			if c.processors == 100 && os.Getenv("SOAK") == "" {
				t.Skip("needs SOAK=1: it takes a minute")
			}
			jobs, err := trace.Read(open(t, c.trace))
			if err != nil {
				t.Fatal(err)
			}
			starts := golden(t, c.golden)
			cluster, err := Pool(c.processors)
			if err != nil {
				t.Fatal(err)
			}
			result, err := Run(jobs, cluster, Policies[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i := range result.Jobs {
				o := &result.Jobs[i]
				if want, known := starts[o.ID]; !known || o.StartS != want && max(o.StartS, 1) != want { // pyss knows no second 0 in some traces
					if wrong++; wrong <= 3 {
						t.Errorf("job %d starts at %d and not at %d", o.ID, o.StartS, want)
					}
				}
			}
			if wrong > 0 || len(starts) != len(result.Jobs) {
				t.Errorf("%d of %d starts differ; the other has %d", wrong, len(result.Jobs), len(starts))
			}
		})
	}
}

// golden is the start of each job.
func golden(t *testing.T, name string) map[uint32]int64 {
	t.Helper()
	rows, err := csv.NewReader(open(t, name)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	starts := map[uint32]int64{}
	for _, row := range rows[1:] {
		id, err := strconv.ParseUint(row[0], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		if starts[uint32(id)], err = strconv.ParseInt(row[2], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return starts
}
