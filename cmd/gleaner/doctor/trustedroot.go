package doctor

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/finding"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/trustroot"
)

// A trusted root is doubted so long before it ends, and when nothing in it is younger than
// that: whoever runs Sigstore replaces logs and authorities every few years, and signs with
// the new ones.
const (
	rootEndsSoon = 90 * 24 * time.Hour
	rootIsOld    = 3 * 365 * 24 * time.Hour
)

const (
	rootMeans = "images that need a keyless signature and were signed by newer certificates do not start"
	rootFix   = "get the trusted_root.json of today from whoever runs the Fulcio that signs (cosign trusted-root create --with-default-services,), compare it, put it where trusted_root in [images] says, and: gcontrol apply -f cluster.toml"
)

// checkTrustedRoot looks at what the cluster compares keyless signatures with, if it does.
func checkTrustedRoot(policy *pb.Policy, now time.Time) []finding.Finding {
	const check = "trusted root of image signatures"
	text := policy.GetImages().GetTrustedRoot()
	if len(text) == 0 {
		return nil
	}
	root, err := trustroot.Parse(text)
	if err != nil {
		return []finding.Finding{finding.Bad(check, err.Error(), "images that need a keyless signature do not start", rootFix)}
	}
	age := fmt.Sprintf("the newest of its authorities and logs began on %s, %d days ago", root.Newest().UTC().Format(time.DateOnly), int(now.Sub(root.Newest())/(24*time.Hour)))
	ends := root.Ends()
	switch lacking := root.Lacking(now); {
	case lacking != "":
		return []finding.Finding{finding.Bad(check, fmt.Sprintf("no %s in it is in force; %s", lacking, age), rootMeans, rootFix)}
	case !ends.IsZero() && ends.Sub(now) < rootEndsSoon:
		return []finding.Finding{finding.Doubtful(check, fmt.Sprintf("it is good for %d days more, until %s", int(ends.Sub(now)/(24*time.Hour)), ends.UTC().Format(time.DateOnly)), "from then on: "+rootMeans, rootFix)}
	case now.Sub(root.Newest()) > rootIsOld:
		return []finding.Finding{finding.Doubtful(check, age+"; newer ones may be missing", rootMeans, rootFix)}
	}
	until := "no end is set"
	if !ends.IsZero() {
		until = "good until " + ends.UTC().Format(time.DateOnly)
	}
	return []finding.Finding{finding.Good(check, until+"; "+age)}
}
