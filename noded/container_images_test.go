package noded

import (
	"context"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/roots"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestImageIsMeant: an image is meant by its digest, by its name, and by its name with its
// tag, of each user who brought it.
func TestImageIsMeant(t *testing.T) {
	digest, other := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	h := &roots.Holding{Digest: digest}
	shown := &pb.CachedImage{Names: []string{"docker://lab.example/tools:1@" + digest, "docker://index.docker.io/library/debian@" + digest, "oci:/shared/tools:1@" + digest}}
	for text, want := range map[string]bool{
		"": true, digest: true, other: false,
		"lab.example/tools": true, "lab.example/tools:1": true, "lab.example/tools:2": false, "docker://lab.example/tools:1": true,
		"lab.example/tools:1@" + digest: true, "lab.example/tools:1@" + other: false, "lab.example/tool": false, "lab.example:5000/tools": false,
		"debian": true, "docker.io/library/debian": true, "debian:12": false,
		"oci:/shared/tools": true, "oci:/shared/tools:1": true, "oci:/shared/tools:2": false, "oci:/shared": false, "docker-archive:/shared/tools": false,
		"lab.example/TOOLS": false, "\x00": false,
	} {
		if got := isMeant(h, shown, text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestTendsEnd: an order is carried out once, and stops when nobody waits for it.
func TestTendsEnd(t *testing.T) {
	tends := newTends()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if !tends.begin("a", cancel) || tends.begin("a", func() {}) {
		t.Error("an order is carried out twice")
	}
	tends.end("b")
	if ctx.Err() != nil {
		t.Error("another order was stopped")
	}
	tends.end("a")
	tends.end("a")
	if ctx.Err() == nil || len(tends.running) != 0 {
		t.Error("it goes on")
	}
}

// TestJobsNamed: a sentence names a few jobs, and counts the rest.
func TestJobsNamed(t *testing.T) {
	for _, c := range []struct {
		jobs []uint32
		want string
	}{{[]uint32{7}, "job 7"}, {[]uint32{7, 8}, "jobs 7, 8"}, {[]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "jobs 1, 2, 3, 4, 5, 6, 7, 8 and 2 more"}} {
		if got := jobsText(c.jobs); got != c.want {
			t.Errorf("%v: %s", c.jobs, got)
		}
	}
}
