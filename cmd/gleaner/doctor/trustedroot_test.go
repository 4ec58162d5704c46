package doctor

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

func TestTrustedRoot(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const check, day = "trusted root of image signatures", 24 * time.Hour
	policy := func(change func(*sigstore.Site)) *pb.Policy {
		site, err := sigstore.New(now)
		must(t, err)
		change(site)
		root, err := site.Root()
		must(t, err)
		return &pb.Policy{Images: &pb.ImageRules{TrustedRoot: root}}
	}
	good := policy(func(*sigstore.Site) {})
	want(t, checkTrustedRoot(good, now), check, finding.OK, "good until 2035-04-29", "began on 2025-05-01, 365 days ago")
	want(t, checkTrustedRoot(good, now.Add(3*365*day)), check, finding.Warning, "1460 days ago; newer ones may be missing", "gcontrol apply")
	want(t, checkTrustedRoot(good, now.Add(10*365*day)), check, finding.Failed, "no certificate authority in it is in force", "gcontrol apply")
	want(t, checkTrustedRoot(policy(func(s *sigstore.Site) { s.LogUntil = now.Add(80 * day) }), now), check, finding.Warning, "good for 80 days more, until 2026-07-20")
	want(t, checkTrustedRoot(policy(func(s *sigstore.Site) { s.LogUntil = now.Add(-day) }), now), check, finding.Failed, "no transparency log in it is in force")
	want(t, checkTrustedRoot(&pb.Policy{Images: &pb.ImageRules{TrustedRoot: []byte("{}")}}, now), check, finding.Failed, "no trusted root of Sigstore")
	if found := checkTrustedRoot(&pb.Policy{}, now); len(found) > 0 {
		t.Errorf("a cluster without one: %v", found)
	}
}
