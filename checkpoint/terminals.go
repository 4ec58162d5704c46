package checkpoint

import (
	"bytes"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/tty"
	"golang.org/x/sys/unix"
)

// mendTerminals changes in an image the terminals that CRIU would restore wrongly.
func mendTerminals(images string) error {
	if err := giveBackTerminals(images); err != nil {
		return err
	}
	return undoLineEnds(images)
}

// giveBackTerminals gives terminals back to their session's leader if their
// foreground process group has no process. The last one had just ended, and the shell
// had not yet taken the terminal back. CRIU cannot set such a group.
func giveBackTerminals(images string) error {
	tasks, err := readEntries[pstree.PstreeEntry](filepath.Join(images, treeImage))
	if err != nil {
		return err
	}
	groups, leaders := map[uint32]bool{}, map[uint32]uint32{}
	for _, task := range tasks {
		groups[task.GetPgid()] = true
		leaders[task.GetPid()] = task.GetPgid()
	}
	return changeEntries(filepath.Join(images, terminalsImage), func(terminal *tty.TtyInfoEntry) bool {
		group, there := leaders[terminal.GetSid()]
		if terminal.GetPgrp() == 0 || groups[terminal.GetPgrp()] || !there {
			return false
		}
		terminal.Pgrp = &group
		return true
	})
}

// undoLineEnds undoes what terminals did to the line ends of output that nobody has
// read yet. CRIU writes this output to the terminal again, which would do the same
// once more: a line would end in two carriage returns.
func undoLineEnds(images string) error {
	const both = unix.OPOST | unix.ONLCR
	terminals, err := readEntries[tty.TtyInfoEntry](filepath.Join(images, terminalsImage))
	if err != nil {
		return err
	}
	doing := map[uint32]bool{} // by the number of the master's side, at which output is read
	for _, terminal := range terminals {
		device := uint64(terminal.GetRdev())
		master := unix.Major(device) == majorTTY && unix.Minor(device) == minorPtmx
		doing[terminal.GetId()] = master && terminal.GetTermios().GetCOflag()&both == both
	}
	return changeEntries(filepath.Join(images, "tty-data.img"), func(queued *tty.TtyDataEntry) bool {
		if !doing[queued.GetTtyId()] || !bytes.Contains(queued.Data, []byte("\r\n")) {
			return false
		}
		queued.Data = bytes.ReplaceAll(queued.Data, []byte("\r\n"), []byte("\n"))
		return true
	})
}

// terminalsImage has an entry for each side of each terminal.
const terminalsImage = "tty-info.img"
