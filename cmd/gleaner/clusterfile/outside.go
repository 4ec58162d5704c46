package clusterfile

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// outsideFile is what jobs with a network of their own may do beyond it: of the site, or
// of a partition.
type outsideFile struct {
	NetworkAllow []string `toml:"network_allow"`
	NetworkRate  string   `toml:"network_rate"`
}

func (f *outsideFile) outside() (*pb.Outside, error) {
	allow, err := spec.ParseDestinations(f.NetworkAllow)
	if err != nil {
		return nil, fmt.Errorf("network_allow: %w", err)
	}
	rate, err := spec.ParseRate(f.NetworkRate)
	if err != nil {
		return nil, fmt.Errorf("network_rate: %w", err)
	}
	if len(allow) == 0 && rate == 0 {
		return nil, nil
	}
	return &pb.Outside{Allow: allow, BytesPerSecond: rate}, nil
}
