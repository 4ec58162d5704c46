// Package bundle is what an allocation has on disk: its directory with the
// order, the settings, the lock, the result and how the newest save ended. Both
// sides use it: the node daemon (package client) and the supervisor (package
// shim).
//
// A directory appears and disappears in one step, so no allocation is ever half
// made or half deleted. A record that differs from what was written is refused with
// ErrDamaged. What the job can write is read without following a link, with a
// bound, and decides only the job's own exit code.
package bundle

import (
	"path/filepath"
	"regexp"
	"strconv"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Dir is an allocation's directory.
type Dir string

// Names in an allocation's directory. The job can reach only what is in run.
const (
	OrderFile    = "order.pb"
	SettingsFile = "settings.json"
	LockFile     = "shim.lock"
	SocketFile   = "shim.sock"
	LogFile      = "shim.log"
	ResultFile   = "result.pb"
	resultDraft  = "result.pb.new"
	savedFile    = "saved.pb"
	savedDraft   = "saved.pb.new"
	MarkFile     = "saving.json"
	DiskFile     = "disk.ext4"
	DiskDir      = "disk" // where it is mounted, for the supervisor alone
	JobRun       = "run"  // in it
	RunDir       = DiskDir + "/" + JobRun
	JobSocket    = "job.sock" // in run
)

const JobsDir = "jobs"

// Prefixes of directories that are not an allocation yet, or no longer one.
const (
	NewPrefix  = ".new-"
	GonePrefix = ".gone-"
)

var allocName = regexp.MustCompile(`^([0-9]{1,10})\.([0-9]{1,10})$`)

func ID(id *pb.AllocId) string {
	return strconv.FormatUint(uint64(id.GetJob()), 10) + "." + strconv.FormatUint(uint64(id.GetEpoch()), 10)
}

func At(stateDir string, id *pb.AllocId) Dir {
	return Dir(filepath.Join(stateDir, JobsDir, ID(id)))
}

func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

func (d Dir) ID() string { return filepath.Base(string(d)) }

// ParseID answers what allocation has the name, or nil.
func ParseID(name string) *pb.AllocId {
	match := allocName.FindStringSubmatch(name)
	if match == nil {
		return nil
	}
	job, err := strconv.ParseUint(match[1], 10, 32)
	epoch, err2 := strconv.ParseUint(match[2], 10, 32)
	id := &pb.AllocId{Job: uint32(job), Epoch: uint32(epoch)}
	if err != nil || err2 != nil || ID(id) != name {
		return nil // too large, or with zeros in front
	}
	return id
}

// Listening is what a supervisor says on its standard output once its socket
// answers.
const Listening = "listening\n"
