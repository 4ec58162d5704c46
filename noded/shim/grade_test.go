package shim

import (
	"context"
	"errors"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fakeParker counts what is parked, and looks whether the job stands.
type fakeParker struct {
	s      *savedPart
	parked int
	stood  bool
	err    error
}

func (f *fakeParker) Park(_ context.Context, pids []int) (any, error) {
	frozen, _ := f.s.group.Frozen()
	f.stood = f.stood || frozen
	if f.err != nil || len(pids) == 0 {
		return nil, f.err
	}
	f.parked++
	return f, nil
}

func (f *fakeParker) Unpark(_ context.Context, parked any) error {
	frozen, _ := f.s.group.Frozen()
	f.stood = f.stood || frozen
	if parked != f {
		return errors.New("not what was parked")
	}
	f.parked--
	return nil
}

// TestParked: the memory of GPUs is taken before the job is stopped, and given
// back once it runs on, whatever fails in between.
func TestParked(t *testing.T) {
	for name, change := range map[string]func(*savedPart, *fakeParker){
		"saved": func(*savedPart, *fakeParker) {}, "parking fails": func(_ *savedPart, f *fakeParker) { f.err = errors.New("busy") },
		"the dump fails": func(s *savedPart, _ *fakeParker) { s.saver.err = errors.New("broken") },
		"the store":      func(s *savedPart, _ *fakeParker) { s.images.err = errors.New("full") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSavedPart(t)
			f := &fakeParker{s: s}
			s.parker = f
			change(s, f)
			s.save(1, stand)
			saved := s.told(1)
			if saved.Stands {
				if f.parked != 1 {
					t.Error("nothing is parked")
				}
				s.save(1, goOn)
				s.runs()
				eventually(t, "it is given back", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.hungUp })
				s.stopSaving()
			}
			if f.parked != 0 || f.stood {
				t.Errorf("%d parked, stood %v", f.parked, f.stood)
			}
			s.runs()
		})
	}
}

func TestNotSavable(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*part)
		want   string
	}{
		"none":    {func(p *part) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "none"} }, "--checkpoint=none"},
		"app":     {func(p *part) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "app"} }, "saves itself"},
		"gang":    {func(p *part) { p.order.Allocation = append(p.order.Allocation, &pb.NodeAllocation{Node: "n2"}) }, "talk to each other"},
		"no criu": {func(p *part) { p.settings.Checkpoint = Checkpoint{WhyNot: "install it"} }, "install it"},
		"gpu":     {func(p *part) { p.settings.DeviceFiles = []DeviceFile{{Path: "/dev/nvidia0"}} }, "570"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSavedPart(t)
			row.change(s.part)
			s.saves.grade = s.firstGrade()
			if s.saves.grade.Grade != pb.SaveGrade_SAVE_GRADE_NO {
				t.Fatalf("grade %v", s.saves.grade)
			}
			s.save(1, stand)
			if saved := s.told(1); !strings.Contains(saved.Error, row.want) || saved.Image != nil || s.saver.calls > 0 {
				t.Errorf("told %v", saved)
			}
			s.runs()
		})
	}
}
