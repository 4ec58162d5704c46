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

// listenersFirst puts the sockets that listen before all other files if one of them
// comes behind a connection that waits to be accepted by it: CRIU looks for the
// listening socket among those that it has read already.
func listenersFirst(images string) error {
	path := filepath.Join(images, filesImage)
	magic, texts, err := splitEntries(path)
	if err != nil {
		return err
	}
	var listening, others [][]byte
	awaited, late := map[uint32]bool{}, false // listening sockets with a connection before them
	for _, text := range texts {
		file, err := decodeEntry[fdinfo.FileEntry](path, text)
		if err != nil {
			return err
		}
		socket := file.GetUsk()
		if socket == nil || socket.GetState() != unixListens {
			others = append(others, text)
			awaited[socket.GetPeer()] = true
			continue
		}
		listening = append(listening, text)
		late = late || awaited[socket.GetIno()]
	}
	if !late {
		return nil
	}
	return writeEntries(path, magic, append(listening, others...))
}

// unixListens is the state of a UNIX socket that listens: TCP_LISTEN of the kernel's
// tcp_states.h.
const unixListens = 10

// filesImage has an entry for each open file.
const filesImage = "files.img"
