package checkpoint

import (
	"fmt"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
)

// checkPeers refuses an image with a socket of which the other end is in no
// process: a connection that was just being made or closed. CRIU writes such an
// image, and cannot restore it.
func checkPeers(images string) error {
	files, err := readEntries[fdinfo.FileEntry](filepath.Join(images, filesImage))
	if err != nil {
		return err
	}
	there, peers := map[uint32]bool{}, map[uint32]uint32{}
	for _, file := range files {
		if socket := file.GetUsk(); socket != nil {
			there[socket.GetIno()] = true
			if peer := socket.GetPeer(); peer != 0 {
				peers[socket.GetIno()] = peer
			}
		}
	}
	for socket, peer := range peers {
		if !there[peer] {
			return fmt.Errorf("%w: a connection (socket %d) whose other end no process has", ErrBetween, socket)
		}
	}
	return nil
}

// filesImage has an entry for each open file.
const filesImage = "files.img"
