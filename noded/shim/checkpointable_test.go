package shim

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestNotSavable(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*alloc)
		want   string
	}{
		"none":    {func(p *alloc) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "none"} }, "--checkpoint=none"},
		"app":     {func(p *alloc) { p.order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: "app"} }, "saves itself"},
		"no criu": {func(p *alloc) { p.settings.Checkpoint = bundle.Checkpoint{WhyNot: "install it"} }, "install it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSavedAlloc(t)
			row.change(s.alloc)
			s.core.Checkpointable = s.firstCheckpointable()
			if s.core.Checkpointable.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NO {
				t.Fatalf("grade %v", s.core.Checkpointable)
			}
			s.save(1, freeze)
			if saved := s.told(1); !strings.Contains(saved.Error, row.want) || saved.Image != nil || s.saver.calls > 0 {
				t.Errorf("told %v", saved)
			}
			s.runs()
		})
	}
}
