package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// FindLicense returns how many licenses of a name there are.
func (p *Policy) FindLicense(name string) (uint32, bool) {
	at, found := slices.BinarySearchFunc(p.Licenses, name, func(l License, name string) int { return cmp.Compare(l.Name, name) })
	if !found {
		return 0, false
	}
	return p.Licenses[at].Count, true
}

func (p *Policy) normalizeLicenses() error {
	if len(p.Licenses) > bounds.MaxLicenses {
		return fmt.Errorf("%d licenses are too many: at most %d", len(p.Licenses), bounds.MaxLicenses)
	}
	p.Licenses = slices.Clone(p.Licenses)
	slices.SortFunc(p.Licenses, func(a, b License) int { return cmp.Compare(a.Name, b.Name) })
	for i, license := range p.Licenses {
		switch {
		case !bounds.ValidName(license.Name):
			return fmt.Errorf("license name %q: use letters, digits and -_. only", bounds.Clip(license.Name, bounds.MaxNameBytes))
		case i > 0 && p.Licenses[i-1].Name == license.Name:
			return fmt.Errorf("license %s is there twice: leave one, with the sum of both", license.Name)
		case license.Count > math.MaxInt32:
			return fmt.Errorf("license %s: count %d is too high: at most %d", license.Name, license.Count, math.MaxInt32)
		}
	}
	return nil
}

func (p *Policy) hasLicense(name string) bool {
	_, found := slices.BinarySearchFunc(p.Licenses, name, func(l License, name string) int { return cmp.Compare(l.Name, name) })
	return found
}

// License is a number of one license.
type License struct {
	Name  string `cbor:"1,keyasint"`
	Count uint32 `cbor:"2,keyasint"`
}
