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
	"errors"
	"path/filepath"
	"regexp"
	"strconv"

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
	// ErrBadPart is returned, wrapped, for an order that no part can be made of.
	ErrBadPart = errors.New("not a part of a job")
	// ErrDamaged is returned, wrapped, for a part's file that is not what was
	// written.
	ErrDamaged = errors.New("is damaged")
	// ErrForeign is returned, wrapped, for what lies where a part's directory
	// belongs and is none that Launch made.
	ErrForeign = errors.New("is no part's directory of this node's")
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
	LogFormat    string       `json:"log_format"`    // of package logs
	Checkpoint   Checkpoint   `json:"checkpoint"`
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
	resultDraft  = "result.pb.new"
	savedFile    = "saved.pb"
	savedDraft   = "saved.pb.new"
	markFile     = "saving.json"
	runDir       = "run"
	jobSocket    = "job.sock" // in run
)

const jobsDir = "jobs"

// Prefixes of directories that are no part yet, or no more.
const (
	newPrefix  = ".new-"
	gonePrefix = ".gone-"
)

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
