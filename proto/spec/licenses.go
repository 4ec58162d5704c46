package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of what a job may ask for of licenses.
const (
	MaxLicenses     = 64        // different ones
	MaxLicenseCount = 1_000_000 // of one
)

// ParseLicenses reads the argument of --licenses as sbatch(1) has it:
// "matlab:2,fluent", one of each that has no number. They are answered in the
// order of their names.
func ParseLicenses(s string) ([]*pb.License, error) {
	if strings.ContainsAny(s, "|;") {
		return nil, fmt.Errorf("alternatives are not supported: %q: name the licenses that the job needs, joined with commas", shorten(s))
	}
	var licenses []*pb.License
	for word := range strings.SplitSeq(s, ",") {
		license, err := parseLicense(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		at, twice := slices.BinarySearchFunc(licenses, license, func(a, b *pb.License) int { return cmp.Compare(a.Name, b.Name) })
		switch {
		case twice:
			return nil, fmt.Errorf("license %s is named twice: name it once, with the number as in %s:2", shorten(license.Name), shorten(license.Name))
		case len(licenses) == MaxLicenses:
			return nil, fmt.Errorf("more than %d licenses are named", MaxLicenses)
		}
		licenses = slices.Insert(licenses, at, license)
	}
	return licenses, nil
}

func parseLicense(word string) (*pb.License, error) {
	name, number, numbered := strings.Cut(word, ":")
	if strings.Contains(name, "@") {
		return nil, fmt.Errorf("there are no license servers here: %q: leave out the @ and what follows it", shorten(word))
	}
	if !ValidLicense(name) {
		return nil, fmt.Errorf("%q is no license: type its name, or its name and a number as in matlab:2", shorten(word))
	}
	count := uint64(1)
	if numbered {
		var err error
		if count, err = strconv.ParseUint(number, 10, 32); err != nil || count == 0 || count > MaxLicenseCount {
			return nil, fmt.Errorf("%q: the number of licenses is a whole number from 1 to %d", shorten(word), MaxLicenseCount)
		}
	}
	return &pb.License{Name: name, Count: uint32(count)}, nil
}

// ValidLicense reports whether a license may have this name.
func ValidLicense(name string) bool { return validModel(name) }

// FormatLicenses writes licenses as ParseLicenses reads them; "" for none.
func FormatLicenses(licenses []*pb.License) string {
	words := make([]string, len(licenses))
	for i, license := range licenses {
		words[i] = license.Name
		if license.Count != 1 {
			words[i] += ":" + strconv.FormatUint(uint64(license.Count), 10)
		}
	}
	return strings.Join(words, ",")
}
