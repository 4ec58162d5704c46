// Package prepare makes of an order what the container of one allocation needs: its
// description, the job's disk, the directory that it shares with its supervisor,
// the script's environment, and its files.
//
// Whatever the user names is opened as the user, on a thread of its own, and only
// descriptors go further: a path that the user could not open is the job's fault
// (RequestError). The numbers of the user and of the groups must mean on this node
// whom they mean to the controllers (ErrOtherAccount).
package prepare

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/roots"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Job is an order as it is meant for this node.
type Job struct {
	Dir      bundle.Dir
	Order    *pb.StartAlloc
	Settings *bundle.Settings
	Log      *slog.Logger
	Own      *pb.NodeAllocation // of this node
	Index    int                // of this node in the allocation
	Batch    bool               // this node runs the script
	User     container.User
	// DryRun: nothing will run, and nothing of the user's is changed.
	DryRun bool
	// ImageTmpBytes is how large the job's disk was in the image from which it resumes;
	// 0 = unknown.
	ImageTmpBytes uint64

	// Tell is told what the job waits for before its container is made; "" = nothing.
	// May be nil.
	Tell func(text string)

	root *roots.Root     // nil = the node's own
	disk *container.Disk // nil = it is not mounted, or the node has no bound
}

// New reads an allocation's directory.
func New(d bundle.Dir, log *slog.Logger) (*Job, error) {
	order, err := d.Order()
	if err != nil {
		return nil, err
	}
	settings, err := d.Settings()
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(order.Allocation, func(a *pb.NodeAllocation) bool { return a.Node == order.Node })
	if index < 0 {
		return nil, fmt.Errorf("%w: the order's allocation does not name node %q", bundle.ErrBadAlloc, order.Node)
	}
	return &Job{
		Dir: d, Order: order, Settings: settings, Log: log.With("node", order.Node),
		Own: order.Allocation[index], Index: index, Batch: order.Node == order.BatchHost, User: userOf(order.Owner),
	}, nil
}

func userOf(id *pb.Identity) container.User {
	return container.User{
		UID: id.GetUid(), GID: id.GetGid(), Groups: id.GetGroups(), Name: id.GetUser(), Group: id.GetGroup(),
		Home: id.GetHome(), Shell: id.GetShell(),
	}
}
