package prototest

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestFillReachesEveryField(t *testing.T) {
	order := &pb.StartAlloc{}
	Fill(order, "x", 7)
	if order.Spec.GetGpus()[1].GetModel() != "x" || order.GetAlloc().GetEpoch() != 7 || string(order.Spec.Script) != "x" || order.Allocation[0].Devices[1].Index != 7 {
		t.Errorf("%v", order)
	}
}

func TestSplitUndoesJoin(t *testing.T) {
	messages := Hostile[pb.Register]()
	kinds := bytes.Repeat([]byte{3}, len(messages))
	gotKinds, got := Split(Join(kinds, messages), 100)
	if !bytes.Equal(kinds, gotKinds) || len(got) != len(messages) {
		t.Fatalf("%d of %d messages", len(got), len(messages))
	}
	for i := range got {
		if !bytes.Equal(got[i], messages[i]) || proto.Unmarshal(got[i], &pb.Register{}) != nil {
			t.Errorf("message %d is %q", i, got[i])
		}
	}
	if _, cut := Split([]byte{1, 200, 1, 'x'}, 9); len(cut) != 1 {
		t.Errorf("%q", cut)
	}
}

func TestPlain(t *testing.T) {
	if err := Plain("Grüße, 世界\n"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{Nasty[0], Nasty[1], Nasty[3], "\xff", "\r"} {
		if Plain(text) == nil {
			t.Errorf("%q is taken for plain", text)
		}
	}
}

func TestSpoiledSpoilsOneFieldEach(t *testing.T) {
	sound := &pb.CancelRequest{RequestId: "r", Filter: &pb.JobFilter{Users: []string{"ada"}, Ids: []*pb.JobId{{Job: 1}}}, Signal: 9}
	before := proto.Clone(sound)
	all := Spoiled(sound)
	if !proto.Equal(before, sound) || len(all) < 15 {
		t.Fatalf("%d copies; %v", len(all), sound)
	}
	for _, data := range all {
		got := &pb.CancelRequest{}
		if err := proto.Unmarshal(data, got); err != nil || proto.Equal(got, sound) {
			t.Errorf("%v, %v", err, got)
		}
	}
}
