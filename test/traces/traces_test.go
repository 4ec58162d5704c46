package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestTraces replays what takes seconds, and with SOAK=1 the rest.
func TestTraces(t *testing.T) {
	folder := cmp.Or(os.Getenv("TRACES"), filepath.Join("..", "..", "..", "shared", "data"))
	for i := range workloads {
		w := &workloads[i]
		t.Run(w.file, func(t *testing.T) {
			if w.long && os.Getenv("SOAK") == "" {
				t.Skip("needs SOAK=1: it takes minutes")
			}
			jobs, err := w.jobs(folder)
			if errors.Is(err, fs.ErrNotExist) {
				t.Skipf("needs %s in %s, or in the folder TRACES: real traces are not part of the tree", w.file, folder)
			} else if err != nil {
				t.Fatal(err)
			}
			for k := range w.policies {
				t.Run(w.policies[k].policy, func(t *testing.T) {
					r, err := w.replay(jobs, &w.policies[k], folder, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%d jobs: mean wait %.1f s, bounded slowdown %.2f, utilization %.4f, %d differ, %d of %d late",
						r.Jobs, r.MeanWaitS, r.MeanSlowdown, r.Utilization, r.Differ, r.Late, r.Promised)
					if err := w.policies[k].judge(r); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestJudge: what is wrong is found.
func TestJudge(t *testing.T) {
	good := replayed{Differ: 0, Promised: 10}
	good.MeanWaitS, good.MeanSlowdown = 100.2, 2.001
	k := known{policy: "easy", waitS: 100, slowdown: 2, within: 0.005, equal: true}
	if err := k.judge(&good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*replayed){
		"wait":     func(r *replayed) { r.MeanWaitS = 100.6 },
		"slowdown": func(r *replayed) { r.MeanSlowdown = 1.98 },
		"differ":   func(r *replayed) { r.Differ = 1 },
		"late":     func(r *replayed) { r.Late = 1 },
	} {
		bad := good
		spoil(&bad)
		if k.judge(&bad) == nil {
			t.Errorf("%s: nothing is wrong with %+v", name, bad)
		}
	}
	if k := (known{policy: "easy++", below: 2}); k.judge(&good) == nil {
		t.Error("a slowdown that is not below")
	}
}
