package registry

import (
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestKeeps: an order names image 5 of job 1. It came at 10 s.
func TestKeeps(t *testing.T) {
	at := func(seconds int) Time { return Time{Boot: time.Duration(seconds) * time.Second} }
	order := &pb.KeepImages{Images: []*pb.Image{{Alloc: &pb.AllocId{Job: 1, Epoch: 1}, Number: 5, Digest: []byte("one")}}}
	for name, test := range map[string]struct {
		image   Image
		here    uint32 // a job of which an allocation is here, and resumes from image "from"
		left    int    // second at which the last allocation of job 1 was forgotten; 0 = none was
		deleted bool
	}{
		"named":                            {Image{1, 5, "one", "n1", true}, 0, 0, false},
		"older than what is named":         {Image{1, 4, "old", "n1", true}, 1, 0, true},
		"of another node":                  {Image{1, 4, "old", "n2", false}, 0, 0, false},
		"a copy that is not named":         {Image{1, 6, "new", "n2", true}, 1, 0, true},
		"a copy that is named":             {Image{1, 5, "one", "n2", true}, 0, 0, false},
		"a copy, an allocation resumes":    {Image{1, 4, "from", "n2", true}, 1, 0, false},
		"a copy that has just come":        {Image{1, 6, "fetched", "n2", true}, 0, 0, false},
		"a copy that came before":          {Image{1, 6, "long ago", "n2", true}, 0, 0, true},
		"newer, nothing of the job here":   {Image{1, 6, "new", "n1", true}, 2, 0, true},
		"newer, the job is here":           {Image{1, 6, "new", "n1", true}, 1, 0, false},
		"newer, it left after the order":   {Image{1, 6, "new", "n1", true}, 0, 11, false},
		"newer, it left before the order":  {Image{1, 6, "new", "n1", true}, 0, 9, true},
		"older, it left after the order":   {Image{1, 4, "old", "n1", true}, 0, 11, true},
		"older, an allocation resumes":     {Image{1, 4, "from", "n1", true}, 1, 0, false},
		"of a job that has none any more":  {Image{3, 1, "gone", "n1", true}, 0, 0, true},
		"the same, of a job that is here":  {Image{3, 1, "gone", "n1", true}, 3, 0, false},
		"the digest of another job's here": {Image{1, 4, "from", "n1", true}, 2, 0, true},
	} {
		r := &Registry{Most: 9, Remembers: 9}
		if test.here != 0 {
			r.Adopt(&pb.StartAlloc{Alloc: &pb.AllocId{Job: test.here, Epoch: 2}, Restore: &pb.Image{Digest: []byte("from")}}, at(1))
		}
		if test.left != 0 {
			r.Forget(r.Adopt(&pb.StartAlloc{Alloc: &pb.AllocId{Job: 1, Epoch: 3}}, at(1)), at(test.left))
		}
		r.Fetches("long ago", at(-51))
		r.Fetches("fetched", at(-49))
		if keeps := r.Keeps(NewKeep(order, "n1", at(10)), test.image); keeps == test.deleted {
			t.Errorf("%s: kept %v", name, keeps)
		}
	}
	if k := NewKeep(order, "n1", at(10)); k.Late(at(70)) || !k.Late(at(71)) {
		t.Error("an order counts for another time than a minute")
	}
}

// TestLeftIsBounded: jobs that left long ago are forgotten.
func TestLeftIsBounded(t *testing.T) {
	r := &Registry{Most: 9, Remembers: 1}
	for job := range uint32(300) {
		now := Time{Boot: time.Duration(job) * time.Second}
		r.Forget(r.Adopt(&pb.StartAlloc{Alloc: &pb.AllocId{Job: job + 1, Epoch: 1}}, now), now)
	}
	if len(r.left) > 61 {
		t.Errorf("%d jobs are remembered", len(r.left))
	}
}
