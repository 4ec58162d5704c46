package shim

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// On a node where the number of a job's user is another person's nothing runs.
func TestOtherAccount(t *testing.T) {
	b := newBed(t)
	for name, change := range map[string]func(*pb.Identity){
		"number": func(o *pb.Identity) { o.Uid = 1 },
		"name":   func(o *pb.Identity) { o.User = "root" },
		"group":  func(o *pb.Identity) { o.Gid = 0 },
	} {
		order := b.order("touch ran")
		order.Spec.StandardOutput, order.Spec.WorkDirectory = "/dev/null", "/"
		change(order.Owner)
		result := b.launch(order).wait()
		if result.Cause != pb.EndCause_END_CAUSE_OTHER_ACCOUNT || !strings.Contains(result.Detail, "somebody else's on this node") || result.StartMs != 0 {
			t.Errorf("%s: %v %q", name, result.Cause, result.Detail)
		}
	}
}
