package checkpoint

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/tty"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// mendTerminals changes in an image what CRIU would not restore as it was.
func mendTerminals(images string) error {
	if err := giveBackTerminals(images); err != nil {
		return err
	}
	return undoLineEnds(images)
}

// giveBackTerminals gives terminals back to their session's leader if their
// foreground process group has no process: its last one had just ended, and the
// shell not yet taken the terminal back. CRIU can set no such group.
func giveBackTerminals(images string) error {
	entries, err := readImage(filepath.Join(images, "pstree.img"), &pstree.PstreeEntry{})
	if err != nil {
		return err
	}
	groups, leaders := map[uint32]bool{}, map[uint32]uint32{}
	for _, entry := range entries {
		task := entry.(*pstree.PstreeEntry)
		groups[task.GetPgid()] = true
		leaders[task.GetPid()] = task.GetPgid()
	}
	return rewriteImage(filepath.Join(images, terminalsImage), func() proto.Message { return new(tty.TtyInfoEntry) }, func(entry proto.Message) bool {
		terminal := entry.(*tty.TtyInfoEntry)
		group, there := leaders[terminal.GetSid()]
		if terminal.GetPgrp() == 0 || groups[terminal.GetPgrp()] || !there {
			return false
		}
		terminal.Pgrp = &group
		return true
	})
}

// undoLineEnds takes back what terminals have made of the ends of lines in output
// that nobody has read yet. CRIU writes it to the terminal again, which does it
// once more: a line would end in two carriage returns.
func undoLineEnds(images string) error {
	const both = unix.OPOST | unix.ONLCR
	doing := map[uint32]bool{} // by the number of the master's side, at which output is read
	err := rewriteImage(filepath.Join(images, terminalsImage), func() proto.Message { return new(tty.TtyInfoEntry) }, func(entry proto.Message) bool {
		terminal := entry.(*tty.TtyInfoEntry)
		device := uint64(terminal.GetRdev())
		master := unix.Major(device) == majorTTY && unix.Minor(device) == minorPtmx
		doing[terminal.GetId()] = master && terminal.GetTermios().GetCOflag()&both == both
		return false
	})
	if err != nil {
		return fmt.Errorf("terminals: %w", err)
	}
	return rewriteImage(filepath.Join(images, "tty-data.img"), func() proto.Message { return new(tty.TtyDataEntry) }, func(entry proto.Message) bool {
		queued := entry.(*tty.TtyDataEntry)
		if !doing[queued.GetTtyId()] || !bytes.Contains(queued.Data, []byte("\r\n")) {
			return false
		}
		queued.Data = bytes.ReplaceAll(queued.Data, []byte("\r\n"), []byte("\n"))
		return true
	})
}

// terminalsImage has an entry for each side of each terminal.
const terminalsImage = "tty-info.img"
