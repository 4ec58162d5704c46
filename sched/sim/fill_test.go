package sim

import "testing"

// TestHolesAreFilled: jobs that fill holes are saved when they are in the way, do all their
// work, and pay for each save; the others do not wait longer for them.
func TestHolesAreFilled(t *testing.T) {
	cluster, err := Pool(64)
	if err != nil {
		t.Fatal(err)
	}
	saves := uint32(0)
	for seed := range uint64(3) {
		jobs := workload(seed, 200)
		wait := map[string]float64{}
		for _, policy := range Policies {
			if policy.Name != "easy" && policy.Name != "easy-checkpoint" {
				continue
			}
			result, err := Run(jobs, cluster, policy, nil)
			if err != nil {
				t.Fatal(err)
			}
			wait[policy.Name] = result.Figures().MeanWaitS
			for i := range result.Jobs {
				o := &result.Jobs[i]
				saves += o.Saves
				if o.EndS-o.StartS < o.RunS+int64(o.Saves)*(policy.Saves.SaveS+policy.Saves.RestoreS) || o.Saves == 0 && o.EndS-o.StartS != o.RunS {
					t.Fatalf("seed %d, %s: job %+v", seed, policy.Name, o)
				}
			}
		}
		t.Log(wait)
		if wait["easy-checkpoint"] >= wait["easy"] {
			t.Errorf("seed %d: mean waits %v", seed, wait)
		}
	}
	if saves < 20 {
		t.Errorf("%d saves: hardly any hole is filled", saves)
	}
}
