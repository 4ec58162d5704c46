package api

import (
	"context"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ListLicenses returns how many licenses there are, and how many jobs hold.
func (s *Controller) ListLicenses(ctx context.Context, _ *pb.ListLicensesRequest) (*pb.ListLicensesResponse, error) {
	if _, err := s.reader(ctx); err != nil {
		return nil, err
	}
	answer := &pb.ListLicensesResponse{}
	for _, license := range s.cluster.View().Licenses() {
		answer.Licenses = append(answer.Licenses, &pb.LicenseUse{Name: license.Name, Total: license.Total, Used: license.Used})
	}
	return answer, nil
}

// maxUsesPerMessage bounds one message of the list of limits: a record has
// three numbers for each TRES.
const maxUsesPerMessage = 100

// ListLimits streams limits and their use, as they were at one moment, as far
// as private_data lets the caller see them.
func (s *Controller) ListLimits(request *pb.ListLimitsRequest, stream pb.Controller_ListLimitsServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOfUsers(from, view)
	uses := view.LimitUses(time.Now().UnixMilli())
	out := &limitSender{stream: stream, message: &pb.ListLimitsResponse{Cluster: view.Policy().ClusterName, Tres: uses.TRES(), Enforced: uses.Enforced()}}
	wanted := func(kind pb.LimitRecord) bool {
		return len(request.GetKinds()) == 0 || slices.Contains(request.GetKinds(), kind)
	}
	users, accounts, qos := setOf(request.GetUsers()), setOf(request.GetAccounts()), setOf(request.GetQos())
	if wanted(pb.LimitRecord_LIMIT_RECORD_USERS) {
		for user := range view.Users() {
			if may.seesUser(user.Name) && (len(users) == 0 || users[user.Name]) {
				out.message.Users = append(out.message.Users, state.UserMessage(user))
				out.added()
			}
		}
	}
	if wanted(pb.LimitRecord_LIMIT_RECORD_ASSOCIATIONS) {
		for depth, association := range view.AccountTree() {
			if may.seesAssociation(association) && may.seesUsage(association.Account, association.User) && (len(users) == 0 || users[association.User]) && (len(accounts) == 0 || accounts[association.Account]) {
				out.message.Associations = append(out.message.Associations, uses.Association(association, depth))
				out.added()
			}
		}
	}
	if wanted(pb.LimitRecord_LIMIT_RECORD_QOS) {
		for record := range view.AllQOS() {
			if len(qos) == 0 || qos[record.Name] {
				out.message.Qos = append(out.message.Qos, may.within(uses.QOS(record)))
				out.added()
			}
		}
	}
	return out.end()
}

// limitSender cuts the answer into messages and keeps the first error.
type limitSender struct {
	stream  pb.Controller_ListLimitsServer
	message *pb.ListLimitsResponse
	records int
	err     error
}

func (o *limitSender) added() {
	if o.records++; o.records >= maxUsesPerMessage {
		o.send()
	}
}

func (o *limitSender) send() {
	if o.err == nil {
		o.err = o.stream.Send(o.message)
	}
	o.message, o.records = &pb.ListLimitsResponse{}, 0
}

func (o *limitSender) end() error {
	o.send()
	return o.err
}
