package api

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	addRecord     = pb.ChangeAction_CHANGE_ACTION_ADD
	modifyRecord  = pb.ChangeAction_CHANGE_ACTION_MODIFY
	deleteRecord  = pb.ChangeAction_CHANGE_ACTION_DELETE
	accountRecord = pb.AccountRecord_ACCOUNT_RECORD_ACCOUNT
	userRecord    = pb.AccountRecord_ACCOUNT_RECORD_USER
	memberRecord  = pb.AccountRecord_ACCOUNT_RECORD_ASSOCIATION
	qosRecord     = pb.AccountRecord_ACCOUNT_RECORD_QOS
)

// labChanges make two labs: ada coordinates physics, oper is an operator, boss
// an administrator, carl has nothing to say in chemistry.
func labChanges() *pb.ChangeAccountsRequest {
	operator, administrator := pb.AdminLevel_ADMIN_LEVEL_OPERATOR, pb.AdminLevel_ADMIN_LEVEL_ADMINISTRATOR
	return &pb.ChangeAccountsRequest{Changes: []*pb.AccountChange{
		{Action: addRecord, Record: accountRecord, Account: "physics", Shares: proto.Uint32(3)},
		{Action: addRecord, Record: accountRecord, Account: "optics", Parent: proto.String("physics")},
		{Action: addRecord, Record: accountRecord, Account: "chemistry", Limits: []*pb.LimitChange{{Kind: pb.LimitKind_LIMIT_KIND_GROUP_TRES, Tres: "cpu", Value: 4}}},
		{Action: addRecord, Record: qosRecord, Qos: "high", Preempts: &pb.ListEdit{Operation: pb.ListEdit_OPERATION_SET, Names: []string{"normal"}}},
		{Action: addRecord, Record: memberRecord, Account: "physics", User: "ada"},
		{Action: addRecord, Record: memberRecord, Account: "chemistry", User: "carl"},
		{Action: addRecord, Record: userRecord, User: "oper", Level: &operator},
		{Action: addRecord, Record: userRecord, User: "boss", Level: &administrator},
		{Action: modifyRecord, Record: accountRecord, Account: "physics", Coordinators: &pb.ListEdit{Operation: pb.ListEdit_OPERATION_ADD, Names: []string{"ada"}}},
	}}
}

