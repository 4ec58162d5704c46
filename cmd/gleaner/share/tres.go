package share

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// shareRow is a line of gshare: an association's share, and if they were asked
// for its limits and what counts for them.
type shareRow struct {
	*pb.Share
	limits show.LimitSet
	use    *pb.LimitUse
	tres   []string // the names of the use's amounts
}

// shareKey names an association.
type shareKey struct{ account, user, partition string }

// addLimits asks for limits, and gives each row its own. One without any was
// deleted in between.
func addLimits(inv *option.Invocation, controllers *client.Client, rows []*shareRow) error {
	var tres []string
	found := map[shareKey]*pb.AssociationUse{}
	restart := func() bool { tres, found = nil, map[shareKey]*pb.AssociationUse{}; return true }
	request := &pb.ListLimitsRequest{Kinds: []pb.LimitRecord{pb.LimitRecord_LIMIT_RECORD_ASSOCIATIONS}, Accounts: inv.List("accounts")}
	err := client.List(inv.Context, controllers, controllers.ListLimits, request, restart, func(answer *pb.ListLimitsResponse) error {
		if tres == nil {
			tres = answer.GetTres()
		}
		for _, record := range answer.GetAssociations() {
			a := record.GetAssociation()
			found[shareKey{a.GetAccount(), a.GetUser(), a.GetPartition()}] = record
		}
		return nil
	})
	for _, row := range rows {
		record := found[shareKey{row.GetAccount(), row.GetUser(), row.GetPartition()}]
		row.limits, row.use, row.tres = record.GetAssociation().GetLimits(), record.GetUse(), tres
	}
	return err
}

// groupMinutes is the limit over time, "cpu=600,gres/gpu=60".
func (r *shareRow) groupMinutes() string {
	return r.limits.Tres(pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES)
}

// runMinutes is what running jobs may still use, of each TRES.
func (r *shareRow) runMinutes() string {
	var words []string
	for i, amount := range r.use.GetTresRunMinutes() {
		if i < len(r.tres) {
			words = append(words, fmt.Sprintf("%s=%d", format.Printable(r.tres[i]), amount))
		}
	}
	return strings.Join(words, ",")
}

// shareTRES are the amounts as sshare --json has them.
type shareTRES struct {
	RunSeconds   []shareAmount `json:"run_seconds"`
	GroupMinutes []shareAmount `json:"group_minutes"`
}

type shareAmount struct {
	Name  string        `json:"name"`
	Value show.Optional `json:"value"`
}

func shareTRESOf(s show.JSONShape, row *shareRow) shareTRES {
	out := shareTRES{RunSeconds: []shareAmount{}, GroupMinutes: []shareAmount{}}
	for i, amount := range row.use.GetTresRunMinutes() {
		if i < len(row.tres) {
			out.RunSeconds = append(out.RunSeconds, shareAmount{row.tres[i], s.Count(amount * 60)})
		}
	}
	for _, limit := range row.limits {
		if limit.GetKind() == pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES {
			out.GroupMinutes = append(out.GroupMinutes, shareAmount{limit.GetTres(), s.Count(limit.GetValue())})
		}
	}
	return out
}
