package main

import "testing"

// TestRaftAlone: what the bare side of the controllers commits is on the disks of a majority.
func TestRaftAlone(t *testing.T) {
	for _, count := range []int{1, 3} {
		a, err := startAlone(t.Context(), t.TempDir(), count)
		if err != nil {
			t.Fatal(err)
		}
		const entries = 40
		took, err := a.commit(entries, 4)
		if err != nil || took <= 0 {
			t.Fatalf("%d peers: %v after %v", count, err, took)
		}
		had := 0
		for _, peer := range a.peers {
			if peer.LastIndex() > entries {
				had++
			}
		}
		if had <= count/2 {
			t.Errorf("%d of %d peers have all entries", had, count)
		}
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
