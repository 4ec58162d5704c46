package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
)

// This file bounds what the GPUs of guests draw, where the owner of the node wants that. A
// bound is of a GPU and not of a job: it is set while only guests have the GPU, and then
// what was in force before is put back. That is written down first, so that it is put back
// also when the daemon was killed meanwhile. Whoever sets another bound on a GPU is
// heeded: it is put back then, and nothing is where it was set last.

// powerBoundsFile is the name of what was in force before in the state directory, and
// maxPowerBounds bounds it.
const (
	powerBoundsFile = "power-bounds.json"
	maxPowerBounds  = 1 << 20
)

// guestPower is the means to bound it.
type guestPower struct {
	gpus gpu.PowerBounds
	path string

	mu    sync.Mutex
	bound map[string]powerBound // by GPU
}

// powerBound is what a GPU drew at most before it was given to guests, and what was set.
type powerBound struct {
	Before gpu.Milliwatts `json:"before_mw"`
	Set    gpu.Milliwatts `json:"set_mw"`
}

// readGuestPower reads what a daemon before this one left bounded. nil = the source of the
// GPUs cannot bound their power.
func readGuestPower(source gpu.Source, stateDir string, log *slog.Logger) *guestPower {
	gpus, can := source.(gpu.PowerBounds)
	if !can {
		return nil
	}
	g := &guestPower{gpus: gpus, path: filepath.Join(stateDir, powerBoundsFile), bound: map[string]powerBound{}}
	info, err := os.Stat(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return g
	}
	if err == nil && info.Size() > maxPowerBounds {
		err = fmt.Errorf("it has %d bytes, which is more than it ever has", info.Size())
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(g.path)
	}
	if err == nil {
		err = json.Unmarshal(text, &g.bound)
	}
	if err != nil {
		log.Error("what GPUs drew before guests had them cannot be read, and is not put back: see nvidia-smi -q -d POWER", "file", g.path, "error", err)
	}
	if g.bound == nil {
		g.bound = map[string]powerBound{}
	}
	return g
}

// least is the least bound that all of some GPUs take, in watts, or why there is none.
func (g *guestPower) least(devices []gpu.Device) (watts uint32, whyNot string) {
	if len(devices) == 0 {
		return 0, ""
	}
	if g == nil {
		return 0, "its GPUs are named in its configuration, and no driver bounds them"
	}
	for _, d := range devices {
		if d.Health != gpu.OK {
			continue
		}
		_, least, err := g.gpus.PowerBound(d.ID)
		if errors.Is(err, gpu.ErrNoPowerBound) {
			return 0, err.Error()
		}
		watts = max(watts, uint32((least+999)/1000))
	}
	return watts, ""
}

// keep brings the bounds to what is wanted, by GPU. What fails is tried at the next call.
func (g *guestPower) keep(wanted map[string]gpu.Milliwatts) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed []error
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		failed = append(failed, g.lower(id, wanted[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(g.bound)) {
		if _, still := wanted[id]; !still {
			failed = append(failed, g.putBack(id))
		}
	}
	return errors.Join(failed...)
}

// lower bounds a GPU, unless it draws less already.
func (g *guestPower) lower(id string, wanted gpu.Milliwatts) error {
	now, least, err := g.gpus.PowerBound(id)
	if err != nil {
		return err
	}
	b, ours := g.bound[id]
	if !ours || now != b.Set { // somebody else set it
		b.Before = now
	}
	b.Set = min(max(wanted, least), b.Before)
	if b.Set == now && (ours || now == b.Before) {
		return nil
	}
	if err := g.write(id, &b); err != nil {
		return err
	}
	return g.gpus.SetPowerBound(id, b.Set)
}

// putBack has a GPU draw what it drew before.
func (g *guestPower) putBack(id string) error {
	now, _, err := g.gpus.PowerBound(id)
	if err == nil && now == g.bound[id].Set && now != g.bound[id].Before {
		err = g.gpus.SetPowerBound(id, g.bound[id].Before)
	}
	if err != nil {
		return err
	}
	return g.write(id, nil)
}

// write notes what is bounded, and on the disk first; nil = the GPU is not any more.
func (g *guestPower) write(id string, b *powerBound) error {
	bound := maps.Clone(g.bound)
	delete(bound, id)
	if b != nil {
		bound[id] = *b
	}
	text, err := json.Marshal(bound)
	if err != nil {
		return err
	}
	next := g.path + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, g.path); err != nil {
		return err
	}
	g.bound = bound
	return nil
}
