package pid1

import (
	"slices"
	"testing"
)

func TestOverlay(t *testing.T) {
	got := Mirror(Overlay([]string{"A=1", "B=2", "=x", "bad", "A=3"}, []string{"B=", "SLURM_X=1"}, []string{"SLURM_X=2"}))
	want := []string{"A=3", "B=", "SLURM_X=2", "GLEANER_X=2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
