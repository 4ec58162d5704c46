package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// kindsOf are the kinds of frame in what a state persists.
func kindsOf(t *testing.T, s *State) []frameKind {
	t.Helper()
	kinds, _ := frames(t, persisted(t, s))
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// TestUntouchedAccountsAreNotWritten: a cluster without accounts persists what
// older programs can read, also when accounts were made and taken away but for
// their numbers.
func TestUntouchedAccountsAreNotWritten(t *testing.T) {
	newer := []frameKind{frameQOS, frameAccount, frameUser, frameAssociation}
	s := New()
	applyCommand(t, s, SubmitJob{Owner: Owner{UID: 1, User: "u"}}, RequestID{}, 1)
	for _, kind := range kindsOf(t, s) {
		if slices.Contains(newer, kind) {
			t.Errorf("a %s is written that nobody made", frameNames[kind])
		}
	}
	change := func(changes ...AccountChange) {
		t.Helper()
		if result := applyCommand(t, s, ChangeAccounts{Changes: changes}, RequestID{}, 2); result.Refused != nil || !result.AccountsChanged {
			t.Fatalf("%+v", result)
		}
	}
	change(
		AccountChange{Action: AddRecord, Record: AccountRecord, Account: "a"},
		AccountChange{Action: AddRecord, Record: AssociationRecord, Account: "a", User: "u"},
		AccountChange{Action: ModifyRecord, Record: QOSRecord, QOS: NormalQOS, Priority: ptr(uint32(5))},
		AccountChange{Action: ModifyRecord, Record: AccountRecord, Account: policy.RootAccount, Shares: ptr(uint32(5))},
	)
	for _, kind := range newer {
		if !slices.Contains(kindsOf(t, s), kind) {
			t.Errorf("no %s is written", frameNames[kind])
		}
	}
	change(
		AccountChange{Action: DeleteRecord, Record: UserRecord, User: "u"},
		AccountChange{Action: DeleteRecord, Record: AccountRecord, Account: "a"},
		AccountChange{Action: ModifyRecord, Record: QOSRecord, QOS: NormalQOS, Priority: ptr(uint32(0))},
		AccountChange{Action: ModifyRecord, Record: AccountRecord, Account: policy.RootAccount, Shares: ptr(uint32(DefaultShares))},
	)
	for _, kind := range kindsOf(t, s) {
		if slices.Contains(newer, kind) {
			t.Errorf("a %s is written that is as in every cluster", frameNames[kind])
		}
	}
	restored, err := Restore(bytes.NewReader(persisted(t, s)))
	if err != nil || restored.nextAssociation != s.nextAssociation {
		t.Errorf("restored with the next association %d instead of %d: %v", restored.nextAssociation, s.nextAssociation, err)
	}
}

// TestRequeuedAfterItsAssociation: a job that waits again when what it was
// charged to is gone is charged to nobody.
func TestRequeuedAfterItsAssociation(t *testing.T) {
	s := New()
	apply := func(command Command) Result {
		t.Helper()
		result := applyCommand(t, s, command, RequestID{}, 2)
		if result.Refused != nil {
			t.Fatal(result.Refused)
		}
		return result
	}
	apply(ChangeAccounts{Changes: []AccountChange{
		{Action: AddRecord, Record: AccountRecord, Account: "a"}, {Action: AddRecord, Record: AssociationRecord, Account: "a", User: "u"},
	}})
	job := apply(SubmitJob{Owner: Owner{UID: 1, User: "u"}, Spec: Spec{Requeue: true}}).JobID
	if charged := s.View().SchedSnapshot(3).Waiting[0].Association; charged != 2 {
		t.Errorf("charged to %d and not to the user's association", charged)
	}
	apply(CancelJobs{Targets: []Target{{Job: job}}, Privileged: true})
	apply(ChangeAccounts{Changes: []AccountChange{{Action: DeleteRecord, Record: UserRecord, User: "u"}}})
	apply(RequeueJobs{Targets: []Target{{Job: job}}, Privileged: true})
	if charged := s.View().SchedSnapshot(3).Waiting[0].Association; charged != -1 {
		t.Errorf("charged to %d, which is not its association", charged)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func BenchmarkChangeAccounts(b *testing.B) {
	s := New()
	applyCommand(b, s, ChangeAccounts{Changes: []AccountChange{{Action: AddRecord, Record: AccountRecord, Account: "a"}}}, RequestID{}, 1)
	for batch := range 10 {
		var c ChangeAccounts
		for n := range 5_000 {
			c.Changes = append(c.Changes, AccountChange{Action: AddRecord, Record: AssociationRecord, Account: "a", User: userNumber(batch*5_000 + n)})
		}
		if result := applyCommand(b, s, c, RequestID{}, 1); result.Refused != nil {
			b.Fatal(result.Refused)
		}
	}
	modify := ChangeAccounts{Changes: []AccountChange{{Action: ModifyRecord, Record: AssociationRecord, Account: "a", User: userNumber(77), Shares: ptr(uint32(3))}}}
	b.Run("one of 50000", func(b *testing.B) {
		for b.Loop() {
			applyCommand(b, s, modify, RequestID{}, 1)
			s.View()
		}
	})
	b.Run("try one of 50000", func(b *testing.B) {
		view := s.View()
		for b.Loop() {
			if _, refused := view.TryAccounts(modify); refused != nil {
				b.Fatal(refused)
			}
		}
	})
	b.Run("snapshot of 50000", func(b *testing.B) {
		view := s.View()
		for b.Loop() {
			view.SchedSnapshot(1)
		}
	})
}

func userNumber(n int) string { return fmt.Sprintf("user%d", n) }

// TestBelowWhatRuns: a limit below what runs is taken and said, by what kind of
// thing it is, and no other.
func TestBelowWhatRuns(t *testing.T) {
	s := New()
	apply := func(command Command) Result {
		t.Helper()
		result := applyCommand(t, s, command, RequestID{}, 2)
		if result.Refused != nil {
			t.Fatal(result.Refused)
		}
		return result
	}
	apply(ChangeAccounts{Changes: []AccountChange{
		{Action: AddRecord, Record: AccountRecord, Account: "a"}, {Action: AddRecord, Record: AccountRecord, Account: "b"},
		{Action: AddRecord, Record: AccountRecord, Account: "below", Parent: ptr("a")},
		{Action: AddRecord, Record: AssociationRecord, Account: "below", User: "u"},
	}})
	apply(RegisterFromMessage(&pb.Register{Node: "n1", Inventory: &pb.Inventory{
		Cpus: 4, MemoryBytes: 64, Devices: []*pb.Device{{Id: "g", Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK}},
	}}))
	job := apply(SubmitJob{Owner: Owner{UID: 1, User: "u"}, Spec: Spec{CPUsPerTask: 2}}).JobID
	start := apply(PlaceJobs{Starts: []StartOrder{{Job: job, Partition: "main", Allocs: []AllocOrder{
		{Node: "n1", CPUs: []uint32{0, 2}, MemoryBytes: 5, Tasks: 1, Devices: []DeviceOrder{{ID: "g", Shares: 1}}},
	}}}})
	if start.Starts[0].Job == 0 {
		t.Fatal(start.Starts[0].Dropped)
	}
	for _, c := range []struct {
		record RecordKind
		name   string
		limit  LimitChange
		want   string
	}{
		{AccountRecord, "a", LimitChange{Limit: LimitGroupTRES, TRES: "cpu", Value: 1}, "GrpTRES=cpu of account a is below what runs there now (2)"},
		{AccountRecord, "a", LimitChange{Limit: LimitGroupTRES, TRES: "cpu", Value: 2}, ""},
		{AccountRecord, "b", LimitChange{Limit: LimitGroupTRES, TRES: "cpu", Value: 1}, ""},
		{AccountRecord, policy.RootAccount, LimitChange{Limit: LimitGroupTRES, TRES: "mem", Value: 4}, "GrpTRES=mem of account root is below what runs there now (5)"},
		{AccountRecord, "below", LimitChange{Limit: LimitGroupTRES, TRES: "gres/gpu:m"}, "GrpTRES=gres/gpu:m of account below is below what runs there now (1)"},
		{AccountRecord, "below", LimitChange{Limit: LimitGroupTRES, TRES: "gres/gpu:x"}, ""},
		{AccountRecord, "below", LimitChange{Limit: LimitGroupTRES, TRES: "node"}, "(1)"},
		{AccountRecord, "below", LimitChange{Limit: LimitGroupJobs}, "GrpJobs of account below is below what runs there now (1)"},
		{AccountRecord, "below", LimitChange{Limit: LimitGroupJobs, Clear: true}, ""},
		{AssociationRecord, "below", LimitChange{Limit: LimitMaxJobs}, "MaxJobs of user u in account below is below what runs there now (1)"},
		{AssociationRecord, "below", LimitChange{Limit: LimitGroupTRES, TRES: "gres/gpu"}, "(1)"},
		{QOSRecord, NormalQOS, LimitChange{Limit: LimitGroupJobs}, "GrpJobs of QOS normal is below what runs there now (1)"},
	} {
		change := AccountChange{Action: ModifyRecord, Record: c.record, Account: c.name, Limits: []LimitChange{c.limit}}
		switch c.record {
		case AssociationRecord:
			change.User = "u"
		case QOSRecord:
			change.Account, change.QOS = "", c.name
		}
		command := ChangeAccounts{Changes: []AccountChange{change}}
		after, refused := s.View().TryAccounts(command)
		if refused != nil {
			t.Fatal(refused)
		}
		notes := strings.Join(after.BelowWhatRuns(&command), "\n")
		if (c.want == "") != (notes == "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s %+v: %q, and should say %q", c.name, c.limit, notes, c.want)
		}
	}
}
