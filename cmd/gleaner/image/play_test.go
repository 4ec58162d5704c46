package image

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

// stage runs command lines of this command.
var stage = clienttest.Of(Command())

func TestDialogues(t *testing.T) { stage.Dialogues(t) }

type asked struct {
	pb.UnimplementedControllerServer
	requests []*pb.ContainerImagesRequest
}

func (a *asked) ContainerImages(request *pb.ContainerImagesRequest, _ grpc.ServerStreamingServer[pb.ContainerImagesResponse]) error {
	a.requests = append(a.requests, request)
	return nil
}

// TestImageAsks: what is asked for is what was typed.
func TestImageAsks(t *testing.T) {
	controller := &asked{}
	target := clienttest.Serve(t, func(server *grpc.Server) { pb.RegisterControllerServer(server, controller) })
	digest := "sha256:" + strings.Repeat("1", 64)
	pinned := "docker://lab.example/xy@" + digest
	for line, want := range map[string]*pb.ContainerImagesRequest{
		"gimage":                               {Verb: pb.ImagesVerb_IMAGES_VERB_LIST},
		"gimage list n2 n1":                    {Verb: pb.ImagesVerb_IMAGES_VERB_LIST, Nodes: "n[1-2]"},
		"gimage list -n n1,n2 -p a,b":          {Verb: pb.ImagesVerb_IMAGES_VERB_LIST, Nodes: "n[1-2]", Partitions: []string{"a", "b"}},
		"gimage verify":                        {Verb: pb.ImagesVerb_IMAGES_VERB_VERIFY},
		"gimage verify lab.example/xy":         {Verb: pb.ImagesVerb_IMAGES_VERB_VERIFY, Image: "lab.example/xy"},
		"gimage rm oci:/shared/x:1":            {Verb: pb.ImagesVerb_IMAGES_VERB_REMOVE, Image: "oci:/shared/x:1"},
		"gimage rm " + digest:                  {Verb: pb.ImagesVerb_IMAGES_VERB_REMOVE, Image: digest},
		"gimage pull lab.example/xy@" + digest: {Verb: pb.ImagesVerb_IMAGES_VERB_PULL, Image: pinned, Environment: []string{"DOCKER_CONFIG=/c"}},
	} {
		controller.requests = nil
		got := stage.Command(t, target, "", []string{"DOCKER_CONFIG=/c"}, strings.Fields(line)...)
		if len(controller.requests) != 1 || controller.requests[0].String() != want.String() {
			t.Errorf("%s asks for %v, want %v: %+v", line, controller.requests, want, got)
		}
	}
}
