package api

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestGroupsOfTheDefaultPartition: a partition for a group's members is closed
// to others also when it is taken because the job names none.
func TestGroupsOfTheDefaultPartition(t *testing.T) {
	site := policy.Default()
	site.Partitions[0].AllowGroups = []string{"root"}
	shape, err := state.ShapeOf(site, &state.SubmitJob{Owner: state.Owner{UID: 7}})
	if err != nil {
		t.Fatal(err)
	}
	for gid, want := range map[uint32]codes.Code{0: codes.OK, 4711: codes.PermissionDenied} {
		if err := checkGroups(site, shape.Partitions, &pb.Identity{Uid: 7, Groups: []uint32{gid}}); status.Code(err) != want {
			t.Errorf("a member of group %d: %v", gid, err)
		}
	}
}
