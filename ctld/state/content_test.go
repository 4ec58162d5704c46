package state

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestBytesOfOneUser: what the controllers keep of a user's jobs is bounded,
// jobs that are over and remembered included; equal contents count once, others'
// not at all, and what is forgotten makes room.
func TestBytesOfOneUser(t *testing.T) {
	s := New()
	submit := func(uid uint32, script string) Result {
		return applyCommand(t, s, SubmitJob{Owner: Owner{UID: uid}, Script: []byte(script), Own: Own{Arguments: []string{strings.Repeat("a", 1000)}},
			Spec: Spec{TimeLimitS: 60, MemoryPerNode: 1 << 20}}, RequestID{}, 1000)
	}
	kept := func(uid uint32) uint64 { return s.View().UserCounts(uid).Bytes }
	large := "#!" + strings.Repeat("x", 1<<20)
	for n := range 10 {
		if refused := submit(1000, large).Refused; refused != nil {
			t.Fatal(n, refused)
		}
	}
	one := kept(1000)
	if one < 1<<20+10*1000 || one > 1<<20+12_000 {
		t.Errorf("ten jobs with one script keep %d bytes", one)
	}
	submit(1001, large)
	submit(1000, large+"y")
	if got := kept(1000); got < one+1<<20 || kept(1001) < 1<<20 {
		t.Errorf("another script makes %d of %d bytes, and another user has %d", got, one, kept(1001))
	}
	// As if there were hundreds of them.
	counts, _ := s.users.Get(1000)
	before := counts
	counts.Bytes = spec.MaxUserBytes
	s.putUserCounts(1000, counts)
	s.view = nil
	if refused := submit(1000, "#!/bin/sh\n").Refused; refused == nil || refused.Code != Exhausted || !strings.Contains(refused.Message, "take 512M, and may take 512M") {
		t.Errorf("over the bound: %v", refused)
	}
	if refused := submit(1001, large).Refused; refused != nil {
		t.Errorf("another user: %v", refused)
	}
	s.putUserCounts(1000, before)
	var all []Target
	for job := range s.View().Jobs(0) {
		all = append(all, Target{Job: job.ID})
	}
	applyCommand(t, s, CancelJobs{Targets: all, Privileged: true}, RequestID{}, 2000)
	if got := kept(1000); got != before.Bytes {
		t.Errorf("cancelled jobs, which are remembered, keep %d bytes of %d", got, before.Bytes)
	}
	for s.Counts().Finished > 0 {
		applyCommand(t, s, PurgeJobs{BeforeMS: 1 << 40}, RequestID{}, 1<<40)
	}
	if got := kept(1000) + kept(1001); got != 0 || len(s.shared.held) != 0 {
		t.Errorf("when all is forgotten, %d bytes are kept", got)
	}
	if refused := submit(1000, "#!/bin/sh\n").Refused; refused != nil {
		t.Errorf("when all is forgotten: %v", refused)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