// TestMayChange: who may change what.
func TestMayChange(t *testing.T) {
	s := state.New()
	command, err := state.ChangesFromMessage(labChanges().Changes)
	if err != nil {
		t.Fatal(err)
	}
	view, refused := s.View().TryAccounts(command)
	if refused != nil {
		t.Fatal(refused)
	}
	server := &Controller{core: &core{cluster: viewOf{view: view}}}
	qos := &pb.ListEdit{Operation: pb.ListEdit_OPERATION_ADD, Names: []string{"high"}}
	admin, none := pb.AdminLevel_ADMIN_LEVEL_ADMINISTRATOR, pb.AdminLevel_ADMIN_LEVEL_NONE
	for _, c := range []struct {
		what   string
		change []*pb.AccountChange
		may    string // of "root boss oper ada carl job"
	}{
		{"add a user to physics", single(&pb.AccountChange{Action: addRecord, Record: memberRecord, Account: "physics", User: "eve"}), "root boss oper ada"},
		{"bound a user of optics", single(&pb.AccountChange{Action: modifyRecord, Record: memberRecord, Account: "optics", User: "eve"}), "root boss oper ada"},
		{"take a user out of chemistry", single(&pb.AccountChange{Action: deleteRecord, Record: memberRecord, Account: "chemistry", User: "carl"}), "root boss oper"},
		{"change the share of physics", single(&pb.AccountChange{Action: modifyRecord, Record: accountRecord, Account: "physics", Shares: proto.Uint32(9)}), "root boss oper"},
		{"change the share of optics", single(&pb.AccountChange{Action: modifyRecord, Record: accountRecord, Account: "optics", Shares: proto.Uint32(9)}), "root boss oper ada"},
		{"move optics to the root", single(&pb.AccountChange{Action: modifyRecord, Record: accountRecord, Account: "optics", Parent: proto.String("root")}), "root boss oper"},
		{"delete optics", single(&pb.AccountChange{Action: deleteRecord, Record: accountRecord, Account: "optics"}), "root boss oper ada"},
		{"add an account below optics, and a user", []*pb.AccountChange{
			{Action: addRecord, Record: accountRecord, Account: "lasers", Parent: proto.String("optics")},
			{Action: addRecord, Record: memberRecord, Account: "lasers", User: "eve"},
		}, "root boss oper ada"},
		{"add an account below the root, and a user", []*pb.AccountChange{
			{Action: addRecord, Record: accountRecord, Account: "lasers"},
			{Action: addRecord, Record: memberRecord, Account: "lasers", User: "eve"},
		}, "root boss oper"},
		{"two accounts below each other", []*pb.AccountChange{
			{Action: addRecord, Record: accountRecord, Account: "x", Parent: proto.String("y")},
			{Action: addRecord, Record: accountRecord, Account: "y", Parent: proto.String("x"), AllowedQos: qos},
		}, "root boss oper"},
		{"give what physics has not", single(&pb.AccountChange{Action: modifyRecord, Record: memberRecord, Account: "physics", User: "ada", AllowedQos: qos}), "root boss oper"},
		{"forget usage", single(&pb.AccountChange{Action: modifyRecord, Record: memberRecord, Account: "physics", User: "ada", ResetUsage: true}), "root boss oper"},
		{"make a QOS", single(&pb.AccountChange{Action: addRecord, Record: qosRecord, Qos: "x"}), "root boss oper"},
		{"make an administrator", single(&pb.AccountChange{Action: modifyRecord, Record: userRecord, User: "oper", Level: &admin}), "root boss"},
		{"unmake an administrator", single(&pb.AccountChange{Action: modifyRecord, Record: userRecord, User: "boss", Level: &none}), "root boss"},
		{"delete an administrator", single(&pb.AccountChange{Action: deleteRecord, Record: userRecord, User: "boss"}), "root boss"},
		{"carl's default account", single(&pb.AccountChange{Action: modifyRecord, Record: userRecord, User: "carl", DefaultAccount: proto.String("chemistry")}), "root boss oper carl"},
		{"carl's level", single(&pb.AccountChange{Action: modifyRecord, Record: userRecord, User: "carl", Level: &none}), "root boss oper"},
	} {
		changes, err := state.ChangesFromMessage(c.change)
		if err != nil {
			t.Fatal(err)
		}
		callers := map[string]*caller{
			"root": {isUser: true, uid: 0}, "job": {isUser: true, uid: 0, user: "boss", owner: &state.Owner{User: "boss"}},
		}
		for i, name := range []string{"boss", "oper", "ada", "carl"} {
			callers[name] = &caller{isUser: true, uid: uint32(2000 + i), user: name}
		}
		for name, from := range callers {
			err := server.mayChange(from, view, &changes)
			if may := strings.Contains(" "+c.may+" ", " "+name+" "); may != (err == nil) {
				t.Errorf("%s, %s: %v, and should be allowed: %t", name, c.what, err, may)
			}
			if err != nil && (status.Code(err) != codes.PermissionDenied || !strings.HasPrefix(status.Convert(err).Message(), "Access/permission denied: ")) {
				t.Errorf("%s, %s: refused with %v", name, c.what, err)
			}
		}
	}
}

func single(change *pb.AccountChange) []*pb.AccountChange { return []*pb.AccountChange{change} }

// viewOf is a cluster that can only be looked at.
type viewOf struct {
	Cluster
	view *state.View
}

func (v viewOf) View() *state.View { return v.view }

func (v viewOf) Confirm(context.Context) error { return nil }
