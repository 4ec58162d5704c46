package checkpoint

import (
	"fmt"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	sk_unix "github.com/checkpoint-restore/go-criu/v8/crit/images/sk-unix"
)

// mendSockets refuses an image with a socket whose other end no process has: a
// connection that was just being made or closed. CRIU writes such an
// image, and cannot restore it. And if a listening socket comes after a connection
// that waits for it to accept, mendSockets puts the listening sockets before all other
// files: CRIU looks for the listening socket only among those that it has already read.
func mendSockets(images string) error {
	path := filepath.Join(images, filesImage)
	magic, texts, err := splitEntries(path)
	if err != nil {
		return err
	}
	sockets := make([]*sk_unix.UnixSkEntry, len(texts)) // nil: a file of another kind
	place := map[uint32]int{}
	for i, text := range texts {
		file, err := decodeEntry[fdinfo.FileEntry](path, text)
		if err != nil {
			return err
		}
		if sockets[i] = file.GetUsk(); sockets[i] != nil {
			place[sockets[i].GetIno()] = i
		}
	}
	late := false
	for i, socket := range sockets {
		peer := socket.GetPeer()
		at, there := place[peer]
		if peer != 0 && !there {
			return fmt.Errorf("%w: a connection (socket %d) whose other end no process has", ErrBetween, socket.GetIno())
		}
		late = late || peer != 0 && at > i && sockets[at].GetState() == unixListens
	}
	if !late {
		return nil
	}
	var listening, others [][]byte
	for i, text := range texts {
		if sockets[i].GetState() == unixListens {
			listening = append(listening, text)
		} else {
			others = append(others, text)
		}
	}
	return writeEntries(path, magic, append(listening, others...))
}

// unixListens is the state of a UNIX socket that listens: TCP_LISTEN of the kernel's
// tcp_states.h.
const unixListens = 10

// filesImage has an entry for each open file.
const filesImage = "files.img"
