package clienttest

import (
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ContainerImages answers for two nodes, of which n2 is not connected.
func (s *StubController) ContainerImages(request *pb.ContainerImagesRequest, stream grpc.ServerStreamingServer[pb.ContainerImagesResponse]) error {
	s.wrote(request)
	digest := "sha256:" + strings.Repeat("ab", 32)
	image := &pb.CachedImage{
		Digest: digest, Names: []string{"docker://lab.example/tools:1@" + digest}, Bytes: 5 << 20, Layers: 3, LayersThere: 2,
		UsedMs: StubNow.UnixMilli() - 60_000, Jobs: []uint32{101, 102},
	}
	word := &pb.ImagesWord{Done: true, Images: []*pb.CachedImage{image}}
	switch request.Verb {
	case pb.ImagesVerb_IMAGES_VERB_LIST:
		word.UsedBytes, word.LimitBytes, word.Others = 5<<20, 1<<30, 2
	case pb.ImagesVerb_IMAGES_VERB_REMOVE:
		if request.Nodes != "n1" {
			return status.Error(codes.PermissionDenied, "Access/permission denied: images on node n2 are removed by operators, administrators and coordinators of the account that owns it: what no job uses makes room by itself")
		}
		image.Problem = "it is in use by jobs 101, 102: wait for the end, or gcancel\x1b[2J"
	case pb.ImagesVerb_IMAGES_VERB_VERIFY:
		if strings.Contains(request.Image, "none") {
			word.Images = nil
		}
	}
	if err := stream.Send(&pb.ContainerImagesResponse{Node: "n1", Word: &pb.ImagesWord{Progress: "pulling"}}); err != nil {
		return err
	}
	if request.Nodes != "n1" {
		gone := &pb.ImagesWord{Done: true, Error: "node is not connected: n2"}
		if err := stream.Send(&pb.ContainerImagesResponse{Node: "n2", Word: gone}); err != nil {
			return err
		}
	}
	return stream.Send(&pb.ContainerImagesResponse{Node: "n1", Word: word})
}
