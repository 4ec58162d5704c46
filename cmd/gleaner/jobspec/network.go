package jobspec

import (
	"errors"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NetworkNamed reads which network a job is to have.
func NetworkNamed(text string) (pb.Network, error) {
	switch strings.ToLower(text) {
	case "host":
		return pb.Network_NETWORK_HOST, nil
	case "private":
		return pb.Network_NETWORK_PRIVATE, nil
	}
	return pb.Network_NETWORK_UNSPECIFIED, errors.New("type host or private")
}
