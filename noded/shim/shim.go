// Package shim supervises one part of a job, one node's share of one run,
// from outside its container, in a process of its own that outlives the node
// daemon. DESIGN.md is its contract.
//
// The daemon's side: Launch starts a supervisor, List finds them again, and a
// Handle asks, watches, cleans up after and forgets one. The supervisor's side
// is Main. Between them are the part's directory and pb.Shim on a socket in
// it.
//
// What it promises: a job runs at most once for each (job, epoch), however
// often Launch is called; the result is on disk only when no process, control
// group or mount of the part is left; if the supervisor is killed, its job
// dies with it; and nothing outside the part's directory is ever deleted.
//
// What it needs: root, a program that calls Main when it is started as
// "PROGRAM shim DIR", and cgroups that cgroup.Detect knows.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

var (
	// ErrNoResult is returned by Result while the part has not ended.
	ErrNoResult = errors.New("the part has not ended")
	// ErrAlive is returned when something is asked for that needs the
	// supervisor to be gone.
	ErrAlive = errors.New("the part's supervisor still runs")
	// ErrLeftOver is returned, wrapped, when something could not be removed.
	ErrLeftOver = errors.New("could not be removed")
	// ErrBadPart is returned, wrapped, for a directory that holds no part.
	ErrBadPart = errors.New("not a part of a job")
)

// Settings are what a supervisor needs beside its order. They are kept as
// JSON in the part's directory.
type Settings struct {
	StateDir     string       `json:"state_dir"`
	Node         string       `json:"node"`
	InitPath     string       `json:"init_path"`     // of ginit
	CgroupParent string       `json:"cgroup_parent"` // "/gleaner/n1"
	BootID       string       `json:"boot_id"`       // of the node when the part was started; Launch fills it in
	Controllers  []string     `json:"controllers"`
	TLSDir       string       `json:"tls_dir"`
	RealCPUs     []int        `json:"real_cpus"` // ids for this part; empty = no pinning
	DeviceFiles  []DeviceFile `json:"device_files"`
	MaxProcesses int64        `json:"max_processes"` // and threads, of the part; 0 = as many as the kernel can bear
	Binds        []string     `json:"binds"`         // host directories bound at the same path
	HideDirs     []string     `json:"hide_dirs"`     // host directories that look empty inside
}

// DeviceFile is a device of this part, or one that its programs need beside
// them.
type DeviceFile struct {
	Path          string `json:"path"` // on the host
	ContainerPath string `json:"container_path"`
	Type          rune   `json:"type"` // 'c' or 'b'
	Major         int64  `json:"major"`
	Minor         int64  `json:"minor"`
	Access        string `json:"access"` // "rw"
}

func (s *Settings) devices() []container.Device {
	devices := make([]container.Device, len(s.DeviceFiles))
	for i, d := range s.DeviceFiles {
		devices[i] = container.Device(d)
	}
	return devices
}

// directory is a part's directory.
type directory string

// Names in a part's directory. What the job can reach lies in run only.
const (
	orderFile    = "order.pb"
	settingsFile = "settings.json"
	lockFile     = "shim.lock"
	socketFile   = "shim.sock"
	logFile      = "shim.log"
	resultFile   = "result.pb"
	runDir       = "run"
	jobSocket    = "job.sock" // in run
)

const jobsDir = "jobs"

var partName = regexp.MustCompile(`^([0-9]{1,10})\.([0-9]{1,10})$`)

func partID(id *pb.PartId) string {
	return strconv.FormatUint(uint64(id.GetJob()), 10) + "." + strconv.FormatUint(uint64(id.GetEpoch()), 10)
}

func partDirectory(stateDir string, id *pb.PartId) directory {
	return directory(filepath.Join(stateDir, jobsDir, partID(id)))
}

func (d directory) path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

func (d directory) id() string { return filepath.Base(string(d)) }

func (d directory) order() (*pb.StartPart, error) {
	order := new(pb.StartPart)
	if err := d.readMessage(orderFile, order); err != nil {
		return nil, err
	}
	if partID(order.Part) != d.id() {
		return nil, fmt.Errorf("%s: %w: its order is for %s", d, ErrBadPart, partID(order.Part))
	}
	return order, nil
}

func (d directory) settings() (*Settings, error) {
	data, err := os.ReadFile(d.path(settingsFile))
	if err != nil {
		return nil, fmt.Errorf("read settings of a part: %w", err)
	}
	settings := new(Settings)
	if err := json.Unmarshal(data, settings); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path(settingsFile), err)
	}
	return settings, nil
}

func (d directory) result() (*pb.PartEnded, error) {
	result := new(pb.PartEnded)
	err := d.readMessage(resultFile, result)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNoResult
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

func (d directory) readMessage(name string, m proto.Message) error {
	data, err := os.ReadFile(d.path(name))
	if err != nil {
		return fmt.Errorf("read a part: %w", err)
	}
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("%s: %w", d.path(name), err)
	}
	return nil
}

// writeMessage puts a message in place in one step, and on the disk.
func (d directory) writeMessage(name string, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := d.writeFile(name, data); err != nil {
		return err
	}
	if err := syncDir(string(d)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeFile puts a file in place in one step, with its contents on the disk.
func (d directory) writeFile(name string, data []byte) error {
	temporary := d.path(name + ".new")
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temporary, d.path(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
