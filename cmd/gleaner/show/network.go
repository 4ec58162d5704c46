package show

import pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

// networkWord is which network a job has: the node's where nothing is said.
func networkWord(network pb.Network) string {
	switch network {
	case pb.Network_NETWORK_PRIVATE:
		return "private"
	case pb.Network_NETWORK_AUTO:
		return "auto"
	default:
		return "host"
	}
}
