package api

import (
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxRecordsPerMessage bounds one message of the list of accounts.
const maxRecordsPerMessage = 500

// ListAccounts streams accounts, users, associations and QOS, as they were at
// one moment, as far as private_data lets the caller see them.
func (s *Controller) ListAccounts(request *pb.ListAccountsRequest, stream pb.Controller_ListAccountsServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOfUsers(from, view)
	out := &accountSender{stream: stream, message: &pb.ListAccountsResponse{Cluster: view.Policy().ClusterName, Tres: view.TRESNames()}}
	for qos := range view.AllQOS() {
		out.message.Qos = append(out.message.Qos, state.QOSMessage(qos))
		out.added()
	}
	for account := range view.Accounts() {
		if !may.seesAccount(account.Name) {
			continue
		}
		out.message.Accounts = append(out.message.Accounts, may.account(state.AccountMessage(account)))
		out.added()
	}
	for user := range view.Users() {
		if !may.seesUser(user.Name) {
			continue
		}
		out.message.Users = append(out.message.Users, state.UserMessage(user))
		out.added()
	}
	accounts, users := setOf(request.GetAccounts()), setOf(request.GetUsers())
	for depth, association := range view.AccountTree() {
		if !may.seesAssociation(association) {
			continue
		}
		if len(accounts) > 0 && !accounts[association.Account] || len(users) > 0 && !users[association.User] {
			continue
		}
		out.message.Associations = append(out.message.Associations, view.AssociationMessage(association, depth))
		if out.added(); out.err != nil {
			break
		}
	}
	return out.end()
}

// accountSender cuts the answer into messages and keeps the first error.
type accountSender struct {
	stream  pb.Controller_ListAccountsServer
	message *pb.ListAccountsResponse
	records int
	err     error
}

func (o *accountSender) added() {
	if o.records++; o.records >= maxRecordsPerMessage {
		o.send()
	}
}

func (o *accountSender) send() {
	if o.err == nil {
		o.err = o.stream.Send(o.message)
	}
	o.message, o.records = &pb.ListAccountsResponse{}, 0
}

func (o *accountSender) end() error {
	o.send()
	return o.err
}
