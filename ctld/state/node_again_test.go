package state

import (
	"reflect"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// registersAt is the registration of a node with two GPUs, sent at a time of its clock.
func registersAt(ns int64, change func(*pb.Register)) RegisterNode {
	message := &pb.Register{Node: "n1", SentBoottimeNs: ns, Inventory: &pb.Inventory{
		Cpus: 8, MemoryBytes: 1 << 34, BootId: "b", Features: []string{"z", "a"},
		Devices: []*pb.Device{{Id: "g1", Index: 1, Model: "a100"}, {Id: "g0", Model: "a100"}},
	}}
	if change != nil {
		change(message)
	}
	return RegisterFromMessage(message)
}

// TestRegisterAgain: a node that registers as it is known need not say again what it has,
// and ends up the same; one that has changed, or booted, says all.
func TestRegisterAgain(t *testing.T) {
	s, whole := New(), New()
	if first := registersAt(1, nil); !reflect.DeepEqual(s.View().AbridgeRegistration(first), first) {
		t.Error("the first registration is abridged")
	}
	for _, each := range []*State{s, whole} {
		applyCommand(t, each, registersAt(1, nil), RequestID{}, 1)
	}
	again := s.View().AbridgeRegistration(registersAt(2, nil))
	if again.AsBootNS != 1 || !reflect.DeepEqual(again.Inventory, Inventory{}) {
		t.Fatalf("not abridged: %+v", again)
	}
	if result := applyCommand(t, s, again, RequestID{}, 2); result.Refused != nil || !result.AsBefore {
		t.Errorf("registered again: %v, as before: %v", result.Refused, result.AsBefore)
	}
	applyCommand(t, whole, registersAt(2, nil), RequestID{}, 2)
	if got, _ := s.View().Node("n1"); true {
		if want, _ := whole.View().Node("n1"); !reflect.DeepEqual(got, want) {
			t.Errorf("abridged %+v, whole %+v", got, want)
		}
	}
	for name, change := range map[string]func(*pb.Register){
		"a broken GPU": func(r *pb.Register) { r.Inventory.Devices[0].Health = pb.DeviceHealth_DEVICE_HEALTH_FAILED },
		"a boot":       func(r *pb.Register) { r.Inventory.BootId = "c" },
		"less memory":  func(r *pb.Register) { r.Inventory.MemoryBytes-- },
	} {
		if c := registersAt(3, change); !reflect.DeepEqual(s.View().AbridgeRegistration(c), c) {
			t.Errorf("%s: abridged", name)
		}
	}
}

// TestRegisterAgainTooLate: an abridged registration means the inventory of the one before
// it. It is refused when another one came in between, and when there is none.
func TestRegisterAgainTooLate(t *testing.T) {
	s := New()
	applyCommand(t, s, registersAt(1, nil), RequestID{}, 1)
	short := s.View().AbridgeRegistration(registersAt(3, nil))
	changed := registersAt(2, func(r *pb.Register) { r.Inventory.Devices = r.Inventory.Devices[:1] })
	if result := applyCommand(t, s, changed, RequestID{}, 1); result.Refused != nil || result.AsBefore {
		t.Fatalf("%v, as before: %v", result.Refused, result.AsBefore)
	}
	before, _ := s.View().Node("n1")
	if result := applyCommand(t, s, short, RequestID{}, 1); result.Refused == nil || result.Refused.Code != ContentGone {
		t.Errorf("after another registration: %v", result.Refused)
	}
	if after, _ := s.View().Node("n1"); after != before {
		t.Errorf("changed from %+v to %+v", before, after)
	}
	if result := applyCommand(t, New(), short, RequestID{}, 1); result.Refused == nil || result.Refused.Code != ContentGone {
		t.Errorf("of a node that nobody knows: %v", result.Refused)
	}
	if result := applyCommand(t, s, registersAt(3, nil), RequestID{}, 1); result.Refused != nil || result.AsBefore {
		t.Errorf("whole: %v, as before: %v", result.Refused, result.AsBefore)
	}
}

// TestRegisterAgainAfterSilence: a node that takes jobs again is not as before.
func TestRegisterAgainAfterSilence(t *testing.T) {
	s := New()
	applyCommand(t, s, registersAt(1, nil), RequestID{}, 1)
	applyCommand(t, s, NodesLost{Names: []string{"n1"}}, RequestID{}, 1)
	result := applyCommand(t, s, s.View().AbridgeRegistration(registersAt(2, nil)), RequestID{}, 1)
	if result.Refused != nil || result.AsBefore {
		t.Errorf("%v, as before: %v", result.Refused, result.AsBefore)
	}
}
