package noded

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
)

// poweredGPUs are GPUs that take bounds on their power.
type poweredGPUs struct {
	gpu.Source
	now  map[string]gpu.Milliwatts
	fail error
}

func (g *poweredGPUs) PowerBound(id string) (now, least gpu.Milliwatts, err error) {
	return g.now[id], 100_000, g.fail
}

func (g *poweredGPUs) SetPowerBound(id string, bound gpu.Milliwatts) error {
	g.now[id] = bound
	return g.fail
}

// TestGuestPower: GPUs draw less while guests have them, and then what they drew before,
// whatever happens in between.
func TestGuestPower(t *testing.T) {
	type watts = map[string]gpu.Milliwatts
	const kill, fail, work = "kill", "fail", "work"
	for name, steps := range map[string][]struct {
		wanted watts  // of guests' GPUs
		by     watts  // what somebody else has set before
		event  string // before
		now    watts
	}{
		"a guest comes and goes": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{now: watts{"a": 400_000, "b": 300_000}},
		},
		"the bound changes": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{wanted: watts{"a": 250_000, "b": 250_000}, now: watts{"a": 250_000, "b": 250_000}},
			{wanted: watts{"a": 900_000, "b": 250_000}, now: watts{"a": 400_000, "b": 250_000}},
			{now: watts{"a": 400_000, "b": 300_000}},
		},
		"less than it takes": {{wanted: watts{"a": 1000}, now: watts{"a": 100_000, "b": 300_000}}, {now: watts{"a": 400_000, "b": 300_000}}},
		"more than it draws": {{wanted: watts{"b": 350_000}, now: watts{"a": 400_000, "b": 300_000}}, {now: watts{"a": 400_000, "b": 300_000}}},
		"the daemon is killed, and the guest goes meanwhile": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{event: kill, now: watts{"a": 400_000, "b": 300_000}},
		},
		"the daemon is killed, and the guest stays": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{event: kill, wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{now: watts{"a": 400_000, "b": 300_000}},
		},
		"somebody sets another bound, which stays": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{by: watts{"a": 350_000}, wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{now: watts{"a": 350_000, "b": 300_000}},
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{by: watts{"a": 150_000}, now: watts{"a": 150_000, "b": 300_000}},
		},
		"the driver fails for a while": {
			{wanted: watts{"a": 200_000}, now: watts{"a": 200_000, "b": 300_000}},
			{event: fail, now: watts{"a": 200_000, "b": 300_000}},
			{event: work, now: watts{"a": 400_000, "b": 300_000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			gpus := &poweredGPUs{now: watts{"a": 400_000, "b": 300_000}}
			g := readGuestPower(gpus, directory, slog.New(slog.DiscardHandler))
			for i, step := range steps {
				maps.Copy(gpus.now, step.by)
				switch step.event {
				case kill:
					g = readGuestPower(gpus, directory, slog.New(slog.DiscardHandler))
				case fail:
					gpus.fail = errors.New("the driver is busy")
				case work:
					gpus.fail = nil
				}
				if err := g.keep(step.wanted); (err != nil) != (gpus.fail != nil) {
					t.Fatalf("step %d: %v", i, err)
				}
				if !maps.Equal(gpus.now, step.now) {
					t.Fatalf("step %d: they draw %v at most, not %v", i, gpus.now, step.now)
				}
			}
		})
	}
}

// TestGuestPowerUnwritten: what cannot be undone after a crash is not done.
func TestGuestPowerUnwritten(t *testing.T) {
	gpus := &poweredGPUs{now: map[string]gpu.Milliwatts{"a": 400_000}}
	directory := t.TempDir()
	g := readGuestPower(gpus, directory, slog.New(slog.DiscardHandler))
	if err := os.Mkdir(filepath.Join(directory, powerBoundsFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := g.keep(map[string]gpu.Milliwatts{"a": 200_000}); err == nil || gpus.now["a"] != 400_000 {
		t.Errorf("%v, %v", err, gpus.now)
	}
}
