package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

const textInvalidLicense = "Invalid license specification"

// licensesFromText reads what a job asks for; "" is nothing.
func licensesFromText(text string) ([]policy.License, error) {
	if text == "" {
		return nil, nil
	}
	messages, err := spec.ParseLicenses(text)
	if err != nil {
		return nil, fmt.Errorf("%s\n%w", textInvalidLicense, err)
	}
	licenses := make([]policy.License, len(messages))
	for i, message := range messages {
		licenses[i] = policy.License{Name: message.GetName(), Count: message.GetCount()}
	}
	return licenses, nil
}

func licensesText(licenses []policy.License) string {
	messages := make([]*pb.License, len(licenses))
	for i, license := range licenses {
		messages[i] = &pb.License{Name: license.Name, Count: license.Count}
	}
	return spec.FormatLicenses(messages)
}

// checkLicenses refuses licenses that do not exist, or not in that number.
func checkLicenses(p *policy.Policy, asked []policy.License) *Refusal {
	for i, license := range asked {
		total, known := p.FindLicense(license.Name)
		switch {
		case i > 0 && asked[i-1].Name >= license.Name || license.Count == 0 || !spec.ValidLicense(license.Name):
			return refuse(Invalid, "%s: the licenses are not in normal form", textInvalidLicense)
		case !known:
			return refuse(Invalid, "%s\nthere is no license %s. %s", textInvalidLicense, license.Name, licenseNames(p))
		case license.Count > total:
			return refuse(Invalid, "%s\n%d of license %s are asked for, of %d in all: ask for %d at most", textInvalidLicense, license.Count, license.Name, total, total)
		}
	}
	return nil
}

// licenseNames names some of the licenses.
func licenseNames(p *policy.Policy) string {
	const few = 12
	if len(p.Licenses) == 0 {
		return "This cluster has none: leave --licenses out"
	}
	names := make([]string, 0, few+1)
	for i := range p.Licenses[:min(few, len(p.Licenses))] {
		names = append(names, p.Licenses[i].Name)
	}
	if len(p.Licenses) > few {
		names = append(names, "…")
	}
	return "Licenses are: " + strings.Join(names, ", ")
}

// schedLicenses lists the licenses that a job requests by their places in a
// snapshot, where the policy's come first. One that the policy no longer has
// comes after them, with a count of zero.
func schedLicenses(snapshot *sched.Snapshot, ofPolicy int, asked []policy.License) []sched.LicenseCount {
	if len(asked) == 0 {
		return nil
	}
	counts := make([]sched.LicenseCount, len(asked))
	for i, license := range asked {
		counts[i] = sched.LicenseCount{License: placeOfLicense(snapshot, ofPolicy, license.Name), Count: license.Count}
	}
	return counts
}

func placeOfLicense(snapshot *sched.Snapshot, ofPolicy int, name string) int {
	at, known := slices.BinarySearchFunc(snapshot.Licenses[:ofPolicy], name, func(l sched.License, name string) int { return cmp.Compare(l.Name, name) })
	if known {
		return at
	}
	for at = ofPolicy; at < len(snapshot.Licenses); at++ {
		if snapshot.Licenses[at].Name == name {
			return at
		}
	}
	snapshot.Licenses = append(snapshot.Licenses, sched.License{Name: name})
	return at
}

// LicenseUse is the number of licenses of one name, and how many jobs hold.
type LicenseUse struct {
	Name        string
	Total, Used uint64
}

// Licenses are all that the policy has or jobs hold, ascending by name. It
// looks at each job that is not over.
func (v *View) Licenses() []LicenseUse {
	uses := make([]LicenseUse, 0, len(v.policy.Licenses))
	for _, license := range v.policy.Licenses {
		uses = append(uses, LicenseUse{Name: license.Name, Total: uint64(license.Count)})
	}
	for job := range v.LiveJobs() {
		if !job.HoldsNodes() {
			continue
		}
		for _, license := range job.Spec.Licenses {
			at, known := slices.BinarySearchFunc(uses, license.Name, func(u LicenseUse, name string) int { return cmp.Compare(u.Name, name) })
			if !known {
				uses = slices.Insert(uses, at, LicenseUse{Name: license.Name})
			}
			uses[at].Used += uint64(license.Count)
		}
	}
	return uses
}
