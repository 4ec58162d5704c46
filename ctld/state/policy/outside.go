package policy

import (
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Outside is what jobs with a network of their own may do beyond it, by the site or a
// partition.
type Outside struct {
	Allow []string `cbor:"1,keyasint,omitempty"` // see spec.ParseDestinations; none = nothing is said
	Rate  uint64   `cbor:"2,keyasint,omitempty"` // bytes a second; 0 = nothing is said, spec.UnlimitedRate = no limit
}

func outsideFromMessage(m *pb.Outside) Outside {
	return Outside{Allow: m.GetAllow(), Rate: m.GetBytesPerSecond()}
}

// Message is nil if nothing is said.
func (o Outside) Message() *pb.Outside {
	if len(o.Allow) == 0 && o.Rate == 0 {
		return nil
	}
	return &pb.Outside{Allow: o.Allow, BytesPerSecond: o.Rate}
}

// OutsideOf is what is in force in a partition: what it says itself, and otherwise the site.
func (p *Policy) OutsideOf(partition *Partition) Outside {
	o := p.Outside
	if len(partition.Outside.Allow) > 0 {
		o.Allow = partition.Outside.Allow
	}
	if partition.Outside.Rate != 0 {
		o.Rate = partition.Outside.Rate
	}
	return o
}

// normalize checks what is said, and writes it in one form.
func (o *Outside) normalize() error {
	allow, err := spec.ParseDestinations(o.Allow)
	if err != nil {
		return fmt.Errorf("network_allow: %w", err)
	}
	if _, err := spec.ParseRate(spec.FormatRate(o.Rate)); err != nil {
		return fmt.Errorf("network_rate: %w", err)
	}
	o.Allow = slices.Clip(allow)
	if len(allow) == 0 {
		o.Allow = nil
	}
	return nil
}

// settings are for the difference of two policies.
func (o Outside) settings() []setting {
	return []setting{{"network_allow", strings.Join(o.Allow, ",")}, {"network_rate", spec.FormatRate(o.Rate)}}
}
