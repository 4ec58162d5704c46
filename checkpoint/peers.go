package checkpoint

import (
	"fmt"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"google.golang.org/protobuf/proto"
)

// checkPeers refuses an image with a socket of which the other end is in no
// process: a connection that was just being made or closed. CRIU writes such an
// image, and cannot restore it.
func checkPeers(images string) error {
	there, peers := map[uint32]bool{}, map[uint32]uint32{}
	err := rewriteImage(filepath.Join(images, "files.img"), func() proto.Message { return new(fdinfo.FileEntry) }, func(entry proto.Message) bool {
		if socket := entry.(*fdinfo.FileEntry).GetUsk(); socket != nil {
			there[socket.GetIno()] = true
			if peer := socket.GetPeer(); peer != 0 {
				peers[socket.GetIno()] = peer
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	for socket, peer := range peers {
		if !there[peer] {
			return fmt.Errorf("%w: a connection (socket %d) whose other end no process has", ErrBetween, socket)
		}
	}
	return nil
}
