package api

import (
	"math"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/fairshare"
)

// ListShares streams the tree of accounts with what each may and did use, up to
// now, as far as private_data lets the caller see it.
func (s *Controller) ListShares(_ *pb.ListSharesRequest, stream pb.Controller_ListSharesServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOfUsers(from, view)
	snapshot := view.SchedSnapshot(time.Now().UnixMilli())
	standings, users := sched.FairShares(snapshot)
	message := &pb.ListSharesResponse{}
	depths := make([]uint32, len(snapshot.Associations))
	for i := range snapshot.Associations {
		share := shareMessage(&snapshot, i, &standings[i], users)
		if above := snapshot.Associations[i].Parent; above >= 0 {
			depths[i] = depths[above] + 1
			if share.User == "" {
				share.Parent = snapshot.Associations[above].Account
			}
		}
		share.Depth = depths[i]
		if !may.seesShare(share.GetAccount(), share.GetUser(), share.GetPartition()) {
			continue
		}
		message.Shares = append(message.Shares, share)
		if len(message.Shares) == maxRecordsPerMessage {
			if err := stream.Send(message); err != nil {
				return err
			}
			message = &pb.ListSharesResponse{}
		}
	}
	if len(message.Shares) == 0 {
		return nil
	}
	return stream.Send(message)
}

// shareMessage is one line of gshare.
func shareMessage(s *sched.Snapshot, i int, standing *fairshare.Standing, users uint32) *pb.Share {
	a := &s.Associations[i]
	share := &pb.Share{
		Account: a.Account, User: a.User, Partition: a.Partition, RawShares: a.Shares, ShareParent: a.ShareParent,
		RawUsage:   fairshare.Seconds(a.UsageRaw),
		NormUsage:  ratio(float64(a.UsageRaw), float64(s.Associations[0].UsageRaw)),
		NormShares: ratio(float64(standing.Shares), float64(standing.SiblingShares)),
		// The root has all that the cluster has used.
		EffectiveUsage: ratio(float64(standing.Usage), float64(standing.SiblingUsage)),
	}
	switch {
	case i == 0:
		share.EffectiveUsage = 1
	case a.User != "" || !a.ShareParent:
		level := math.Inf(1)
		if !standing.Infinite() {
			level = ratio(share.NormShares, share.EffectiveUsage)
		}
		share.LevelFs = &level
	}
	if a.User != "" {
		rank := ratio(float64(standing.Rank), float64(users))
		share.FairShare = &rank
	}
	return share
}

// ratio is 0 where the whole is nothing.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
