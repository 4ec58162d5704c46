package shim

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestNotSavable(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*part)
		want   string
	}{
		"none":    {func(p *part) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "none"} }, "--checkpoint=none"},
		"app":     {func(p *part) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "app"} }, "saves itself"},
		"no criu": {func(p *part) { p.settings.Checkpoint = Checkpoint{WhyNot: "install it"} }, "install it"},
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
