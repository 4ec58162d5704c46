package checkpoint

import (
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/pstree"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/tty"
	"google.golang.org/protobuf/proto"
)

// mendTerminals gives terminals in an image back to their session's leader if
// their foreground process group has no process: its last one had just ended,
// and the shell not yet taken the terminal back. CRIU can set no such group.
func mendTerminals(images string) error {
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
	return rewriteImage(filepath.Join(images, "tty-info.img"), func() proto.Message { return new(tty.TtyInfoEntry) }, func(entry proto.Message) bool {
		terminal := entry.(*tty.TtyInfoEntry)
		group, there := leaders[terminal.GetSid()]
		if terminal.GetPgrp() == 0 || groups[terminal.GetPgrp()] || !there {
			return false
		}
		terminal.Pgrp = &group
		return true
	})
}
