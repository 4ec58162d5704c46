package policy

import (
	"net/netip"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// GangRange is a range of addresses: the site's, from which jobs get theirs, or a job's. In
// the policy "" is the default.
type GangRange struct {
	V4 string `cbor:"1,keyasint,omitempty"`
	V6 string `cbor:"2,keyasint,omitempty"`
}

// normalize checks a site's range, and writes it in one form.
func (r *GangRange) normalize() error {
	parsed, err := spec.ParseGangRange(r.V4, r.V6)
	if err != nil {
		return err
	}
	usual := GangRangeOf(spec.DefaultGangRange)
	*r = GangRangeOf(parsed)
	if r.V4 == usual.V4 {
		r.V4 = ""
	}
	if r.V6 == usual.V6 {
		r.V6 = ""
	}
	return nil
}

// GangRangeOf is a range as a record has it.
func GangRangeOf(r spec.GangRange) GangRange { return GangRange{r.V4.String(), r.V6.String()} }

// Prefixes are the two; the default where it says nothing.
func (r GangRange) Prefixes() spec.GangRange {
	parsed := spec.DefaultGangRange
	if v4, err := netip.ParsePrefix(r.V4); err == nil {
		parsed.V4 = v4
	}
	if v6, err := netip.ParsePrefix(r.V6); err == nil {
		parsed.V6 = v6
	}
	return parsed
}

func (r GangRange) message() *pb.GangRange {
	parsed := GangRangeOf(r.Prefixes())
	return &pb.GangRange{V4: parsed.V4, V6: parsed.V6}
}

func (r GangRange) settings() []setting {
	parsed := r.message()
	return []setting{{"gang_range", parsed.V4}, {"gang_range6", parsed.V6}}
}
