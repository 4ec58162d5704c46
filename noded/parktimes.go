package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// parkTimes keeps what the node has measured of parking jobs, on its disk: from it the node
// states how long that takes at most.
type parkTimes struct {
	path string
	mu   sync.Mutex
	all  registry.ParkTimes
}

// parkTimesFile is its name in the node's state directory, and maxParkTimes bounds it.
const (
	parkTimesFile = "park-times.json"
	maxParkTimes  = 1 << 20
)

// readParkTimes reads what was measured before. What cannot be read is measured again.
func readParkTimes(stateDir string, log *slog.Logger) *parkTimes {
	t := &parkTimes{path: filepath.Join(stateDir, parkTimesFile)}
	info, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return t
	}
	var text []byte
	if err == nil && info.Size() > maxParkTimes {
		err = fmt.Errorf("it has %d bytes, which is more than it ever has", info.Size())
	}
	if err == nil {
		text, err = os.ReadFile(t.path)
	}
	if err == nil {
		err = json.Unmarshal(text, &t.all)
	}
	if err == nil {
		err = t.all.Check()
	}
	if err != nil {
		log.Warn("what was measured of parking jobs cannot be read, and is measured again", "file", t.path, "error", err)
		t.all = registry.ParkTimes{}
	}
	return t
}

// add notes how long a park took.
func (t *parkTimes) add(measured *registry.ParkMeasured) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Add(measured.Size, measured.Took)
	text, err := json.Marshal(t.all)
	if err != nil {
		return err
	}
	next := t.path + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, t.path)
}

// bounds are how long parking takes at most: of a job without GPUs, and where the driver
// can copy what is on them with one GPU up to all of a model.
func (t *parkTimes) bounds(devices []*pb.Device, cuda bool) []*pb.ParkBound {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	told := []*pb.ParkBound{t.bound("", 0, 0)}
	if !cuda {
		return told
	}
	count, largest := map[string]uint32{}, map[string]uint64{}
	for _, d := range devices {
		largest[d.Model] = max(largest[d.Model], d.MemoryBytes)
	}
	for _, d := range devices {
		if d.ParentId == "" && largest[d.Model] > 0 {
			count[d.Model]++
			told = append(told, t.bound(d.Model, count[d.Model], largest[d.Model]))
		}
	}
	return told
}

func (t *parkTimes) bound(model string, devices uint32, each uint64) *pb.ParkBound {
	bound, measured := t.all.Bound(registry.ParkSize{Model: model, GPUBytes: uint64(devices) * each})
	return &pb.ParkBound{Model: model, Devices: devices, BoundMs: uint32(registry.Told(bound).Milliseconds()), Measured: roughly(measured)}
}

// roughly is the highest power of ten up to a number: what is told seldom changes.
func roughly(n int) uint32 {
	power := uint32(1)
	for n >= 10 && power < 1e6 {
		n, power = n/10, power*10
	}
	return min(power, uint32(max(n, 0))*power)
}
