package noded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/owner"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/openers"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file looks for what takes the node back by itself, where its owner wants that: a
// process that is not Gleaner's and has a GPU open, and the owner's people at a terminal.
// Package owner decides what follows.

const (
	// triggersEvery is how often it is looked.
	triggersEvery = 2 * time.Second
	// activeFor is how long after its last sign a terminal counts as used.
	activeFor = time.Minute
	// loginsFile is that of utmp(5), and maxLoginsBytes bounds what is read of it.
	loginsFile     = "/var/run/utmp"
	maxLoginsBytes = 1 << 20
)

func (a *agent) lookForTriggers() {
	a.mu.Lock()
	gpus := a.owned.owner.Watches(pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS)
	logins := a.owned.owner.Watches(pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN)
	people := a.owned.owner.Ledger().GetRules().GetPeople()
	a.mu.Unlock()
	var seen []owner.Sight
	if gpus {
		sight, err := a.foreignProcess()
		if err != nil {
			a.log.Warn("cannot see which processes use the GPUs of this node, for its owner: that is tried again", "error", err)
		} else {
			seen = append(seen, sight)
		}
	}
	if logins {
		seen = append(seen, loginsNow(people))
	}
	for _, sight := range seen {
		a.changeOwned(func(o *owner.Owner, now owner.Time) bool { return o.Look(sight, now) })
	}
}

// foreignProcess looks for a process that has a GPU open and is not Gleaner's.
func (a *agent) foreignProcess() (owner.Sight, error) {
	sight := owner.Sight{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS}
	found, err := a.machine.source.Devices()
	if err != nil {
		return sight, err
	}
	pids, err := foreignPIDs(a.machine.config.CgroupParent)
	if err != nil {
		return sight, err
	}
	opener, err := openers.Find(pids, gpuFiles(found))
	if err != nil || opener == nil {
		return sight, err
	}
	sight.Seen, sight.Detail = true, fmt.Sprintf("process %d (%s) has %s open", opener.PID, opener.Program, opener.Path)
	return sight, nil
}

func gpuFiles(devices []gpu.Device) []openers.Device {
	var files []openers.Device
	for i := range devices {
		if f := devices[i].File; !f.Companion {
			files = append(files, openers.Device{Type: 'c', Major: uint32(f.Major), Minor: uint32(f.Minor)})
		}
	}
	return files
}

// Of a record of utmp(5), as it is on Linux.
const (
	loginBytes  = 384
	userProcess = 7
)

// loginsNow looks who is logged in.
func loginsNow(people []string) owner.Sight {
	records, _ := bundle.ReadRegular(loginsFile, maxLoginsBytes) // without it nobody is logged in
	return loginSight(records, people, lastUse, time.Now())
}

// loginSight looks for a login of one of the people, at a terminal that was used a short
// while ago.
func loginSight(records []byte, people []string, used func(line string) time.Time, now time.Time) owner.Sight {
	sight := owner.Sight{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN}
	for ; len(records) >= loginBytes; records = records[loginBytes:] {
		if binary.NativeEndian.Uint16(records) != userProcess {
			continue
		}
		line, name := cString(records[8:40]), cString(records[44:76])
		if _, theirs := slices.BinarySearch(people, name); !theirs || strings.Contains(line, "..") {
			continue
		}
		if now.Sub(used(line)) < activeFor {
			sight.Seen, sight.By, sight.Detail = true, name, "on "+line
			return sight
		}
	}
	return sight
}

// lastUse is when somebody last typed at a terminal.
func lastUse(line string) time.Time {
	var stat unix.Stat_t
	if err := unix.Lstat("/dev/"+line, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFCHR {
		return time.Time{}
	}
	return time.Unix(stat.Atim.Unix())
}

func cString(field []byte) string {
	text, _, _ := bytes.Cut(field, []byte{0})
	return string(text)
}
